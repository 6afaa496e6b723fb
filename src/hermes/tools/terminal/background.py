"""Background processes of the ``terminal`` tool; they live until the host closes."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from hermes.tools.declarations.origin import mentions_network
from hermes.tools.terminal.supervisor import ProcessSupervisor

if TYPE_CHECKING:
    from hermes.tools.sandbox.confinement import Confinement
    from hermes.tools.sandbox.workspace.undone import UndoneChange
    from hermes.tools.terminal.prepared_shell import PreparedShells

#: Finished processes of a principal stay listed, up to this many.
_KEPT_FINISHED = 64

#: Interval for checking whether to stop reading output that an orphaned grandchild holds open.
_LOOK_EVERY = 0.25

_JOIN_SECONDS = 2.0
#: Exit codes above this one stand for signals.
_SIGNALLED = 128


class BackgroundProcess:
    """A command in the background. A daemon thread reads its output into a bounded buffer."""

    def __init__(
        self,
        command: str,
        cwd: str,
        confinement: Confinement,
        *,
        pty: bool,
        max_output_chars: int,
        principal: str = "",
        supervisor: ProcessSupervisor | None = None,
    ) -> None:
        self.id = f"proc_{os.urandom(6).hex()}"
        #: The caller it was started for; empty is the owner of the home.
        self.principal = principal
        self.command = command
        #: Whether the command, or what was typed into it, gets something from the network.
        self.fetches = mentions_network(command)
        self.cwd = cwd
        self.started_at = time.time()
        self.ended_at: float | None = None
        self.killed = False
        # Most hosts start none.
        from hermes.tools.terminal.child_process import start_command
        from hermes.tools.terminal.output import BoundedOutput

        self._output = BoundedOutput(max_output_chars)
        self._abandoned = False
        #: Set when what the command did has been undone.
        self._is_undone = threading.Event()
        #: What the command did that was undone.
        self.undone: Sequence[UndoneChange] = ()
        self._confinement = confinement
        self._waiting: list[Callable[[], None]] = []
        self.child = start_command(command, cwd, confinement, stdin="pipe", pty=pty, supervisor=supervisor)
        self.pid = self.child.pid
        self._reader = threading.Thread(target=self._read, name=self.id, daemon=True)
        self._reader.start()

    @property
    def exit_code(self) -> int | None:
        """None while the command runs."""
        return self.child.exit_code()

    @property
    def uptime(self) -> float:
        """Seconds it has run, or ran."""
        return (self.ended_at or time.time()) - self.started_at

    def output(self) -> str:
        """What the command has written so far, bounded, without escape sequences."""
        from hermes.tools.terminal.output import strip_escapes

        return strip_escapes(self._output.text())

    def refused(self) -> str:
        """One sentence about the connections that its sandbox refused so far; empty without any."""
        return self._confinement.note("", failed=False)

    def when_ended(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Register a callback for the end of the command and its output. Returns a function that removes it."""
        self._waiting.append(callback)
        if self.ended_at is not None:
            callback()

        def forget() -> None:
            with suppress(ValueError):
                self._waiting.remove(callback)

        return forget

    def kill(self, grace: float = 0.5) -> None:
        """Kill the command's process group."""
        self.killed = self.killed or self.exit_code is None
        self.child.stop(grace)

    def abandon(self) -> None:
        """Stop reading, even when a process outside the group holds the output open.

        What the command did to files that run code is undone then, however long that takes.
        """
        self._abandoned = True
        self._is_undone.wait()
        self._reader.join(_JOIN_SECONDS)

    def _read(self) -> None:
        try:
            while not self._abandoned:
                data = self.child.read(_LOOK_EVERY)
                if data:
                    self._output.feed(data)
                elif self.exit_code is not None:
                    self._announce_end()
                    if data is not None:
                        break
                elif data is not None:
                    self.child.wait(_LOOK_EVERY)
        finally:
            self._output.end()
            self._announce_end()
            self.child.close()

    def _announce_end(self) -> None:
        if self.ended_at is None:
            try:
                self._wait_for_rest()
                self.undone = self._confinement.ended()
            finally:
                self._is_undone.set()
            self.ended_at = time.time()
            for callback in list(self._waiting):
                callback()

    def _wait_for_rest(self) -> None:
        """A signal ends the program that made the sandbox at once, and what is in it may go on for a moment."""
        from signal import SIGKILL

        is_killed = (self.exit_code or 0) > _SIGNALLED
        if self._confinement.sandbox is None or not is_killed or self.child.wait_for_group(_JOIN_SECONDS):
            return
        self.child.signal(SIGKILL)
        self.child.wait_for_group(_JOIN_SECONDS)


class ProcessTable:
    """The background processes of one host."""

    def __init__(self, max_output_chars: int = 200_000) -> None:
        self._max_output_chars = max_output_chars
        #: Ends the commands of the host with the process, whatever ends it.
        self.supervisor = ProcessSupervisor()
        self._shells: PreparedShells | None = None
        #: What shortens the next command, while there is time; None until one runs in a sandbox.
        self.prepare: Callable[[], None] | None = None
        self._processes: dict[str, BackgroundProcess] = {}
        self._lock = threading.Lock()
        self._closed = False

    def start(
        self, command: str, cwd: str, confinement: Confinement, *, pty: bool = False, principal: str = ""
    ) -> BackgroundProcess:
        """Run ``command`` in the background. Raises OSError or ValueError when it cannot be started."""
        if self._closed:
            raise ValueError("the program is closing; no more processes are started")
        process = BackgroundProcess(
            command,
            cwd,
            confinement,
            pty=pty,
            max_output_chars=self._max_output_chars,
            principal=principal,
            supervisor=self.supervisor,
        )
        with self._lock:
            self._processes[process.id] = process
            known = [other for other in self._processes.values() if other.principal == principal]
            finished = [other for other in known if other.exit_code is not None]
            for other in finished[: max(len(finished) - _KEPT_FINISHED, 0)]:
                del self._processes[other.id]
        return process

    def get(self, process_id: str, principal: str = "") -> BackgroundProcess | None:
        """The process with that id, if this principal started it."""
        process = self._processes.get(process_id)
        return process if process is not None and process.principal == principal else None

    def all(self, principal: str | None = None) -> list[BackgroundProcess]:
        """Every process known, oldest first; with ``principal`` those that it started."""
        with self._lock:
            processes = list(self._processes.values())
        return [process for process in processes if principal is None or process.principal == principal]

    @property
    def shells(self) -> PreparedShells:
        """Shells that wait for the next command in a sandbox."""
        with self._lock:
            if self._shells is None:
                from hermes.tools.terminal.prepared_shell import PreparedShells

                self._shells = PreparedShells(self.supervisor)
                self.prepare = self._shells.prepare
            return self._shells

    @property
    def is_closed(self) -> bool:
        """Whether the program ends: every process group is killed, or will be."""
        return self._closed

    def close(self) -> None:
        """Kill every process group and stop every reader thread."""
        self._closed = True
        processes = self.all()
        _stop_all([process for process in processes if not process.child.output_ended or process.exit_code is None])
        for process in processes:
            process.abandon()
        if self._shells is not None:
            self._shells.close()
        self.supervisor.close()


def _stop_all(processes: list[BackgroundProcess], grace: float = 0.5) -> None:
    """Signal all first, then wait for all: one grace period instead of one per process."""
    from signal import SIGTERM

    for process in processes:
        process.child.signal(SIGTERM)
    deadline = time.monotonic() + grace
    for process in processes:
        process.kill(grace=max(deadline - time.monotonic(), 0))
