"""Child processes in their own session and process group; shell commands as child processes."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from typing import IO, TYPE_CHECKING, Literal

from hermes.base.programs import find_program
from hermes.tools.terminal.supervisor import REGISTER, registration_script

if TYPE_CHECKING:
    import subprocess

    from hermes.tools.sandbox.confinement import Confinement
    from hermes.tools.terminal.supervisor import ProcessSupervisor

_CHUNK = 65_536

#: Polling interval where the kernel cannot announce an exit (no pidfd).
_LOOK_EVERY = 0.025
#: For the rest of a group that was killed.
_GROUP_SECONDS = 1.0

#: Register with the supervisor, then become the command.
_REGISTERED = REGISTER + 'exec "$@" 2>&1'
_REGISTERED_SILENT = REGISTER + 'exec "$@" 2>/dev/null'
_REGISTERED_APART = REGISTER + 'exec "$@" 2>"$0"'

#: Makes the pseudo-terminal the controlling one: a session leader without one gets the first it opens.
_ON_TERMINAL = 'terminal=$1; shift; exec "$@" <"$terminal" >"$terminal" 2>&1'


class ChildProcess:
    """A running process, the leader of its own session and process group.

    ``pty`` runs it on a pseudo-terminal instead of pipes, ``errors_to`` is a descriptor for its standard error.
    Reading, waiting and stopping may happen in different threads; ``close`` belongs to the reader. With a
    ``supervisor`` the group does not outlive Hermes.

    ``held_for`` is what has to be done before the command does anything: its shell starts, and waits for ``release``,
    which does it. ``can_hold`` says for which commands. A shell that waits for its command is held by ``hold``.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str] | None = None,
        stdin: Literal["null", "pipe"] = "null",
        pty: bool = False,
        keep_stderr: bool = True,
        errors_to: int | None = None,
        pass_fds: Sequence[int] = (),
        supervisor: ProcessSupervisor | None = None,
        held_for: Callable[[], None] | None = None,
    ) -> None:
        from subprocess import DEVNULL, PIPE, STDOUT

        self._supervisor = supervisor
        self._held_for = held_for
        #: What a held process reads before it goes on.
        self._signal_to_run = b"" if held_for is None else b"\n"
        with nullcontext(None) if supervisor is None else supervisor.registration() as registration:
            if pty:
                self._process, self._output, self._input = _on_terminal(arguments, cwd, env, pass_fds, registration)
            else:
                source = PIPE if stdin == "pipe" or held_for is not None else DEVNULL
                errors = (STDOUT if keep_stderr else DEVNULL) if errors_to is None else errors_to
                if registration is not None:
                    errors = registration
                    if errors_to is not None:
                        pass_fds = (*pass_fds, errors_to)
                        arguments = ["/bin/sh", "-c", _REGISTERED_APART, f"/dev/fd/{errors_to}", *arguments]
                    elif keep_stderr and env is not None and _reads_script(arguments, env):
                        script = registration_script(holds=held_for is not None)
                        env, pass_fds = {**env, "BASH_ENV": f"/dev/fd/{script}"}, (*pass_fds, script)
                    else:
                        assert held_for is None, "a process that reads no script cannot be held"
                        register = _REGISTERED if keep_stderr else _REGISTERED_SILENT
                        arguments = ["/bin/sh", "-c", register, "sh", *arguments]
                self._process = _start(arguments, cwd, env, pass_fds, (source, PIPE, errors))
                self._output, self._input = self._process.stdout, self._process.stdin
        self.pid = self._process.pid
        if supervisor is not None:
            supervisor.add(self.pid)
        self.output_ended = False
        self._pty = pty
        #: Becomes readable when the process exits; -1 where the system has no such descriptor.
        self.exit_descriptor = _exit_descriptor(self.pid)
        if self._input is not None:
            os.set_blocking(self._input.fileno(), False)

    def hold(self, command: bytes, held_for: Callable[[], None] | None) -> None:
        """The process waits for this command on its standard input, and gets it when it is released."""
        self._signal_to_run, self._held_for = command, held_for

    def release(self) -> None:
        """Do what a held process waits for, and let it run. When that fails the process has done nothing: stop it."""
        if self._held_for is not None:
            self._held_for()
            self._held_for = None
        if self._signal_to_run:
            with suppress(OSError):  # it was stopped meanwhile
                self.write(self._signal_to_run, 0)
            self._signal_to_run = b""
            self.close_input()

    def read(self, timeout: float) -> bytes | None:
        """The next piece of output, ``b""`` at its end.

        None when there is nothing yet: after ``timeout`` seconds, or earlier when the process has exited.
        """
        if self.output_ended or self._output is None:
            return b""
        descriptor = self._output.fileno()
        if not self._wait_for(descriptor, timeout):
            return None
        try:
            data = os.read(descriptor, _CHUNK)
        except BlockingIOError:
            return None
        except OSError:  # a pseudo-terminal reports its end as an input/output error
            data = b""
        self.output_ended = not data
        return data

    @property
    def output_descriptor(self) -> int:
        """The descriptor that ``read`` reads, for one who waits for several things."""
        assert self._output is not None
        return self._output.fileno()

    @property
    def input_descriptor(self) -> int:
        """The descriptor that ``write`` writes to, while the input is open."""
        assert self._input is not None
        return self._input.fileno()

    def write(self, data: bytes, timeout: float) -> int:
        """Send ``data`` to the process; how many bytes it took within ``timeout`` seconds."""
        if not self.input_open or self._input is None:
            raise BrokenPipeError
        descriptor = self._input.fileno()
        deadline = time.monotonic() + timeout
        poller = select.poll()
        poller.register(descriptor, select.POLLOUT)
        sent = 0
        while sent < len(data) and poller.poll(max(deadline - time.monotonic(), 0) * 1000):
            with suppress(BlockingIOError):
                sent += os.write(descriptor, data[sent : sent + _CHUNK])
        return sent

    @property
    def input_open(self) -> bool:
        """Whether the process can still be written to, as far as we know."""
        return self._input is not None and not self._input.closed

    def close_input(self) -> None:
        """Close the input of the process."""
        if self._input is not None and not self._input.closed:
            with suppress(OSError):
                if self._pty:
                    os.write(self._input.fileno(), b"\x04")
                self._input.close()

    def exit_code(self) -> int | None:
        """The exit code as a shell reports it (128 + signal), or None while the process runs."""
        code = self._process.poll()
        return code if code is None or code >= 0 else 128 - code

    def wait(self, timeout: float) -> int | None:
        """Wait for the process itself, not for its output. The exit code, or None after ``timeout``."""
        deadline = time.monotonic() + timeout
        while (code := self.exit_code()) is None:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                return None
            self._wait_for(None, remaining)
        return code

    def signal(self, number: int) -> bool:
        """Send a signal to the process group. False when the group is empty."""
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:
            return False
        except PermissionError:  # macOS says so for a group of zombies
            return self.exit_code() is None
        return True

    def stop(self, grace: float = 0.5) -> None:
        """Stop the process group: SIGTERM, then SIGKILL after ``grace`` seconds."""
        import signal

        deadline = time.monotonic() + grace
        alive = self.signal(signal.SIGTERM)
        while alive and time.monotonic() < deadline:
            if self.wait(0.01) is not None:
                time.sleep(0.002)  # the leader is gone; the rest of the group may need a moment
            alive = self.signal(0)
        if alive:
            self.signal(signal.SIGKILL)
        self.wait(5)
        self.wait_for_group(_GROUP_SECONDS if alive else 0)

    def wait_for_group(self, timeout: float) -> bool:
        """Wait for the whole process group; whether it has ended. The first process may end before the others."""
        deadline = time.monotonic() + timeout
        while self.signal(0):
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.002)
        return True

    def close(self) -> None:
        """Close the descriptors; does not stop the process."""
        self.output_ended = True
        self.close_input()
        if self._output is not None:
            self._output.close()
        if self.exit_descriptor >= 0:
            os.close(self.exit_descriptor)
            self.exit_descriptor = -1
        if self._supervisor is not None and self.exit_code() is not None:
            self._supervisor.remove(self.pid)

    def _wait_for(self, descriptor: int | None, timeout: float) -> bool:
        """True when ``descriptor`` has data or an end; returns early when the process exits."""
        poller = select.poll()
        if descriptor is not None:
            poller.register(descriptor, select.POLLIN)
        if self.exit_code() is None:
            if self.exit_descriptor >= 0:
                poller.register(self.exit_descriptor, select.POLLIN)
            else:
                timeout = min(timeout, _LOOK_EVERY)
        ready = poller.poll(max(timeout, 0) * 1000)
        return any(found == descriptor for found, _ in ready)


