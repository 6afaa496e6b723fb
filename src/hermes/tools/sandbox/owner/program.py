"""The sandbox of a machine as far as every start knows it: the program of bubblewrap, and where a probe is stored."""

# Imported at every start, so it imports nothing heavy.

from __future__ import annotations

import os
from pathlib import Path

#: PATH may begin with folders that an earlier command could write to.
_PLACES = ("/usr/bin/bwrap", "/bin/bwrap", "/usr/local/bin/bwrap", "/run/current-system/sw/bin/bwrap")


def find_bubblewrap() -> str | None:
    """The program, or None when it is not installed. Whether it works is for a probe to find out."""
    return next((path for path in _PLACES if os.path.isfile(path) and os.access(path, os.X_OK)), None)


class SandboxUnavailable(ValueError):
    """The settings ask for a sandbox that this machine does not have: the command must not run."""


def probe_file(hermes_home: Path) -> Path:
    """The file that keeps what a probe of this machine found."""
    return hermes_home / "cache" / "sandbox.json"
