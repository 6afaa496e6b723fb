"""A cluster on one machine: a database, real ``hermes worker`` processes, a surface in the test's own process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import msgspec
import yaml

from hermes.base.config import Config
from hermes.base.config.schema.sections import AgentConfig, JournalConfig, ModelConfig, WorkerConfig
from hermes.host import Host, HostOptions
from hermes.service.dispatch.choose import surface_config
from hermes.service.dispatch.cluster.dispatcher import ClusterDispatcher
from hermes.service.dispatch.port import DispatchedTurn, TurnRequest
from support import recording_environment
from support.waiting import HANG, wait_until

SOURCE = Path(__file__).parents[2] / "src"


class HasBaseUrl(Protocol):
    """A model server."""

    @property
    def base_url(self) -> str: ...


class WorkerProcess:
    """One ``hermes worker``."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.id = ""

    def wait_for_start(self) -> None:
        """Wait until it takes turns."""
        line = self.process.stdout.readline() if self.process.stdout else ""
        assert line.startswith("worker "), f"the worker did not start: {line!r}"
        self.id = line.split()[1]

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(HANG)

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Stop it in an orderly way; its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.send_signal(number)
        return self.process.wait(HANG)


class ClusterRig:
    """A home with ``journal.url``, workers on it, and a surface that submits."""

    def __init__(self, folder: Path, url: str, provider: HasBaseUrl, **worker: Any) -> None:
        self.home, self.cwd, self.url, self.provider = folder / "home", folder / "work", url, provider
        self.home.mkdir(parents=True, exist_ok=True)
        self.cwd.mkdir(exist_ok=True)
        self.config = Config(
            model=ModelConfig(provider="custom", default="scripted", base_url=provider.base_url, api_key="test-key"),
            agent=AgentConfig(api_max_retries=0),
            journal=JournalConfig(url=url),
            worker=WorkerConfig(**worker),
        )
        document = msgspec.to_builtins(self.config)
        kept = {name: document[name] for name in ("model", "agent", "journal", "worker")}
        (self.home / "config.yaml").write_text(yaml.safe_dump(kept))
        self.workers: list[WorkerProcess] = []
        self._hosts: list[Host] = []
        self._dispatchers: list[ClusterDispatcher] = []

    def start_workers(self, count: int, *options: str, env: dict[str, str] | None = None) -> list[WorkerProcess]:
        """Start workers at the same time, and wait until they take turns."""
        made: list[WorkerProcess] = []
        for _ in range(count):
            made.append(WorkerProcess(self._popen(options, env)))
            self.workers.append(made[-1])  # at once: ``close`` ends also those that did not start
        for worker in made:
            worker.wait_for_start()
        return made

    def _popen(self, options: tuple[str, ...], env: dict[str, str] | None) -> subprocess.Popen[str]:
        with (self.home / "stderr").open("ab") as errors:
            return subprocess.Popen(
                [sys.executable, "-m", "hermes", "worker", *options],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                cwd=self.cwd,
                env={
                    **os.environ,
                    "HERMES_HOME": str(self.home),
                    "PYTHONPATH": str(SOURCE),
                    **recording_environment(),
                    **(env or {}),
                },
            )

    def home_with(self, name: str, url: str) -> dict[str, str]:
        """Variables for a worker with a home of its own, which reaches the database under another address."""
        home = self.home.with_name(name)
        home.mkdir()
        document = yaml.safe_load((self.home / "config.yaml").read_text())
        document["journal"]["url"] = url
        (home / "config.yaml").write_text(yaml.safe_dump(document))
        return {"HERMES_HOME": str(home)}

    def host(self, *, platform: str = "test", **options: Any) -> Host:
        made = HostOptions(platform=platform, **options)
        host = Host(self.home, surface_config(self.config), made, cwd=self.cwd, env={})
        self._hosts.append(host)
        return host

    def dispatcher(self, host: Host | None = None, **options: Any) -> ClusterDispatcher:
        """A surface of its own."""
        dispatcher = ClusterDispatcher(host or self.host(), **options)
        dispatcher.start()
        self._dispatchers.append(dispatcher)
        return dispatcher

    def request(self, message: str, session_id: str = "s1", **fields: Any) -> TurnRequest:
        values: dict[str, Any] = {"request_key": message, "platform": "test", "cwd": str(self.cwd), **fields}
        return TurnRequest(session_id=session_id, message=message, **values)

    def query(self, sql: str, *values: object) -> list[Any]:
        """Rows of the database, as another program would see them."""
        import psycopg

        with psycopg.connect(self.url, autocommit=True, options="-c search_path=hermes") as connection:
            return connection.execute(sql, values or None).fetchall()  # pyright: ignore[reportCallIssue, reportArgumentType]

    def wait_for(self, condition: Callable[[], object], what: str) -> None:
        wait_until(condition, what)

    def close(self) -> None:
        for worker in self.workers:
            if worker.process.poll() is None:
                worker.process.send_signal(signal.SIGCONT)
                worker.process.kill()
            worker.process.wait(HANG)
            if worker.process.stdout:
                worker.process.stdout.close()
        for dispatcher in self._dispatchers:
            dispatcher.release()
        for host in self._hosts:
            host.close()


def answer_of(turn: DispatchedTurn) -> str:
    """The answer of a turn, or how it ended without one."""
    assert turn.result is not None, turn
    return turn.result.answer or turn.result.status
