"""A lock that allows one server of a kind per home."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from pathlib import Path

from hermes.base.config.files import file_lock
from hermes.base.errors import HermesError


@contextlib.contextmanager
def single_instance(home: Path, name: str, what: str) -> Generator[None]:
    """Hold the lock ``NAME.lock`` in the home; ``HermesError`` when another process holds it.

    The system releases it when the process dies. A second server would take up the running turns of the first one.
    """
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(file_lock(home / f"{name}.lock", seconds=0))
        except TimeoutError:
            raise HermesError(
                f"another {what} uses {home}; stop that one first, or set HERMES_HOME to another folder"
            ) from None
        except OSError as error:
            raise HermesError(
                f"the home {home} cannot be written: {error.strerror}; make it writable, or set HERMES_HOME to another "
                f"folder"
            ) from None
        yield
