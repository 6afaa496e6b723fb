"""Crash points: the places where a test can end the process as ``kill -9`` would.

``HERMES_CRASH_AT=7`` kills the process at the seventh point it reaches. There is a point before and after every commit
and every effect, so that resuming can be proven from each of them.
"""

from __future__ import annotations

import itertools
import os
import signal

_wanted = os.environ.get("HERMES_CRASH_AT", "")
_target = int(_wanted) if _wanted.isdecimal() else 0
_reached = itertools.count(1)


def crash_point() -> None:
    """Die here when this is the point that was asked for; otherwise do nothing."""
    if _target and next(_reached) == _target:
        os.kill(os.getpid(), signal.SIGKILL)
