"""A lock that allows one server of a kind per home."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Generator
from pathlib import Path

from hermes.base.errors import HermesError


@contextlib.contextmanager
def single_instance(home: Path, name: str, what: str) -> Generator[None]:
    """Hold the lock ``NAME.lock`` in the home; ``HermesError`` when another process holds it.

    The system releases it when the process dies. A second server would take up the running turns of the first one.
    """
    try:
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(home / f"{name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise HermesError(
            f"the home {home} cannot be written: {error.strerror}; make it writable, or set HERMES_HOME to another "
            f"folder"
        ) from None
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise HermesError(
                f"another {what} uses {home}; stop that one first, or set HERMES_HOME to another folder"
            ) from None
        yield
    finally:
        os.close(descriptor)
