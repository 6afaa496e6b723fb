"""Workspace guard: the file tools of a caller cannot leave its folder."""

# Paths are strings here, because Path is slow.

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Iterable
from pathlib import Path

from hermes.tools.files.guard import FileGuard

#: The request of ``fcntl`` that gives the path of an open file on macOS, and its size.
_F_GETPATH = 50
_PATH_BYTES = 1_024


class WorkspaceGuard(FileGuard):
    """Refuses every path outside of one folder, links followed, and else what the guard of the host refuses."""

    def __init__(self, guard: FileGuard, workspace: Path | str, readable: Iterable[Path | str] = ()) -> None:
        super().__init__()
        self._guard = guard
        self._workspace = os.path.realpath(workspace)
        #: Folders that may be read but not written.
        self._readable = tuple(os.path.realpath(folder) for folder in readable)

    def protect(self, *paths: Path | str) -> None:
        self._guard.protect(*paths)

    @property
    def of_host(self) -> FileGuard:
        return self._guard

    def outside(self, path: Path | str) -> str | None:
        return self._refused(path, os.path.realpath(path), self._workspace, *self._readable)

    def refusal_of_open(self, descriptor: int) -> str | None:
        found = opened_path(descriptor)
        return self._refused(found, found, self._workspace, *self._readable)

    def refusal(self, path: Path | str, status: os.stat_result | None = None) -> str | None:
        return self.outside(path) or self._guard.refusal(path, status)

    def refusal_to_write(self, path: Path | str) -> str | None:
        return self._refused(path, os.path.realpath(path), self._workspace) or self._guard.refusal_to_write(path)

    def _refused(self, path: Path | str, real: str, *folders: str) -> str | None:
        if any(real == folder or real.startswith(os.path.join(folder, "")) for folder in folders):
            return None
        return f"{path} is outside of the workspace {self._workspace}; file tools do not leave it here"


def opened_path(descriptor: int) -> str:
    """The real path of an open file."""
    if sys.platform == "darwin":
        return os.fsdecode(fcntl.fcntl(descriptor, _F_GETPATH, bytes(_PATH_BYTES)).rstrip(b"\0"))
    return os.path.realpath(f"/proc/self/fd/{descriptor}")