def check_program(program: str, environment: Mapping[str, str], cwd: str) -> None:
    """The ``OSError`` of a program that cannot be started: a shell before it would only say so in its exit code."""
    import errno
    from shutil import which

    path = os.path.join(cwd, program) if os.sep in program else program
    if which(path, path=environment.get("PATH")) is None:
        number = errno.EACCES if os.sep in program and os.path.exists(path) else errno.ENOENT
        raise OSError(number, os.strerror(number), program)


def _start(
    arguments: Sequence[str],
    cwd: str,
    env: Mapping[str, str] | None,
    pass_fds: Sequence[int],
    streams: tuple[int, int, int],
) -> subprocess.Popen[bytes]:
    import subprocess

    stdin, stdout, stderr = streams
    return subprocess.Popen(
        arguments,
        cwd=cwd,
        env=env,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        bufsize=0,
        start_new_session=True,
        pass_fds=pass_fds,
    )


def _on_terminal(
    arguments: Sequence[str],
    cwd: str,
    env: Mapping[str, str] | None,
    pass_fds: Sequence[int],
    registration: int | None,
) -> tuple[subprocess.Popen[bytes], IO[bytes], IO[bytes]]:
    """Start a process on a new pseudo-terminal: the process, its output and its input."""
    import termios

    master, slave = os.openpty()
    output = open(master, "rb", buffering=0)  # noqa: SIM115  (closed with the child)
    try:
        termios.tcsetwinsize(slave, (40, 120))
        script = _ON_TERMINAL if registration is None else REGISTER + _ON_TERMINAL
        wrapped = ["/bin/sh", "-c", script, "sh", os.ttyname(slave), *arguments]
        errors = slave if registration is None else registration
        process = _start(wrapped, cwd, env, pass_fds, (slave, slave, errors))
    except BaseException:
        output.close()
        raise
    finally:
        os.close(slave)
    return process, output, open(os.dup(master), "wb", buffering=0)


