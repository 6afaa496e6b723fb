"""A lock that allows one server of a kind per home."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

from hermes.base.config.files import file_lock
from hermes.base.errors import HermesError


def single_instance(home: Path, name: str, what: str) -> AbstractContextManager[None]:
    """Hold the lock ``NAME.lock`` in the home; ``HermesError`` when another process holds it.

    The system releases it when the process dies. A second server would take up the running turns of the first one.
    """

    def failed(error: OSError) -> HermesError:
        if isinstance(error, TimeoutError):
            why = f"another {what} uses {home}; stop that one first"
        else:
            why = f"the home {home} cannot be written: {error.strerror}; make it writable"
        return HermesError(f"{why}, or set HERMES_HOME to another folder")

    return file_lock(home / f"{name}.lock", failed, seconds=0)
