"""A cluster of real worker processes on a real PostgreSQL: turns, live events, cancelling, and what can go wrong."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from hermes.agent.events import TurnResult
from hermes.base.errors import JournalUnavailable
from hermes.base.log import log_path
from hermes.contract.events import TextDelta, TurnEvent
from hermes.journal.history.inspection import inspect_session
from hermes.service.dispatch.cluster.dispatcher import ClusterDispatcher
from hermes.service.dispatch.cluster.worker import EVICTED
from hermes.testing import RecordedRequest, ScriptedProvider, ScriptedReply, by_step, text, tool_calls
from hermes.trace.verify.session import verify
from support import run_hermes
from support.cluster_rig import SOURCE, ClusterRig, WorkerProcess, answer_of
from support.cut_proxy import CutProxy
from support.postgres_server import PostgresServer
from support.settled_turns import wait_turn
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
        return answer_of(wait_turn(self.surface, turn_id, timeout=HANG))

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
    assert answer_of(wait_turn(cluster.rig.dispatcher(), turns[0])) == "Answer to one"
    cluster.check("s1", "s2", "s3")
    _operators_see(cluster, worker)


def test_live_events_are_sent_to_those_who_listen(cluster: Cluster) -> None:
    cluster.rig.start_workers(1, "--slots", "2")
    channel = getattr(cluster.surface, "_channel")  # noqa: B009
    heard: dict[str, list[TurnEvent]] = {"running": [], "waiting": [], "elsewhere": []}
    with psycopg.connect(cluster.rig.url, autocommit=True) as connection:
        connection.execute(f'LISTEN "{channel}"'.encode())
        silent = cluster.submit("silent")
        assert cluster.answer(silent) == "Answer to silent"
        # The end of a turn is reported; its events have no listener, and are not sent.
        (told,) = connection.notifies(timeout=HANG, stop_after=1)
    assert json.loads(told.payload) == {"turn": silent, "events": [], "state": "ended"}
    # One can also begin to listen to a turn that runs, or that waits, or that another surface has submitted.
    turns = {"running": cluster.submit("hold r", "s2")}
    cancelled = cluster.submit("hold c", "s4")
    cluster.owner("s2")
    cluster.owner("s4")
    turns["waiting"] = cluster.submit("hold w", "s3")
    other = cluster.rig.dispatcher()
    over = threading.Semaphore(0)
    for name, surface in (("running", cluster.surface), ("waiting", cluster.surface), ("elsewhere", other)):
        turn = turns.get(name, turns["waiting"])
        surface.watch(turn, lambda _turn: over.release(), listener=heard[name].append)
    # The worker takes its messages in order: when this one has ended, it knows who listens.
    assert cluster.surface.cancel(cancelled)
    assert cluster.answer(cancelled) == "interrupted"
    cluster.model.gate.set()
    assert all(over.acquire(timeout=HANG) for _ in heard)
    said = {name: "".join(one.text for one in events if isinstance(one, TextDelta)) for name, events in heard.items()}
    assert said == {
        "running": "Answer to hold r",
        "waiting": "Answer to hold w",
        "elsewhere": "Answer to hold w",
    }


def _shown_numbers(cluster: Cluster, worker: WorkerProcess) -> list[str]:
    """Turns, slots and child slots of the only worker. Each number stands below the end of its name."""
    shown = run_hermes("workers", home=cluster.rig.home, cwd=cluster.rig.cwd)
    heading, line = shown.stdout.splitlines()[:2]
    assert line.startswith(worker.id)
    assert "0 turns wait" in shown.stdout
    return [line[: heading.index(name) + len(name)].split()[-1] for name in ("TURNS", "SLOTS", "CHILD SLOTS")]


def _operators_see(cluster: Cluster, worker: WorkerProcess) -> None:
    """``hermes workers`` lists it, and drains it."""
    # A turn has ended before its worker reports that the slot is free.
    wait_until(lambda: _shown_numbers(cluster, worker) == ["0", "1", "8"], "a worker without turns")
    drained = run_hermes("workers", "drain", worker.id[:8], home=cluster.rig.home, cwd=cluster.rig.cwd)
    assert drained.returncode == 0, drained.stderr
    assert worker.process.wait(HANG) == 0
    wrong = run_hermes("workers", "evict", "nobody", home=cluster.rig.home, cwd=cluster.rig.cwd)
    assert wrong.returncode == 1
    assert "there is no worker 'nobody'; there are none" in wrong.stderr


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
    # It may have had none of the turns, and is replaced all the same when it has given no sign of life for long enough.
    home, cwd = cluster.rig.home, cluster.rig.cwd
    wait_until(lambda: frozen.id not in run_hermes("workers", home=home, cwd=cwd).stdout, "the frozen one is replaced")
    # Who was replaced leaves as soon as it wakes up.
    frozen.send(signal.SIGCONT)
    assert frozen.process.wait(HANG) == EVICTED


def start_work(cluster: Cluster, *sessions: str) -> list[str]:
    """Turns that have run two of their four commands and wait for the model."""
    turns = [cluster.submit(f"work {session}", session) for session in sessions]
    expected = {f"{session}-{number}" for session in sessions for number in range(2)}
    wait_until(lambda: expected <= set(effects(cluster)), "the first two calls of every turn")
    return turns


def effects(cluster: Cluster) -> list[str]:
    path = cluster.rig.cwd / "effects.log"
    return path.read_text().split() if path.exists() else []


def check_work(cluster: Cluster, turns: list[str], *sessions: str) -> None:
    """The turns come to their end, and no command of theirs ran twice."""
    cluster.model.gate.set()
    assert [cluster.answer(turn) for turn in turns] == [f"Done with {session}" for session in sessions]
    done = effects(cluster)
    assert len(done) == len(set(done))
    cluster.check(*sessions)


def test_an_evicted_worker_leaves_and_others_continue_its_turns(cluster: Cluster) -> None:
    cluster.rig.start_workers(2)
    turns = start_work(cluster, "s0", "s1")
    owner = cluster.owner("s0")
    evicted = run_hermes("workers", "evict", owner.id, home=cluster.rig.home, cwd=cluster.rig.cwd)
    assert (evicted.returncode, evicted.stderr) == (0, "")
    assert owner.process.wait(HANG) == EVICTED
    check_work(cluster, turns, "s0", "s1")
    shown = run_hermes("workers", home=cluster.rig.home, cwd=cluster.rig.cwd)
    assert owner.id not in shown.stdout


@pytest.mark.parametrize("how", ["block", "refuse"])
def test_a_worker_that_is_cut_off_from_the_database_is_replaced(cluster: Cluster, how: str) -> None:
    with closing(CutProxy(cluster.rig.url)) as proxy:
        (cut_off,) = cluster.rig.start_workers(1, env=cluster.rig.home_with("other", proxy.url))
        turns = start_work(cluster, "s0", "s1")
        cluster.rig.start_workers(1)
        (proxy.block if how == "block" else proxy.refuse)()
        # The model answers both of them; only one can record that it runs the next command.
        check_work(cluster, turns, "s0", "s1")
        proxy.heal()
        assert cut_off.process.wait(HANG) == EVICTED
        # What it wanted to record when it was replaced was refused.
        check_work(cluster, turns, "s0", "s1")


def test_clocks_that_differ_by_hours_do_no_harm(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "clock").mkdir()
    (tmp_path / "clock" / "sitecustomize.py").write_text(
        "import os, time\nreal, offset = time.time, float(os.environ['TEST_CLOCK_OFFSET'])\n"
        "time.time = lambda: real() + offset\ntime.time_ns = lambda: int(time.time() * 1e9)\n"
    )
    path = os.pathsep.join([str(tmp_path / "clock"), str(SOURCE)])
    for offset in ("7200", "-7200"):
        cluster.rig.start_workers(1, env={"PYTHONPATH": path, "TEST_CLOCK_OFFSET": offset})
    sessions = [f"s{number}" for number in range(4)]
    turns = start_work(cluster, *sessions)
    killed, left = cluster.owner("s0"), cluster.rig.workers
    shown = run_hermes("workers", home=cluster.rig.home, cwd=cluster.rig.cwd)
    assert all(worker.id in shown.stdout for worker in left)  # no one is taken for frozen
    killed.kill()
    check_work(cluster, turns, *sessions)
    assert [worker.process.poll() for worker in left if worker is not killed] == [None]
    # The clocks do differ, and what is recorded has the time of the database.
    times = [datetime.fromisoformat(line.split()[0]) for line in log_path(cluster.rig.home).read_text().splitlines()]
    assert max(times) - min(times) > timedelta(hours=3)
    recorded = cluster.rig.query("SELECT min(at), max(at) FROM events")[0]
    assert all(abs(at - time.time()) < 3_000 for at in recorded)
    # The order of a session's turns is that of their acceptance.
    later = [cluster.submit(f"later {number}", "s0") for number in range(3)]
    assert [cluster.answer(turn) for turn in later] == [f"Answer to later {number}" for number in range(3)]
    assert cluster.model.asked[-3:] == [f"later {number}" for number in range(3)]


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
        return wait_turn(surface, ticket.turn_id, timeout=HANG).result

    with ThreadPoolExecutor(6) as pool:
        results = list(pool.map(deliver, surfaces * 2))
    assert {result.turn_id if result else "" for result in results} == {results[0].turn_id if results[0] else "-"}
    assert cluster.model.asked == ["hello"]


def test_a_turn_of_a_newer_loop_waits_for_a_worker_that_knows_it(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.rig.start_workers(1)
    monkeypatch.setattr("hermes.journal.turns.lifecycle.LOOP_VERSION", 2)
    newer = cluster.submit("newer", "new")
    monkeypatch.undo()
    assert cluster.answer(cluster.submit("older", "old")) == "Answer to older"
    assert wait_turn(cluster.surface, newer, timeout=0.5).state == "queued"


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
