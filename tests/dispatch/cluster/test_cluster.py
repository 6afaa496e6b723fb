"""A cluster of real worker processes on a real PostgreSQL: turns, live events, cancelling, and what can go wrong."""

from __future__ import annotations

import signal
import threading
import urllib.error
import urllib.request
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from hermes.agent.events import TurnResult
from hermes.contract.events import TextDelta, TurnEvent
from hermes.dispatch.cluster.dispatcher import ClusterDispatcher
from hermes.dispatch.cluster.worker import EVICTED
from hermes.errors import JournalUnavailable
from hermes.journal.history.inspection import inspect_session
from hermes.testing import RecordedRequest, ScriptedProvider, ScriptedReply, by_step, text, tool_calls
from hermes.trace.verify.session import verify
from support import run_hermes
from support.cluster_rig import ClusterRig, WorkerProcess, answer_of
from support.postgres_server import PostgresServer
from support.waiting import HANG, wait_until

pytestmark = pytest.mark.slow


class Model:
    """Answers a message with itself. ``hold`` waits, ``work`` runs two commands, holds, and runs two more."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.asked: list[str] = []

    def __call__(self, request: RecordedRequest) -> Any:
        said = request.last_user_text
        self.asked.append(said)
        if said.startswith("hold"):
            return text(f"Answer to {said}", hold=self.gate)
        if said.startswith("work"):
            return self._work(request)
        return text(f"Answer to {said}")

    def _work(self, request: RecordedRequest) -> ScriptedReply | str:
        name = request.last_user_text.split()[-1]
        calls = [("terminal", {"command": f"echo {name}-{number} >> effects.log"}) for number in range(4)]
        held = tool_calls(calls[2:], hold=self.gate)
        return by_step(tool_calls(calls[:2]), held, text(f"Done with {name}"))(request)


class Cluster:
    """The rig, the model and a surface."""

    def __init__(self, rig: ClusterRig, model: Model) -> None:
        self.rig, self.model = rig, model
        self.surface = rig.dispatcher()

    def submit(self, message: str, session: str = "s1", **options: Any) -> str:
        return self.surface.submit(self.rig.request(message, session), **options).turn_id

    def answer(self, turn_id: str) -> str:
        return answer_of(self.surface.wait(turn_id, timeout=HANG))

    def owner(self, session: str) -> WorkerProcess:
        """The worker that runs a session, once there is one."""
        owners: list[WorkerProcess] = []

        def find() -> bool:
            rows = self.rig.query("SELECT runner FROM sessions WHERE id = %s", session)
            owners[:] = [worker for worker in self.rig.workers if rows and worker.id == rows[0][0]]
            return bool(owners)

        wait_until(find, f"a worker that runs {session}")
        return owners[0]

    def check(self, *sessions: str) -> None:
        """Nothing doubled, nothing missing."""
        host = self.rig.host()
        for session in sessions:
            assert verify(inspect_session(host.store, session)) == []


@pytest.fixture
def cluster(postgres_url: str, tmp_path: Path) -> Generator[Cluster]:
    model = Model()
    with ScriptedProvider(model) as provider:
        rig = ClusterRig(tmp_path, postgres_url, provider, frozen_seconds=3, slots=4)
        try:
            yield Cluster(rig, model)
        finally:
            model.gate.set()
            rig.close()


def test_turns_run_on_workers_and_are_followed(cluster: Cluster) -> None:
    early = cluster.submit("early")
    (worker,) = cluster.rig.start_workers(1, "--slots", "1")
    assert cluster.answer(early) == "Answer to early"
    # Live events, in the order of the turns; the same key is the same turn.
    heard: list[TurnEvent] = []
    turns = [cluster.submit(name, listener=heard.append) for name in ("one", "two", "three")]
    assert [cluster.answer(turn) for turn in turns] == [f"Answer to {name}" for name in ("one", "two", "three")]
    assert cluster.submit("two") == turns[1]
    wait_until(lambda: sum(isinstance(event, TextDelta) for event in heard) >= 3, "live events")
    said = "".join(event.text for event in heard if isinstance(event, TextDelta))
    assert said == "Answer to oneAnswer to twoAnswer to three"
    # A turn that another turn waits for has a slot, though all others are used.
    held = cluster.submit("hold", "s2")
    child = cluster.rig.request("child", "s3", queue="children")
    assert cluster.answer(cluster.surface.submit(child).turn_id) == "Answer to child"
    # What waits is cancelled at once, what runs through its interrupt.
    waits = cluster.submit("never", "s4")
    assert cluster.surface.cancel(waits, "no")
    assert cluster.answer(waits) == "interrupted"
    assert cluster.surface.cancel(held, "stop")
    assert cluster.answer(held) == "interrupted"
    assert not cluster.surface.cancel(held)
    # Another surface that knows the id gets the result.
    assert answer_of(cluster.rig.dispatcher().wait(turns[0])) == "Answer to one"
    cluster.check("s1", "s2", "s3")
    _operators_see(cluster, worker)


def _operators_see(cluster: Cluster, worker: WorkerProcess) -> None:
    """``hermes workers`` lists it, and drains it."""
    shown = run_hermes("workers", home=cluster.rig.home, cwd=cluster.rig.cwd)
    assert worker.id in shown.stdout
    assert "0 turns wait" in shown.stdout
    drained = run_hermes("workers", "drain", worker.id[:8], home=cluster.rig.home, cwd=cluster.rig.cwd)
    assert drained.returncode == 0, drained.stderr
    assert worker.process.wait(HANG) == 0
    wrong = run_hermes("workers", "evict", "nobody", home=cluster.rig.home, cwd=cluster.rig.cwd)
    assert wrong.returncode == 1
    assert "there is no worker 'nobody'; those there are: none" in wrong.stderr


def test_a_killed_and_a_frozen_worker_are_replaced(cluster: Cluster) -> None:
    cluster.rig.start_workers(3)
    sessions = [f"s{number}" for number in range(6)]
    turns = [cluster.submit(f"work {session}", session) for session in sessions]
    effects = cluster.rig.cwd / "effects.log"
    wait_until(lambda: effects.exists() and len(effects.read_text().split()) == 12, "the first two calls of every turn")
    killed = cluster.owner("s0")
    frozen = next(worker for worker in cluster.rig.workers if worker is not killed)
    frozen.send(signal.SIGSTOP)
    killed.kill()
    cluster.model.gate.set()
    assert [cluster.answer(turn) for turn in turns] == [f"Done with {session}" for session in sessions]
    # The commands of a turn run once: what was running is reported as unknown instead.
    done = effects.read_text().split()
    assert len(done) == len(set(done))
    cluster.check(*sessions)
    # Who was replaced leaves as soon as it wakes up.
    frozen.send(signal.SIGCONT)
    assert frozen.process.wait(HANG) == EVICTED


def test_a_worker_drains_when_it_is_stopped(cluster: Cluster) -> None:
    first, second = cluster.rig.start_workers(2)
    held = cluster.submit("hold")
    owner = cluster.owner("s1")
    owner.send(signal.SIGTERM)
    # No turn is taken any more, the running one comes to its end.
    others = [cluster.submit(f"other {number}", f"o{number}") for number in range(3)]
    assert [cluster.answer(turn) for turn in others] == [f"Answer to other {number}" for number in range(3)]
    assert owner.process.poll() is None
    cluster.model.gate.set()
    assert cluster.answer(held) == "Answer to hold"
    assert owner.process.wait(HANG) == 0
    assert (first if owner is second else second).process.poll() is None


def test_the_same_message_from_two_surfaces_at_once_is_one_turn(cluster: Cluster) -> None:
    cluster.rig.start_workers(1)
    surfaces = [cluster.rig.dispatcher() for _ in range(3)]

    def deliver(surface: ClusterDispatcher) -> TurnResult | None:
        ticket = surface.submit(cluster.rig.request("hello", "dup"))
        return surface.wait(ticket.turn_id, timeout=HANG).result

    with ThreadPoolExecutor(6) as pool:
        results = list(pool.map(deliver, surfaces * 2))
    assert {result.turn_id if result else "" for result in results} == {results[0].turn_id if results[0] else "-"}
    assert cluster.model.asked == ["hello"]


def test_a_turn_of_a_newer_loop_waits_for_a_worker_that_knows_it(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.rig.start_workers(1)
    monkeypatch.setattr("hermes.journal.turns.LOOP_VERSION", 2)
    newer = cluster.submit("newer", "new")
    monkeypatch.undo()
    assert cluster.answer(cluster.submit("older", "old")) == "Answer to older"
    assert cluster.surface.wait(newer, timeout=0.5).state == "queued"


def test_the_database_goes_away_and_comes_back(own_postgres: PostgresServer, tmp_path: Path) -> None:
    model = Model()
    with ScriptedProvider(model) as provider:
        rig = ClusterRig(tmp_path, own_postgres.url(), provider)
        try:
            cluster = Cluster(rig, model)
            rig.start_workers(2)
            for how in (signal.SIGINT, signal.SIGQUIT):
                sessions = [f"{how.name}{number}" for number in range(4)]
                turns = [cluster.submit(f"work {session}", session) for session in sessions]
                for session in sessions:
                    cluster.owner(session)
                own_postgres.stop(how)
                with pytest.raises(JournalUnavailable, match="cannot be reached"):
                    cluster.submit("meanwhile", "away")
                model.gate.set()
                own_postgres.start()
                assert [cluster.answer(turn) for turn in turns] == [f"Done with {session}" for session in sessions]
                model.gate.clear()
                cluster.check(*sessions)
            done = (rig.cwd / "effects.log").read_text().split()
            assert len(done) == len(set(done))
        finally:
            model.gate.set()
            rig.close()


def _free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_a_worker_shows_its_health_and_metrics(cluster: Cluster) -> None:
    port = _free_port()
    cluster.rig.start_workers(1, "--health-port", str(port))
    assert cluster.answer(cluster.submit("hello")) == "Answer to hello"

    def get(path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=HANG) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    assert get("/healthz") == (200, '{"status":"ok"}')
    wait_until(lambda: get("/readyz")[0] == 200, "readiness")
    status, metrics = get("/metrics")
    assert status == 200
    wait_until(lambda: 'hermes_turns_total{state="ended"} 1.0' in get("/metrics")[1], "the turn is counted")
    assert "hermes_turn_seconds_bucket" in metrics
    assert get("/other")[0] == 404
