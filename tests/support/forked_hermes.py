"""``hermes`` processes without the start of an interpreter for each: they are forked from one that imported everything.

They are real processes with their own working directory, environment and streams. What depends on how an interpreter
starts (its locale, its options, what it imports) needs a fresh one, see ``hermes_command``.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

#: Modules that most commands need.
_MODULES = ("hermes.cli.chat.command", "hermes.host", "hermes.log", "hermes.config.check", "hermes.http.pool", "yaml")
#: Variables that an interpreter, or a module of ours, reads when it starts.
_READ_AT_START = ("PYTHON", "LC_", "LANG", "HERMES_CRASH_AT", "TZ")


def can_fork(env: Mapping[str, str]) -> bool:
    """Whether a process with these variables may be forked from one that has started without them."""
    return not any(name.startswith(_READ_AT_START) for name in env)


def run_forked(
    arguments: tuple[str, ...], cwd: Path, env: Mapping[str, str], stdin: bytes, timeout: float
) -> tuple[int, bytes, bytes]:
    """Run ``hermes`` to its end: its exit code and what it printed. ``TimeoutExpired`` when it takes longer."""
    with (
        tempfile.TemporaryFile() as given,
        tempfile.TemporaryFile() as output,
        tempfile.TemporaryFile() as errors,
        socket.socket(socket.AF_UNIX) as connection,
    ):
        given.write(stdin)
        given.seek(0)
        connection.connect(_address())
        request = {"argv": arguments, "cwd": str(cwd), "env": dict(env)}
        streams = [file.fileno() for file in (given, output, errors)]
        socket.send_fds(connection, [b"\n"], streams)
        connection.sendall(json.dumps(request).encode() + b"\n")
        connection.settimeout(timeout)
        try:
            code = connection.recv(16)
        except TimeoutError:  # closing the connection ends the process
            raise subprocess.TimeoutExpired(arguments, timeout) from None
        for file in (output, errors):
            file.seek(0)
        return int(code), output.read(), errors.read()


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
    exited = os.pidfd_open(child)
    if connection in select.select([exited, connection], [], [])[0]:  # the one who asked is gone
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    with contextlib.suppress(OSError):
        connection.sendall(str(code).encode())
    os._exit(0)


def _become_hermes(request: dict[str, object], streams: list[int]) -> int:
    from hermes.cli.main import main as run

    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.environ.clear()
    os.environ.update(request["env"])  # pyright: ignore[reportArgumentType, reportCallIssue]
    os.chdir(str(request["cwd"]))
    sys.argv = ["hermes", *request["argv"]]  # pyright: ignore[reportGeneralTypeIssues]
    return run()


if __name__ == "__main__":
    sys.exit(main())
