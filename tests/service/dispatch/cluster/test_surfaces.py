"""Surfaces of a cluster: what they say without workers, and how they behave while the database is away."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from hermes.base.config import load_config
from hermes.contract.events import TextDelta
from hermes.journal.turns.lifecycle import cancel_queued
from hermes.service.dispatch.choose import missing_workers, surface_config
from hermes.service.dispatch.cluster.dispatcher import ClusterDispatcher
from hermes.service.dispatch.cluster.live import notifications
from hermes.testing import ScriptedProvider
from support import start_hermes
from support.a2a_rig import UNUSED_TLS
from support.cluster_rig import ClusterRig
from support.doctor_rig import examine
from support.postgres_server import PostgresServer
from support.waiting import HANG, wait_until

NO_WORKER = "no worker runs, so turns are accepted and wait; start one with 'hermes worker'"


@contextmanager
def cluster_rig(folder: Path, url: str, **journal: Any) -> Generator[ClusterRig]:
    with ScriptedProvider("fine") as provider:
        rig = ClusterRig(folder, url, provider)
        path = rig.home / "config.yaml"
        document = yaml.safe_load(path.read_text())
        document["journal"].update(journal)
        path.write_text(yaml.safe_dump({**document, "gateway": {"api": {"enabled": True, "port": 0}}}))
        path.chmod(0o600)
        try:
            yield rig
        finally:
            rig.close()


@contextmanager
def surface(rig: ClusterRig, *command: str) -> Generator[tuple[subprocess.Popen[str], str]]:
    """A surface as a process, and the first line that it prints."""
    process = start_hermes(*command, home=rig.home, cwd=rig.cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    try:
        line = process.stdout.readline().strip()
        assert line, process.communicate()[1]
        yield process, line
    finally:
        process.kill()
        process.communicate()


def test_missing_workers_are_said(postgres_url: str, tmp_path: Path) -> None:
    with cluster_rig(tmp_path, postgres_url) as rig:
        host = rig.host()
        (said,) = missing_workers(host)
        assert said.startswith(NO_WORKER)
        found = examine(rig.home, rig.cwd).one("workers", "warning")
        assert found["detail"].startswith(NO_WORKER)

        def add_worker(worker_id: str, workspace: str, silent: float) -> None:
            def write(connection: Any) -> None:
                now = "extract(epoch FROM clock_timestamp())"
                connection.execute(
                    "INSERT INTO workers (id, host, pid, version, loop, workspace, slots, child_slots, state, "
                    "started_at) VALUES (?, 'here', 1, '1', 1, ?, 1, 1, 'running', 0)",
                    (worker_id, workspace),
                )
                connection.execute(
                    f"INSERT INTO runners (id, host, pid, started_at, beat_at) VALUES (?, 'here', 1, 0, {now} - ?)",
                    (worker_id, silent),
                )

            host.store.write(write)

        # Neither one that is silent nor one of another workspace takes these turns.
        add_worker("silent", "", 60.0)
        add_worker("other", "gpu", 0.0)
        assert missing_workers(host) == [said]
        add_worker("there", "", 0.0)
        assert missing_workers(host) == []
        (here,) = missing_workers(rig.host(plugins=["observability/otel"]))
        assert here.startswith("--plugin loads observability/otel in this process only")


@pytest.mark.slow
@pytest.mark.parametrize(
    "command", [("api", "--port", "0"), ("web", "--port", "0"), ("gateway", "run"), ("a2a", "serve")]
)
def test_a_surface_without_workers_warns_when_it_starts(
    postgres_url: str, tmp_path: Path, command: tuple[str, ...]
) -> None:
    with cluster_rig(tmp_path, postgres_url) as rig, surface(rig, *command) as (process, _):
        process.send_signal(signal.SIGTERM)
        errors = process.communicate(timeout=HANG)[1]
        assert f"Warning: {NO_WORKER}" in errors


@pytest.mark.slow
@pytest.mark.parametrize("command", [("api", "--port", "0"), ("gateway", "run")])
def test_a_surface_answers_503_while_the_database_is_away(
    own_postgres: PostgresServer, tmp_path: Path, command: tuple[str, ...]
) -> None:
    document = {"model": "hermes-agent", "messages": [{"role": "user", "content": "hello"}]}
    # A process that runs turns waits for the database for as long as this says, much longer than the client does.
    with cluster_rig(tmp_path, own_postgres.url(), wait_seconds=60 * HANG) as rig:
        rig.start_workers(1)
        with surface(rig, *command) as (process, line):
            url = next(word for word in line.replace(",", " ").split() if word.endswith("/v1"))
            with httpx.Client(base_url=url, verify=UNUSED_TLS, timeout=HANG) as client:

                def ask() -> httpx.Response:
                    return client.post("/chat/completions", json=document)

                assert ask().status_code == 200
                own_postgres.stop(signal.SIGINT)
                for _ in range(2):
                    refused = ask()
                    assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
                    assert refused.json()["error"]["code"] == "unavailable"
                own_postgres.start()
                wait_until(lambda: ask().status_code == 200, "an answer after the database is back")
            assert process.poll() is None


def test_workers_that_did_start_end_with_the_rig_when_another_did_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands = iter(["exit 1", "sleep 600"])
    with cluster_rig(tmp_path, "postgresql://nowhere/x") as rig:

        def popen(*_arguments: object) -> subprocess.Popen[str]:
            return subprocess.Popen(["sh", "-c", next(commands)], stdout=subprocess.PIPE, text=True)

        monkeypatch.setattr(rig, "_popen", popen)
        with pytest.raises(AssertionError, match="did not start"):
            rig.start_workers(2)
    assert len(rig.workers) == 2
    assert all(worker.process.poll() is not None for worker in rig.workers)


def test_a_process_that_runs_turns_itself_waits_for_its_database(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("journal: {url: 'postgresql://nowhere/x', wait_seconds: 60}\n")
    config = load_config(tmp_path).config
    assert surface_config(config).journal.wait_seconds == 1
    (tmp_path / "config.yaml").write_text(
        "journal: {url: 'postgresql://nowhere/x', wait_seconds: 60}\nworker: {turns: here}\n"
    )
    assert surface_config(load_config(tmp_path).config).journal.wait_seconds == 60


def test_the_last_events_of_a_turn_arrive_before_its_end(postgres_url: str, tmp_path: Path) -> None:
    """The journal may say that a turn has ended while the notification with its last events is on its way."""
    order: list[object] = []
    with cluster_rig(tmp_path, postgres_url) as rig:
        host = rig.host()
        dispatcher = ClusterDispatcher(host)  # not started: the test is what calls it
        receive, look = getattr(dispatcher, "_receive"), getattr(dispatcher, "_look")  # noqa: B009

        def end_without_notification(message: str) -> str:
            turn_id = dispatcher.submit(rig.request(message, message), listener=order.append).turn_id
            assert cancel_queued(host.store, turn_id, "over")
            dispatcher.watch(turn_id, lambda turn: order.append(turn.state))
            assert order == []
            return turn_id

        turn_id = end_without_notification("on its way")
        look(None)
        for payload in notifications(turn_id, [TextDelta("the last words")], "ended"):
            receive(payload)
        assert order == [TextDelta("the last words"), "ended"]
        order.clear()
        end_without_notification("lost")
        look(None)
        assert order == []
        look(None)
        assert order == ["ended"]
        # One that nothing was heard of is settled at once.
        order.clear()
        dispatcher.watch(turn_id, lambda turn: order.append(turn.state), listener=order.append)
        assert order == ["ended"]
