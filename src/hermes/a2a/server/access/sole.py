"""One server for each home: a second one would take the first one's work for left behind."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Generator
from pathlib import Path

from hermes.errors import HermesError


@contextlib.contextmanager
def only_server(home: Path) -> Generator[None]:
    """Nobody else serves this home while the block runs. The system lets go of it when the process dies."""
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(home / "a2a.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise HermesError(
                f"another A2A server works with {home}; end that one first, or set HERMES_HOME to another folder"
            ) from None
        yield
    finally:
        os.close(descriptor)