#: Variables with which bash does not read our script, or reads it with other options, limits or functions of the user.
IN_THE_WAY = frozenset({"BASH_ENV", "BASHOPTS", "SHELLOPTS", "POSIXLY_CORRECT", "POSIX_PEDANTIC", "TMOUT"}).union(
    f"BASH_FUNC_{name}%%" for name in ("trap", "echo", "read", "exit", "exec", "unset", "eval", ":")
)


def _reads_script(arguments: Sequence[str], env: Mapping[str, str]) -> bool:
    """Whether the process is a bash that reads ``registration_script`` before the command it is given."""
    return (
        len(arguments) == 3
        and arguments[1] == "-c"
        and os.path.basename(arguments[0]) == "bash"
        and IN_THE_WAY.isdisjoint(env)
        and (os.getuid(), os.getgid()) == (os.geteuid(), os.getegid())
        and registration_script() >= 0
    )


def _exit_descriptor(pid: int) -> int:
    """A descriptor that becomes readable when the process exits, or -1 where the system has none."""
    if hasattr(os, "pidfd_open"):
        with suppress(OSError):
            return os.pidfd_open(pid)
    return -1


#: The kernel accepts single arguments up to 128 KiB; a longer command goes through a file.
_LONGEST_ARGUMENT = 120_000

#: No colours, no pagers: commands are not interactive.
_ENVIRONMENT = {"TERM": "dumb", "PAGER": "cat", "GIT_PAGER": "cat"}


def start_command(
    command: str,
    cwd: str,
    confinement: Confinement,
    *,
    stdin: Literal["null", "pipe"] = "null",
    pty: bool = False,
    supervisor: ProcessSupervisor | None = None,
    held_for: Callable[[], None] | None = None,
) -> ChildProcess:
    """Run ``command`` in a shell, held as ``ChildProcess`` says. OSError or ValueError when it cannot be started."""
    if supervisor is not None:
        supervisor.start()  # here, outside of any sandbox, which would limit whom it can signal

    def start(arguments: Sequence[str], pass_fds: Sequence[int] = ()) -> ChildProcess:
        return confinement.start(
            arguments,
            cwd,
            lambda line, folder, env: ChildProcess(
                line,
                cwd=folder,
                env=command_environment(env),
                stdin=stdin,
                pty=pty,
                pass_fds=pass_fds,
                supervisor=supervisor,
                held_for=held_for,
            ),
        )

    shell = find_shell()
    script = command.encode("utf-8", "surrogateescape")
    if len(script) <= _LONGEST_ARGUMENT:
        return start([shell, "-c", command])
    from tempfile import TemporaryFile

    with TemporaryFile() as file:
        file.write(script)
        file.seek(0)
        source = file.fileno()
        return start([shell, f"/dev/fd/{source}"], pass_fds=(source,))


def command_environment(variables: Mapping[str, str]) -> dict[str, str]:
    """The variables of a command, of which some are set for every one."""
    return {**variables, **_ENVIRONMENT}


def can_hold(command: str, confinement: Confinement, *, pty: bool = False) -> bool:
    """Whether the shell of a command can be started and held, with a supervisor, before the command does anything."""
    return (
        not pty
        and confinement.sandbox is None
        and len(command) * 4 <= _LONGEST_ARGUMENT
        and _reads_script([find_shell(), "-c", command], confinement.environment)
    )


def find_shell() -> str:
    """bash if installed, else sh."""
    usual = next((path for path in ("/bin/bash", "/usr/bin/bash") if os.access(path, os.X_OK)), None)
    return usual or find_program("bash", system_first=True) or "/bin/sh"
