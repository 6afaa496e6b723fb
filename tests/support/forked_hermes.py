"""``hermes`` processes without the start of an interpreter for each: they are forked from one that imported everything.

They are real processes with their own working directory, environment and streams. What depends on how an interpreter
starts (its locale, its options, what it imports) needs a fresh one, see ``hermes_command``.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import functools
import io
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import termios
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

#: Modules that most commands need.
_MODULES = (
    *(
        "hermes.surfaces.cli.chat.command",
        "hermes.surfaces.cli.repl.app",
        "hermes.host",
        "hermes.base.log",
        "hermes.base.config.check",
    ),
    *("hermes.base.http.pool", "yaml"),
)
#: Variables that an interpreter reads when it starts.
_READ_AT_START = ("PYTHON", "LC_", "LANG", "TZ")
#: Such a variable with a value that changes nothing for a process that was started without it.
_NO_MATTER = ("LC_ALL", "C.UTF-8")
#: How many bytes of an answer have the id of a process, and its exit code.
_NUMBER = 16


def can_fork(env: Mapping[str, str]) -> bool:
    """Whether a process with these variables may be forked from one that has started without them."""
    return not any(item[0].startswith(_READ_AT_START) and item != _NO_MATTER for item in env.items())


class ForkedHermes:
    """A ``hermes`` process. It ends with the process that asked for it, and when this is closed."""

    def __init__(
        self,
        arguments: tuple[str, ...],
        cwd: Path,
        env: Mapping[str, str],
        streams: tuple[int, int, int],
        *,
        takes_terminal: bool = False,
    ) -> None:
        """``streams`` are its input, output and errors; ``takes_terminal`` makes its input its controlling terminal.

        ``python-api`` instead of a command is a program that embeds Hermes, see ``_use_python_api``.
        """
        self._arguments = arguments
        self.returncode: int | None = None
        self._reading = threading.Lock()
        self._connection = socket.socket(socket.AF_UNIX)
        self._connection.connect(_address())
        request = {"argv": arguments, "cwd": str(cwd), "env": dict(env), "takes_terminal": takes_terminal}
        socket.send_fds(self._connection, [b"\n"], list(streams))
        self._connection.sendall(json.dumps(request).encode() + b"\n")
        self.pid = self._number()

    def poll(self) -> int | None:
        """The exit code; None while it runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end: the exit code. ``TimeoutExpired`` when it takes longer. Several threads may wait."""
        if self.returncode is None and timeout is not None:
            with contextlib.suppress(ValueError):  # another thread has read the code by now
                if not select.select([self._connection], [], [], timeout)[0]:
                    raise subprocess.TimeoutExpired(self._arguments, timeout)
        with self._reading:
            if self.returncode is None:
                self.returncode = self._number()
                self._connection.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> int:
        """Kill it, if it has not ended: the exit code."""
        self.send_signal(signal.SIGKILL)
        return self.wait()

    def close(self) -> None:
        """Let it be killed."""
        self._connection.close()

    def _number(self) -> int:
        return int(self._connection.recv(_NUMBER, socket.MSG_WAITALL))


def run_forked(
    arguments: tuple[str, ...], cwd: Path, env: Mapping[str, str], stdin: bytes, timeout: float
) -> tuple[int, bytes, bytes]:
    """Run ``hermes`` to its end: its exit code and what it printed. ``TimeoutExpired`` when it takes longer."""
    with (
        tempfile.TemporaryFile() as given,
        tempfile.TemporaryFile() as output,
        tempfile.TemporaryFile() as errors,
    ):
        given.write(stdin)
        given.seek(0)
        process = ForkedHermes(arguments, cwd, env, (given.fileno(), output.fileno(), errors.fileno()))
        with contextlib.closing(process):
            code = process.wait(timeout)
        for file in (output, errors):
            file.seek(0)
        return code, output.read(), errors.read()


@functools.cache
def _address() -> str:
    """Where the forking process of this process listens."""
    from support import recording_environment

    folder = tempfile.TemporaryDirectory(prefix="hermes-fork-")
    address = str(Path(folder.name, "socket"))
    sources = Path(__file__).parents[2] / "src"
    process = subprocess.Popen(
        [sys.executable, "-W", "error", __file__, address],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(sources), **recording_environment()},
    )
    assert process.stdin is not None and process.stdout is not None
    assert process.stdout.read(1) == b"."

    def close() -> None:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.close()
        process.stdout.close()
        process.wait()
        folder.cleanup()

    atexit.register(close)
    return address


def main() -> int:
    """The forking process. It ends with its input. In each child this returns the exit code of ``hermes``."""
    import importlib

    for name in _MODULES:
        importlib.import_module(name)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(sys.argv[1])
        listener.listen()
        sys.stdout.write(".")
        sys.stdout.flush()
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the system collects the children
        while True:
            ready, _, _ = select.select([listener, sys.stdin], [], [])
            if sys.stdin in ready:
                return 0
            connection, _ = listener.accept()
            if os.fork() == 0:
                break
            connection.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    return _serve(connection)


def _serve(connection: socket.socket) -> int:
    _, streams, _, _ = socket.recv_fds(connection, 1, 3)
    with connection.makefile("rb") as lines:
        request = json.loads(lines.readline())
    child = os.fork()
    if child == 0:
        connection.close()
        return _become_hermes(request, streams)
    for stream in streams:
        os.close(stream)
    _answer(connection, child)
    exited = os.pidfd_open(child)
    if connection in select.select([exited, connection], [], [])[0]:  # the one who asked is gone
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
    _answer(connection, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    os._exit(0)


def _answer(connection: socket.socket, number: int) -> None:
    with contextlib.suppress(OSError):
        connection.sendall(str(number).encode().ljust(_NUMBER))


def _become_hermes(request: dict[str, Any], streams: list[int]) -> int:
    from hermes.journal import crash
    from hermes.surfaces.cli.main import main as run

    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    if request["takes_terminal"]:
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    # It was made for what the forking process has as its output.
    cast(io.TextIOWrapper, sys.stdout).reconfigure(line_buffering=os.isatty(1))
    os.environ.clear()
    os.environ.update(request["env"])
    crash._target = int(os.environ.get("HERMES_CRASH_AT") or 0)  # pyright: ignore[reportPrivateUsage]
    os.chdir(request["cwd"])
    sys.argv = ["hermes", *request["argv"]]
    return _use_python_api(*request["argv"][1:]) if request["argv"][:1] == ["python-api"] else run()


def _use_python_api(action: str, subject: str) -> int:
    """A program that embeds Hermes: ``python-api run MESSAGE`` or ``python-api finish SESSION``."""
    import hermes

    with hermes.Agent() as agent:
        if action == "run":
            print(agent.session().run(subject).answer)
        else:
            result = agent.session(subject).finish()
            print("" if result is None else result.answer)
    return 0


if __name__ == "__main__":
    sys.exit(main())
