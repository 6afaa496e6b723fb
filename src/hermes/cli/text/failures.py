"""How a command's failure is told: one line for the person, the details for the log."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TextIO

from hermes.cli.text.terminal import one_line, plain
from hermes.errors import HermesError, Interrupted

INTERRUPTED = 130
#: What a shell reports for a program that wrote into a closed pipe.
OUTPUT_CLOSED = 141


def report(error: BaseException, arguments: list[str]) -> int:
    """Print what went wrong and return the exit code."""
    if isinstance(error, (KeyboardInterrupt, Interrupted)):
        return INTERRUPTED
    if isinstance(error, BrokenPipeError) and _output_is_closed():
        return OUTPUT_CLOSED
    from hermes.sanitize import redact_text

    if isinstance(error, FileNotFoundError) and error.filename is None and not _current_folder_is_there():
        _print_error("the current directory is gone; change to one that exists")
        return 1
    if isinstance(error, HermesError):
        _print_error(plain(redact_text(str(error) or type(error).__name__)))
        return 1
    summary = one_line(redact_text(f"{type(error).__name__}: {error}"))
    _print_error(f"{summary} (details: {_record(error)})")
    if "--verbose" in arguments or "-v" in arguments or os.environ.get("HERMES_DEBUG") == "1":
        import traceback

        print(plain(redact_text("".join(traceback.format_exception(error)))), file=sys.stderr, end="")
    return 1


def _current_folder_is_there() -> bool:
    try:
        os.getcwd()  # noqa: PTH109  (this very call is what failed)
    except FileNotFoundError:
        return False
    return True


def _record(error: BaseException) -> str:
    """Write the traceback to the log and say where it is."""
    import logging

    from hermes.config import hermes_home
    from hermes.log import log_path, setup_logging

    try:
        home = hermes_home()
        setup_logging(home)
        logging.getLogger("hermes").error("unexpected failure", exc_info=error)
        return str(log_path(home))
    except HermesError as second:
        return f"not kept, {second}"


def _print_error(text: str) -> None:
    # What was printed so far comes first; if it cannot be written, the reason still can.
    silence_output()
    with contextlib.suppress(OSError, ValueError):
        print(f"Error: {text}", file=sys.stderr)


def _output_is_closed() -> bool:
    """Whether stdout or stderr is the broken pipe, rather than some other connection."""
    if any(_is_closed(stream) for stream in (sys.stdout, sys.stderr)):
        silence_output()
        return True
    return False


def _is_closed(stream: TextIO) -> bool:
    import io
    import select

    try:
        stream.flush()
        poll = select.poll()
        poll.register(stream.fileno(), 0)
        return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))
    except io.UnsupportedOperation:
        # A stream that is no file cannot be a pipe either.
        return False
    except (OSError, ValueError):
        return True


def silence_output() -> None:
    """Flush both streams. One that cannot be written leads nowhere from now on."""
    for stream in (sys.stdout, sys.stderr):
        if _is_closed(stream):
            # The interpreter flushes once more at exit and would complain.
            devnull = os.open(os.devnull, os.O_WRONLY)
            os.dup2(devnull, stream.fileno())
            os.close(devnull)
