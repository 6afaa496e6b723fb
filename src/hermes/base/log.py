"""The log file: one redacted line per event, shared by every process that uses the same home."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import time
import traceback
from pathlib import Path

from hermes.base.sanitize import Redactor
from hermes.base.scope import current_scope

#: Only these loggers are configured; the root logger belongs to the embedding program.
LOGGERS = ("hermes", "hermes_plugins", "agent")
MAX_BYTES = 5_000_000
BACKUPS = 3
MAX_LINE_CHARS = 32_000
#: How long the open file is taken for the one that has the name. What is written meanwhile is in the older file.
LOOK_SECONDS = 0.05
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")

#: Everything that could end a line early or drive the terminal that shows it.
_ESCAPES = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0))} | {
    0x09: "\t",
    0x0A: "\\n",
    0x0D: "\\r",
    0x2028: "\\u2028",
    0x2029: "\\u2029",
}


def log_path(home: Path) -> Path:
    """Where the log of a home is."""
    return home / "logs" / "agent.log"


def rotated(path: Path, number: int) -> Path:
    """The name of an older part of the log; 1 is the newest of them."""
    return path.with_name(f"{path.name}.{number}")


def setup_logging(home: Path, verbose: bool = False, *, redactor: Redactor | None = None) -> None:
    """Send the runtime's log to the home's file and, when verbose, to stderr as well.

    Calling it again replaces what the last call set up. No file is made before the first line.
    """
    close_logging()
    formatter = LineFormatter(redactor or Redactor())
    handlers: list[logging.Handler] = [_FileHandler(LogFile(log_path(home)))]
    if verbose:
        handlers.append(_StderrHandler())
    wanted = os.environ.get("HERMES_LOG_LEVEL", "").strip().upper()
    level = wanted if wanted in LEVELS else "INFO"
    for handler in handlers:
        handler.setFormatter(formatter)
    for name in LOGGERS:
        logger = logging.getLogger(name)
        logger.setLevel(level)
        # A plugin that configures the root logger must not make every line appear twice.
        logger.propagate = False
        for handler in handlers:
            logger.addHandler(handler)
    if wanted and wanted != level:
        logging.getLogger("hermes.log").warning(
            "HERMES_LOG_LEVEL is %r; allowed: %s. Using INFO.", wanted, ", ".join(LEVELS)
        )


def discard_log() -> None:
    """Write the log nowhere, for commands that leave nothing behind. Otherwise warnings go to stderr as they are."""
    for name in LOGGERS:
        logger = logging.getLogger(name)
        if not any(isinstance(handler, logging.NullHandler) for handler in logger.handlers):
            logger.addHandler(logging.NullHandler())


def close_logging() -> None:
    """Undo ``setup_logging``: close the file and leave the loggers as they were."""
    for name in LOGGERS:
        logger = logging.getLogger(name)
        for handler in list(logger.handlers):
            if isinstance(handler, (_FileHandler, _StderrHandler)):
                logger.removeHandler(handler)
                handler.close()
                logger.setLevel(logging.NOTSET)
                logger.propagate = True


class LineFormatter(logging.Formatter):
    """Time, level, session or turn, logger and message on one line, without secrets."""

    def __init__(self, redactor: Redactor) -> None:
        super().__init__()
        self._redactor = redactor

    def format(self, record: logging.LogRecord) -> str:
        from datetime import datetime  # many commands write no line

        text = _message(record)
        if record.exc_info and record.exc_info[0] is not None:
            text += "\n" + "".join(traceback.format_exception(*record.exc_info)).rstrip()
        if record.stack_info:
            text += "\n" + record.stack_info
        if len(text) > MAX_LINE_CHARS:
            # The redactor must see a little more than is kept, or it would miss a secret cut in two.
            kept = self._redactor.redact(text[: MAX_LINE_CHARS + 4_096])[:MAX_LINE_CHARS]
            text = f"{kept}…[{len(text) - MAX_LINE_CHARS} more characters]"
        else:
            text = self._redactor.redact(text)
        at = datetime.fromtimestamp(record.created).astimezone().isoformat(timespec="milliseconds")
        head = f"{at} {record.levelname} [{_ids(record)}] {record.name}: "
        line = head + text
        return line if line.isprintable() else line.translate(_ESCAPES)


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception as error:
        # A badly written log call must not break the work it reports on, nor go unseen.
        return f"{record.msg!r} (its arguments do not fit: {type(error).__name__})"


def _ids(record: logging.LogRecord) -> str:
    """The turn, whose id begins with that of its session; outside turns the session."""
    explicit: object = getattr(record, "session_id", None)
    turn: object = getattr(record, "turn_id", None)
    scope = current_scope.get()
    session = str(explicit or (scope.session_id if scope else "") or "-")
    if not turn and scope is not None and session == scope.session_id:
        turn = scope.turn_id
    if not turn:
        return session
    return str(turn) if str(turn).startswith(f"{session}:") else f"{session}:{turn}"


class _FileHandler(logging.Handler):
    """Writes to the log file; a failure is reported once, then the handler is silent."""

    def __init__(self, file: LogFile) -> None:
        super().__init__()
        self._file = file
        self._failed = False

    def emit(self, record: logging.LogRecord) -> None:
        if self._failed:
            return
        try:
            line = self.format(record)
            self._file.write(line.encode("utf-8", "backslashreplace") + b"\n")
        except OSError as error:
            self._failed = True
            with contextlib.suppress(OSError, ValueError):
                reason = error.strerror or type(error).__name__
                sys.stderr.write(f"Warning: cannot write {self._file.path} ({reason}); going on without a log.\n")

    def close(self) -> None:
        self._file.close()
        super().close()


class _StderrHandler(logging.Handler):
    """Shows the log on the terminal."""

    def emit(self, record: logging.LogRecord) -> None:
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.write(self.format(record) + "\n")


class LogFile:
    """A file that several processes append whole lines to, rotated by size.

    Each line is one ``write`` in append mode, which the kernel does not mix with others. The file under the name is
    compared with the open one before a line, unless that was done a moment ago: a process follows another's rotation.
    """

    def __init__(
        self, path: Path, *, max_bytes: int = MAX_BYTES, backups: int = BACKUPS, look_seconds: float = LOOK_SECONDS
    ) -> None:
        self.path = path
        self._max_bytes = max_bytes
        self._backups = backups
        self._look_seconds = look_seconds
        self._fd: int | None = None
        self._opened: tuple[int, int] | None = None
        #: The size of the file, without what other processes wrote since the last look at it.
        self._size = 0
        self._look_again_at = 0.0

    def write(self, line: bytes) -> None:
        fd = self._current()
        if self._size and self._size + len(line) > self._max_bytes:
            self._rotate(fd)
            self._look_again_at = 0.0
            fd = self._current()
        self._size += len(line)
        while line:
            line = line[os.write(fd, line) :]

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _current(self) -> int:
        """The descriptor of the file that has the name now."""
        now = time.monotonic()
        if self._fd is not None:
            if now < self._look_again_at:
                return self._fd
            self._look_again_at = now + self._look_seconds
            named = _named(self.path)
            if named is not None and _identity(named) == self._opened:
                self._size = named.st_size
                return self._fd
            self.close()
        # The first line may be what makes the home; it is as private as the log (the mode holds for the last folder).
        for folder in (self.path.parent.parent, self.path.parent):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._fd = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        opened = os.fstat(self._fd)
        self._opened, self._size = _identity(opened), opened.st_size
        self._look_again_at = now + self._look_seconds
        return self._fd

    def _rotate(self, fd: int) -> None:
        from hermes.base.config.files import file_lock

        # No waiting here: a process that finds the lock taken continues to write, and another one rotates.
        lock = self.path.with_name(f".{self.path.name}.lock")
        with contextlib.suppress(OSError), file_lock(lock, OSError, seconds=0):
            named = _named(self.path)
            if named is not None and _identity(named) == _identity(os.fstat(fd)):
                self._shift()

    def _shift(self) -> None:
        for number in range(self._backups, 1, -1):
            with contextlib.suppress(FileNotFoundError):
                rotated(self.path, number - 1).replace(rotated(self.path, number))
        self.path.replace(rotated(self.path, 1))


def _named(path: Path) -> os.stat_result | None:
    """The file that has that name now."""
    try:
        return path.stat()
    except FileNotFoundError:
        return None


def _identity(file: os.stat_result) -> tuple[int, int]:
    return file.st_dev, file.st_ino
