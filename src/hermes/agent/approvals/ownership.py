"""Ownership: the working folder of a session, and what it made in temporary folders."""

from __future__ import annotations

import os
import stat
from functools import partial

from hermes.policy.places import Place

#: A temporary folder with more in it is not looked through.
_MOST_ENTRIES = 2_000


def session_place(folder: str, since: float) -> Place:
    """Where calls of a session that began then may write without being asked about the place."""
    real = os.path.realpath
    temporary = os.environ.get("TMPDIR", "")
    return Place(real(folder), real(temporary) if temporary else "", real, partial(_is_new, since))


def _is_new(since: float, path: str) -> bool:
    """Whether a path is free, or nothing at it and below it has been as it is since before then."""
    waiting, seen = [path], 0
    while waiting:
        here = waiting.pop()
        seen += 1
        try:
            status = os.lstat(here)
            # The time of the last change of any kind, which no program can set; whole seconds on some file systems.
            if seen > _MOST_ENTRIES or status.st_ctime < since - 1:
                return False
            if stat.S_ISDIR(status.st_mode):
                with os.scandir(here) as entries:
                    waiting += [entry.path for entry in entries]
        except FileNotFoundError:
            continue
        except (OSError, ValueError):
            return False
    return True
