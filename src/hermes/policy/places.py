"""The working folder and the temporary folders: where a command writes without being asked about the place."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from hermes.policy.shell.marks import UNKNOWNS

_TEMPORARY = ("/tmp", "/var/tmp", "/private/tmp", "/private/var/tmp")
#: Devices and streams; the rules for devices speak of those that matter.
_NO_FILE = re.compile(r"/dev/|/proc/(?:self|\d+)/fd/")
_UNKNOWN_PART = re.compile(f"[{''.join(UNKNOWNS)}*?\\[].*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a command runs. Without the two functions only names count, and no file is looked at."""

    #: The folder that may be changed, as a real path; empty when it is not known: then nothing is outside.
    folder: str = ""
    #: The value of ``TMPDIR``, when there is one.
    temporary: str = ""
    #: The path with its links resolved.
    real: Callable[[str], str] | None = None
    #: Whether nothing at a path is older than the session.
    owns: Callable[[str], bool] | None = None

    def is_outside(self, path: str) -> bool:
        """Whether an absolute path is known to lie outside of the folder, and is no new file of a temporary one."""
        folder = self.folder
        if not folder or _NO_FILE.match(path):
            return False
        known = _UNKNOWN_PART.sub("", path)
        if known != path:
            # What the rest of it names may lie anywhere below.
            known = known.rpartition("/")[0]
            if is_within(folder, known) or not known:
                return False
        elif self.real is not None:
            known = path = self.real(path)
        if is_within(known, folder):
            return False
        root = self._temporary_root(known)
        return not root or (known != root and self.owns is not None and not self.owns(known))

    def is_own(self, path: str) -> bool:
        """Whether an absolute path lies in a temporary folder, and nothing at it is older than the session."""
        if self.owns is None or self.real is None:
            return False
        parent, _, name = path.rpartition("/")
        whole = f"{self.real(parent)}/{name}"
        known = _UNKNOWN_PART.sub("", whole)
        if known != whole:
            known = known.rpartition("/")[0]
        root = self._temporary_root(known)
        return bool(root) and known != root and self.owns(known)

    def _temporary_root(self, path: str) -> str:
        """The temporary folder that a path lies in. One that holds the working folder has the user's work beside it."""
        roots = (*_TEMPORARY, self.temporary) if self.temporary else _TEMPORARY
        return next((root for root in roots if is_within(path, root) and not is_within(self.folder, root)), "")


#: No place of this machine, or none that is known.
NOWHERE = Place()


def is_within(path: str, folder: str) -> bool:
    """Whether an absolute path is the folder, or lies in it."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")
