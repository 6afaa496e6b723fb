"""The program of bubblewrap, which the owner installs: where systems keep it."""

# Imported at every start, so it imports nothing.

from __future__ import annotations

import os

#: PATH may begin with folders that an earlier command could write to.
_PLACES = ("/usr/bin/bwrap", "/bin/bwrap", "/usr/local/bin/bwrap", "/run/current-system/sw/bin/bwrap")


def find_bubblewrap() -> str | None:
    """The program, or None when it is not installed. Whether it works is for a probe to find out."""
    return next((path for path in _PLACES if os.path.isfile(path) and os.access(path, os.X_OK)), None)
