"""``hermes serve``: everything of one configuration, each part in a process of its own that is kept running."""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence

from hermes.base.config import load_config
from hermes.base.config.schema.sections import Config
from hermes.base.errors import HermesError
from hermes.base.log import setup_logging
from hermes.surfaces.cli import home_with_variables
from hermes.surfaces.cli.arguments import VERBOSE, Argument, CommandSpec, port_number
from hermes.surfaces.cli.failures import handled_signals
from hermes.tools.terminal.supervisor import ProcessSupervisor

_EXAMPLES = """
example of a configuration:
  journal:
    url: postgresql://hermes@db/hermes
  serve:
    commands: ["gateway run", "a2a serve --host 0.0.0.0 --port 8800", "worker --slots 8", "worker --slots 8"]
    health_port: 9400

Each command line is a process of its own. One that ends is started again after serve.restart_seconds; the pause doubles
each time, up to a minute, until the process has run for a minute. SIGTERM ends all of them in order. When this process
is killed, they are killed too, so that they do not run beside those of its successor.
"""
_MAX_PAUSE = 60.0
_SECONDS_UNTIL_TRUSTED = 60.0


def _supervise(args: argparse.Namespace) -> int:
    """Start the processes and keep them running until a signal comes."""
    home = home_with_variables()
    setup_logging(home, verbose=args.verbose)
    config = load_config(home).config
    lines = [_words_of(line) for line in config.serve.commands]
    if not lines:
        raise HermesError(
            "serve.commands is empty, so there is nothing to start; for example: "
            "hermes config set serve.commands '[\"worker --slots 8\"]'"
        )
    supervisor = Supervisor(lines, config.serve.restart_seconds, config.worker.drain_seconds + 5)
    port = config.serve.health_port if args.health_port is None else args.health_port
    if port:
        from hermes.base.http_server.health import HealthServer

        HealthServer(supervisor.problems, supervisor.metrics, config.serve.health_host, port).start()
    return supervisor.run()


def _words_of(line: str) -> list[str]:
    from hermes.surfaces.cli.commands import COMMANDS

    try:
        parts = shlex.split(line)
    except ValueError as error:
        raise HermesError(f"serve.commands: {line!r} cannot be read ({error})") from None
    if not parts or parts[0] not in COMMANDS or parts[0] == "serve":
        raise HermesError(
            f"serve.commands: {line!r} is not a command line; it begins with a command of hermes, such as "
            f"'worker', 'a2a serve' or 'gateway'"
        )
    return parts


def check_commands(config: Config) -> None:
    """Raise when ``serve.commands`` cannot be started as it is written."""
    for line in config.serve.commands:
        _words_of(line)


class _Process:
    def __init__(self, parts: Sequence[str], pause: float) -> None:
        self.parts = parts
        self.first_pause = self.pause = pause
        self.started = 0.0
        self.restarts = -1
        self.due = 0.0
        self.child: subprocess.Popen[bytes] | None = None

    @property
    def name(self) -> str:
        return " ".join(self.parts)

    def start(self, survivors: ProcessSupervisor) -> None:
        """Start it in a group of its own: Ctrl-C reaches it in the order of the supervisor."""
        self.started = time.monotonic()
        self.restarts += 1
        self.child = subprocess.Popen([sys.executable, "-m", "hermes", *self.parts], process_group=0)
        survivors.add(self.child.pid)

    def ended(self, survivors: ProcessSupervisor) -> None:
        """Wait before the next start, longer each time, unless it ran for long."""
        if self.child is not None:
            survivors.remove(self.child.pid)
        if time.monotonic() - self.started > _SECONDS_UNTIL_TRUSTED:
            self.pause = self.first_pause
        self.due = time.monotonic() + self.pause
        self.pause = min(self.pause * 2, _MAX_PAUSE)
        self.child = None


class Supervisor:
    """Keeps processes running. Also answers about their health."""

    def __init__(self, lines: Sequence[Sequence[str]], pause: float, seconds_to_end: float) -> None:
        self._processes = [_Process(parts, pause) for parts in lines]
        self._seconds_to_end = seconds_to_end
        self._stopped = threading.Event()
        #: Ends the processes when this one is killed and cannot.
        self._survivors = ProcessSupervisor()

    def run(self) -> int:
        """Run until SIGTERM or SIGINT, then end all processes."""
        with handled_signals(lambda _number, _frame: self._stopped.set()):
            try:
                while not self._stopped.wait(0.1):
                    for process in self._processes:
                        self._look_after(process)
            finally:
                self._end()
                self._survivors.close()
        return 0

    def _look_after(self, process: _Process) -> None:
        if process.child is not None:
            code = process.child.poll()
            if code is None:
                return
            process.ended(self._survivors)
            print(
                f"'{process.name}' ended with {code}; it is started again in {process.due - time.monotonic():.0f} s",
                file=sys.stderr,
                flush=True,
            )
        if time.monotonic() >= process.due:
            process.start(self._survivors)
            assert process.child is not None
            print(f"started '{process.name}' (pid {process.child.pid})", flush=True)

    def _end(self) -> None:
        """The servers first, so that nothing new arrives, then the workers with what they run."""
        workers = [process for process in self._processes if process.parts[0] == "worker"]
        others = [process for process in self._processes if process not in workers]
        for group in (others, workers):
            for process in group:
                if process.child is not None and process.child.poll() is None:
                    process.child.send_signal(signal.SIGTERM)
            until = time.monotonic() + self._seconds_to_end
            for process in group:
                if process.child is None:
                    continue
                try:
                    process.child.wait(max(until - time.monotonic(), 0.1))
                except subprocess.TimeoutExpired:
                    print(f"'{process.name}' does not end; it is killed", file=sys.stderr, flush=True)
                    os.killpg(process.child.pid, signal.SIGKILL)
                    process.child.wait()

    # -- health -------------------------------------------------------------------------------------------------

    def problems(self) -> list[str]:
        """The processes that do not run."""
        return [f"'{one.name}' does not run" for one in self._processes if one.child is None]

    def metrics(self) -> str:
        """Whether each process runs, and how often it was started again."""
        up, restarts = "hermes_process_up", "hermes_process_restarts_total"
        lines = [f"# HELP {up} Whether a process runs.", f"# TYPE {up} gauge"]
        lines += [f"{up}{_label(one.name)} {int(one.child is not None)}" for one in self._processes]
        lines += [f"# HELP {restarts} Starts after the first.", f"# TYPE {restarts} counter"]
        lines += [f"{restarts}{_label(one.name)} {max(one.restarts, 0)}" for one in self._processes]
        return "\n".join(lines) + "\n"


def _label(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
    return f'{{command="{escaped}"}}'


_HEALTH = "serve health and readiness of all on this port"

COMMAND = CommandSpec(
    run=_supervise,
    arguments=(Argument("--health-port N", _HEALTH, type=port_number), VERBOSE),
    epilog=_EXAMPLES,
)
