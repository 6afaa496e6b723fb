"""Loading of a plugin that is checked: the cause of a failure, and changes to the process."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from hermes.plugins.registry import LoadedPlugin
from hermes.testing.conformance.host import raised_at
from hermes.testing.conformance.rules import SourceLine


class LoadFailure(logging.Handler):
    """Catches the exception that kept a plugin from loading: the loader logs it and does not keep it."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.error: BaseException | None = None

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[1] is not None:
            self.error = record.exc_info[1]

    @contextlib.contextmanager
    def watching(self) -> Generator[None]:
        log = logging.getLogger("hermes.plugins")
        level = log.level
        log.addHandler(self)
        log.setLevel(logging.DEBUG)
        try:
            yield
        finally:
            log.removeHandler(self)
            log.setLevel(level)


def load_failure(record: LoadedPlugin, failure: LoadFailure, start: SourceLine) -> tuple[str, SourceLine]:
    """Why a plugin cannot be loaded, and the line to look at."""
    error = failure.error
    if isinstance(error, SyntaxError) and error.filename:
        return record.error, SourceLine(error.filename, error.lineno or 1)
    source = SourceLine() if error is None else raised_at(error)
    return record.error, source if source.file else start


@dataclass(frozen=True)
class ProcessState:
    """Things a plugin shares with everything else in the process."""

    folder: str
    environment: dict[str, str]
    path: list[str]
    streams: tuple[Any, ...]
    exception_hooks: tuple[Any, ...]
    log_handlers: list[Any]

    @classmethod
    def now(cls) -> ProcessState:
        return cls(
            os.getcwd(),  # noqa: PTH109  (compared, never used as a path)
            dict(os.environ),
            list(sys.path),
            (sys.stdout, sys.stderr),
            (sys.excepthook, threading.excepthook),
            list(logging.getLogger().handlers),
        )

    def changes(self) -> list[str]:
        """The differences to now, as text."""
        now = ProcessState.now()
        names = sorted(
            name
            for name in self.environment.keys() | now.environment.keys()
            if self.environment.get(name) != now.environment.get(name)
        )
        found = {
            "the working directory": self.folder != now.folder,
            f"the environment ({', '.join(names)})": bool(names),
            "sys.path": self.path != now.path,
            "sys.stdout or sys.stderr": self.streams != now.streams,
            "sys.excepthook or threading.excepthook": self.exception_hooks != now.exception_hooks,
            "the handlers of the root logger": self.log_handlers != now.log_handlers,
        }
        return [what for what, changed in found.items() if changed]
