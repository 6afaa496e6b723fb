"""Exit codes, signals, and the report of a command's failure: one line on stderr, the traceback in the log."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Generator
from types import FrameType
from typing import TYPE_CHECKING, TextIO

from hermes.base.errors import HermesError, Interrupted
from hermes.surfaces.cli.terminal import one_line, plain, print_error

if TYPE_CHECKING:
    from hermes.base.sanitize import Redactor
    from hermes.base.scope import Interrupt

EXIT_FAILED = 1
#: The budget is used up; what there is of an answer was given.
EXIT_BUDGET = 3
#: There is an answer, but it is not whole.
EXIT_INCOMPLETE = 4
EXIT_INTERRUPTED = 130
#: As a shell reports SIGPIPE.
EXIT_OUTPUT_CLOSED = 141
EXIT_TERMINATED = 143

#: How long functions that plugins gave to ``atexit`` may take, which may have much to send.
_EXIT_HANDLER_SECONDS = 30.0

OUTPUT_LOST = "the output cannot be written"
NO_MESSAGE = "give a message: hermes chat --query TEXT ('-' reads it from stdin)"


def report(error: BaseException, arguments: list[str]) -> int:
    """Print the error and return the exit code."""
    if isinstance(error, (KeyboardInterrupt, Interrupted)):
        was_ended = isinstance(error, Interrupted) and error.reason == "terminated"
        return EXIT_TERMINATED if was_ended else EXIT_INTERRUPTED
    # Stdout or stderr is the broken pipe, and not some other connection.
    if isinstance(error, BrokenPipeError) and any(map(_is_closed, (sys.stdout, sys.stderr))):
        silence_output()
        return EXIT_OUTPUT_CLOSED
    redact = _redactor().redact

    if isinstance(error, FileNotFoundError) and error.filename is None and not _has_current_folder():
        _print_error("the current directory no longer exists; change to another one")
        return 1
    if isinstance(error, HermesError):
        _print_error(plain(redact(str(error) or type(error).__name__)))
        return 1
    summary = one_line(redact(f"{type(error).__name__}: {error}"))
    _print_error(f"{summary} (details: {_record(error)})")
    if "--verbose" in arguments or "-v" in arguments or os.environ.get("HERMES_DEBUG") == "1":
        import traceback

        print(plain(redact("".join(traceback.format_exception(error)))), file=sys.stderr, end="")
    return 1


def _redactor() -> Redactor:
    """Knows the secrets of the home: what failed may quote one."""
    from hermes.base.config import hermes_home
    from hermes.base.config.secrets import home_redactor
    from hermes.base.sanitize import Redactor

    try:
        return home_redactor(hermes_home())
    except Exception:
        return Redactor()  # the home may be the very thing that failed


def _has_current_folder() -> bool:
    try:
        os.getcwd()  # noqa: PTH109  (this very call is what failed)
    except FileNotFoundError:
        return False
    return True


def _record(error: BaseException) -> str:
    """Write the traceback to the log and return its path."""
    import logging

    from hermes.base.config import hermes_home
    from hermes.base.log import log_path, setup_logging

    try:
        home = hermes_home()
        setup_logging(home, redactor=_redactor())
        logging.getLogger("hermes").error("unexpected failure", exc_info=error)
        path = log_path(home)
        return str(path) if os.access(path, os.W_OK) else f"not logged: {path} cannot be written"
    except HermesError as second:
        return f"not logged: {second}"


def _print_error(text: str) -> None:
    # Earlier output comes first; if it cannot be written, the reason still can.
    silence_output()
    with contextlib.suppress(OSError, ValueError):
        print_error(text)


def _is_closed(stream: TextIO) -> bool:
    import io
    import select

    try:
        stream.flush()
        poll = select.poll()
        poll.register(stream.fileno(), 0)
        return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))
    except io.UnsupportedOperation:
        # A stream that is not a file cannot be a pipe.
        return False
    except (OSError, ValueError):
        return True


def silence_output() -> None:
    """Flush both streams, and redirect one that cannot be written to the null device."""
    for stream in (sys.stdout, sys.stderr):
        if _is_closed(stream):
            # The interpreter flushes once more at exit and would complain.
            devnull = os.open(os.devnull, os.O_WRONLY)
            os.dup2(devnull, stream.fileno())
            os.close(devnull)


def end_in_time(code: int) -> None:
    """End the process when threads or exit handlers that plugins have left still keep it from ending after a while."""
    import threading

    def left() -> list[str]:
        main = threading.main_thread()
        # The interpreter waits for threads that are no daemons. Those of the runtime are.
        return [one.name for one in threading.enumerate() if one is not main and not one.daemon and one.is_alive()]

    def end() -> None:
        import time

        from hermes.base.config import hermes_home, load_config

        try:
            patience = load_config(hermes_home()).config.plugins.exit_timeout
        except Exception:
            patience = 5.0
        time.sleep(patience)
        names = [name for name in left() if not name.startswith("hermes-")]
        if names:
            _end_without(f"threads of plugins have not ended ({plain(', '.join(names))})", code)
        time.sleep(_EXIT_HANDLER_SECONDS)
        if not left():
            _end_without("exit handlers of plugins have not ended", code)

    threading.Thread(target=end, name="hermes-exit", daemon=True).start()


def _end_without(what: str, code: int) -> None:
    _print_error(f"{what}, so the program ends without them; plugins.exit_timeout sets how long it waits for threads")
    silence_output()
    os._exit(code)


@contextlib.contextmanager
def serving_packages(extra: str) -> Generator[None]:
    """Report a missing package of a server, and the extra that installs it."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("hermes"):
            raise
        wanted = "a2a" if error.name.startswith("a2a") else extra
        raise HermesError(
            f"serving needs the package {error.name}, which is not installed; install it with: hermes install {wanted}"
        ) from None


@contextlib.contextmanager
def handled_signals(handler: Callable[[int, FrameType | None], None], *numbers: int) -> Generator[None]:
    """While the block runs, these signals call the handler; without numbers, SIGINT and SIGTERM."""
    before = {number: signal.signal(number, handler) for number in numbers or (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, previous in before.items():
            signal.signal(number, previous)


@contextlib.contextmanager
def cancelled_by_signals(interrupt: Interrupt) -> Generator[None]:
    """Ctrl-C and SIGTERM cancel what follows the interrupt. A second Ctrl-C ends the process at once."""

    def cancel(number: int, _frame: FrameType | None) -> None:
        if interrupt.cancelled and number == signal.SIGINT:
            interrupt.insist()  # its child processes must not outlive it
            if interrupt.is_starting:
                return  # a process is just being started; it is stopped as soon as possible, and the turn with it
            os._exit(EXIT_INTERRUPTED)
        interrupt.cancel("keyboard interrupt" if number == signal.SIGINT else "terminated")

    with handled_signals(cancel, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        yield
