"""The memory of this process, which holds keys: unreadable for the programs that it starts."""

from __future__ import annotations

import os
import sys

_PR_SET_DUMPABLE = 4


def hide_process_memory() -> bool:
    """Make ``/proc/PID/environ``, ``/proc/PID/mem`` and debuggers useless against this process; Linux only.

    Another program of the same user could otherwise read the keys in it. ``HERMES_DEBUG=1`` leaves it open, for
    debuggers. Programs that it starts are as readable as always. Returns whether it is hidden now.
    """
    if not sys.platform.startswith("linux") or os.environ.get("HERMES_DEBUG") == "1":
        return False
    import ctypes

    try:
        return ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0) == 0
    except (OSError, AttributeError):  # a system without it
        return False
