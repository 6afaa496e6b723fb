"""Scripts on disk that a command runs: small ones in the working folder, and any that the session wrote."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hermes.policy.scripts import Script

#: Larger files are programs or data rather than scripts that a model wrote.
_LARGEST = 64_000


class SessionScripts:
    """Reads scripts for the command policy. A script that is younger than the session was written in it."""

    def __init__(self, cwd: str, since: float) -> None:
        self._cwd = cwd
        self._since = since

    def __call__(self, path: str) -> Script | None:
        from hermes.policy.scripts import Script

        try:
            script = Path(path)
            status = script.stat()
            if not stat.S_ISREG(status.st_mode) or status.st_size > _LARGEST:
                return None
            # Whole seconds on some file systems; a move or a copy may keep the time of the content.
            is_new = max(status.st_mtime, status.st_ctime) >= self._since - 1
            if not is_new and not _is_inside(os.path.realpath(path), os.path.realpath(self._cwd)):
                return None
            data = script.read_bytes()[: _LARGEST + 1]
        except (OSError, ValueError):
            return None
        if b"\0" in data[:1_000]:
            return None  # a binary
        return Script(data.decode("utf-8", "replace"), is_new)


def _is_inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
