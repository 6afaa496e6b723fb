"""Shells in a sandbox that are started before their command is known: while the model thinks.

To make a sandbox takes several times as long as most commands run. One that waits for its command saves that. It is
used only for a command that would be started in exactly the same way: the same command line of bubblewrap, the same
variables, and the same files behind every mount. Otherwise it is thrown away and the command gets a new one.
"""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from hermes.tools.terminal.child_process import IN_THE_WAY, ChildProcess, command_environment, find_shell

if TYPE_CHECKING:
    from hermes.tools.sandbox.confinement import Confinement
    from hermes.tools.sandbox.launch import Launch
    from hermes.tools.terminal.supervisor import ProcessSupervisor

#: Waits for a command that ends with a NUL byte, and runs it without any input. The end of the input before that means
#: that Hermes is gone, or does not want the shell. ``$_`` is afterwards what it is in a shell that has done nothing.
_WAIT = 'read -rd "" || exit 125; exec </dev/null; : "$BASH"; eval "$REPLY"'
#: The shell reads a command byte by byte, so a longer one is given to it as an argument.
_LONGEST = 4_000
#: So many shells wait at most. A host with more sessions at work starts the sandboxes of the others when they need one.
_MOST = 2


class _Prepared:
    """A shell that waits, and how it was started."""

    def __init__(self, launch: Launch, supervisor: ProcessSupervisor) -> None:
        self.launch = launch
        # A file system that is mounted after the sandbox was made would be in it as well, and could be changed.
        self._mounts = os.open("/proc/self/mounts", os.O_RDONLY | os.O_CLOEXEC)
        try:
            self.child = launch.start(
                lambda line, folder, env: ChildProcess(line, cwd=folder, env=env, stdin="pipe", supervisor=supervisor)
            )
        except BaseException:
            os.close(self._mounts)
            raise

    def fits(self, launch: Launch) -> bool:
        """Whether a new sandbox for that launch would be the same."""
        changes = select.poll()
        changes.register(self._mounts, select.POLLPRI)
        return launch == self.launch and not changes.poll(0) and self.child.exit_code() is None

    def take(self, launch: Launch) -> ChildProcess:
        """The shell, for a command that is started in this way."""
        os.close(self._mounts)
        if self.launch.reach is not None and launch.reach is not None and self.launch is not launch:
            self.launch.reach.become(launch.reach)
        return self.child

    def throw_away(self) -> None:
        child = self.take(self.launch)
        child.stop(grace=0)
        child.close()


class PreparedShells:
    """The shells of a host that wait for a command. Thread-safe; close it at the end."""

    def __init__(self, supervisor: ProcessSupervisor) -> None:
        self._supervisor = supervisor
        self._lock = threading.Lock()
        #: What to prepare when there is time: how the last commands were started.
        self._wanted: list[Launch] = []
        self._waiting: list[_Prepared] = []
        self._is_closed = False

    def start(
        self, command: str, cwd: str, confinement: Confinement, held_for: Callable[[], None] | None = None
    ) -> ChildProcess:
        """Start a command, in a shell that waits if there is one; ``can_prepare`` says for which commands.

        It is held as ``ChildProcess`` says, until its ``release``.
        """
        sandbox = confinement.sandbox
        assert sandbox is not None
        environment = command_environment(confinement.environment)
        launch = sandbox.launch([find_shell(), "-c", _WAIT], cwd, environment, confinement.reach)
        sandbox.begin()
        try:
            child = self._take(launch) or _Prepared(launch, self._supervisor).take(launch)
        except BaseException:
            sandbox.ended()
            raise
        child.hold(_encoded(command) + b"\0", held_for)
        with self._lock:
            self._wanted = [*(other for other in self._wanted if other != launch), launch][-_MOST:]
        return child

    def prepare(self) -> None:
        """Start the shells that the next commands will probably need: those of the commands that ran since."""
        if not self._wanted:
            return
        with self._lock:
            wanted, self._wanted = self._wanted, []
            kept = [shell for shell in self._waiting if any(shell.launch == launch for launch in wanted)]
            missing = [launch for launch in wanted if not any(shell.launch == launch for shell in kept)]
            surplus = [shell for shell in self._waiting if shell not in kept]
            self._waiting = kept
            for launch in () if self._is_closed else missing:
                with suppress(OSError):  # the next command will say what is wrong
                    self._waiting.append(_Prepared(launch.in_advance(), self._supervisor))
        for shell in surplus:
            shell.throw_away()

    def close(self) -> None:
        """End the shells that wait."""
        with self._lock:
            self._is_closed = True
            waiting, self._waiting = self._waiting, []
        for shell in waiting:
            shell.throw_away()

    def _take(self, launch: Launch) -> ChildProcess | None:
        with self._lock:
            same_place = [shell for shell in self._waiting if shell.launch.cwd == launch.cwd]
            self._waiting = [shell for shell in self._waiting if shell not in same_place]
        found: ChildProcess | None = None
        for shell in same_place:
            if found is None and shell.fits(launch):
                found = shell.take(launch)
            else:
                shell.throw_away()
        return found


def can_prepare(command: str, confinement: Confinement) -> bool:
    """Whether a shell that waits can run that command in the foreground as one that is started with it would."""
    return (
        confinement.sandbox is not None
        and confinement.sandbox.is_preparable
        and len(_encoded(command)) <= _LONGEST
        and os.path.basename(find_shell()) == "bash"
        and IN_THE_WAY.isdisjoint(confinement.environment)
    )


def _encoded(command: str) -> bytes:
    return command.encode("utf-8", "surrogateescape")
