"""What a cluster carries on this machine: ``python -m tests.bench.cluster`` (add ``--help`` for its options).

Starts a PostgreSQL server (or uses ``--url``), workers and a model server, and measures everything that docs/scale.md
says: the CPU of a fenced commit and of a turn of nine steps without latency on SQLite and PostgreSQL in one process,
turns per second, their CPU on workers, database and surface, the time from acceptance to the first request of the
model, the CPU of idle workers, the time until the turns of a killed worker run elsewhere, and then the latency and the
idle CPU of one worker at ``worker.poll_seconds: 1``.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
import resource
import statistics
import tempfile
import threading
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec
from tests.bench.plain_psycopg import PlainConnection

from hermes.base.config.schema.sections import JournalConfig
from hermes.host import Host, HostOptions
from hermes.journal.leases import SessionInfo
from hermes.journal.store.postgres import store as postgres_store
from hermes.journal.store.postgres.pipeline import PipelinedConnection
from hermes.journal.turns.lifecycle import begin_turn
from hermes.service.dispatch.cluster.dispatcher import ClusterDispatcher
from hermes.testing import ScriptedProvider, by_step, text, tool_calls
from hermes.testing.scripted.script import RecordedRequest, ReplyLike
from support.cluster_rig import ClusterRig
from support.postgres_server import PostgresServer
from support.settled_turns import wait_turn

_PARAGRAPH = "All work and no play makes a long test. " * 25
#: model, three tools, model, three tools, model: nine steps.
_NINE_STEPS = by_step(
    tool_calls([("read_file", {"path": f"file{number}.txt"}) for number in range(3)]),
    tool_calls([("read_file", {"path": f"file{number}.txt"}) for number in range(3, 6)]),
    text(_PARAGRAPH),
)


def _serve_model(pipe: Any) -> None:
    """A model server in a process of its own, so that its CPU is not counted."""
    arrivals: dict[str, float] = {}

    def choose(request: RecordedRequest) -> ReplyLike:
        if request.step == 0:
            arrivals.setdefault(request.last_user_text, time.time())
        if request.last_user_text.startswith("hold"):
            return text("Held.", delay=8.0)
        return _NINE_STEPS(request)

    with ScriptedProvider(choose) as provider:
        pipe.send(provider.base_url)
        while pipe.recv() == "arrivals":
            pipe.send(dict(arrivals))
            provider.requests.clear()


class _Model:
    """The model server as the bench sees it."""

    def __init__(self) -> None:
        self._pipe, other = multiprocessing.Pipe()
        self._process = multiprocessing.get_context("spawn").Process(target=_serve_model, args=(other,))
        self._process.start()
        self.base_url: str = self._pipe.recv()

    def arrivals(self) -> dict[str, float]:
        self._pipe.send("arrivals")
        return self._pipe.recv()

    def close(self) -> None:
        self._pipe.send("end")
        self._process.join(10)


def cpu_of(pid: int) -> float:
    """Seconds of CPU that a process has used, its threads included."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_of(pid: int) -> float:
    """Resident megabytes of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize() / 1e6


def _database_cpu(server: PostgresServer | None) -> float:
    """CPU of the server and of its children, those that have ended included."""
    if server is None:
        return 0.0
    parent = int((server.data / "postmaster.pid").read_text().split()[0])
    total = 0.0
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError, IndexError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                if int(fields[1]) == parent or int(entry.name) == parent:
                    total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
                if int(entry.name) == parent:
                    total += (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")
    return total


@contextlib.contextmanager
def _server(url: str) -> Generator[tuple[str, PostgresServer | None]]:
    if url:
        yield url, None
        return
    with tempfile.TemporaryDirectory(prefix="hermes-pg-") as folder:
        server = PostgresServer(Path(folder))
        server.initialise()
        server.start()
        try:
            yield server.url(), server
        finally:
            server.stop()


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]


def _written(rig: ClusterRig) -> tuple[int, int]:
    """How many transactions the database has ended, and the bytes of its write-ahead log."""
    query = (
        "SELECT xact_commit, CAST(pg_current_wal_insert_lsn() - '0/0' AS bigint) FROM pg_stat_database "
        "WHERE datname = current_database()"
    )
    return rig.query(query)[0]


def throughput(rig: ClusterRig, dispatcher: ClusterDispatcher, turns: int, server: PostgresServer | None) -> None:
    """Turns per second with all workers busy."""
    done = threading.Semaphore(0)
    workers = [worker.process.pid for worker in rig.workers]
    before, database = {pid: cpu_of(pid) for pid in workers}, _database_cpu(server)
    own, (commits_before, wal_before) = time.process_time(), _written(rig)
    started = time.monotonic()
    for number in range(turns):
        ticket = dispatcher.submit(rig.request(f"turn {number} of {started}", f"bench-{started}-{number}"))
        dispatcher.watch(ticket.turn_id, lambda _turn: done.release())
    accepted = time.monotonic() - started
    for _ in range(turns):
        assert done.acquire(timeout=600)
    seconds = time.monotonic() - started
    used = sum(cpu_of(pid) - before[pid] for pid in workers)
    time.sleep(1.5)  # the server counts commits with a delay
    made, wal = _written(rig)
    print(f"{turns} turns of 9 steps with {len(workers)} workers: {turns / seconds:.1f} turns/s ({seconds:.1f} s)")
    surface, stored = time.process_time() - own, _database_cpu(server) - database
    print(f"  accepted in {accepted:.1f} s; CPU per turn: workers {used / turns * 1000:.1f} ms, ", end="")
    print(f"submitting and following {surface / turns * 1000:.1f} ms, database {stored / turns * 1000:.1f} ms")
    print(f"  the database made {(made - commits_before) / turns:.1f} commits and ", end="")
    print(f"{(wal - wal_before) / turns / 1000:.1f} kB of its log for a turn, with all polling and signs of life")
    print(
        f"  two cores with nothing else on them carry {2 * turns / (used + surface + stored):.0f} turns/s of that CPU"
    )


def latency(rig: ClusterRig, dispatcher: ClusterDispatcher, model: _Model, turns: int) -> None:
    """From the acceptance of a turn to the first request of its model, one turn at a time."""
    accepted: dict[str, float] = {}
    for number in range(turns):
        name = f"latency {number} {time.time()}"
        ticket = dispatcher.submit(rig.request(name, f"latency-{number % 10}"))
        accepted[name] = time.time()
        wait_turn(dispatcher, ticket.turn_id, timeout=60)
        time.sleep(0.02 + 0.013 * (number % 7))
    arrivals = model.arrivals()
    waits = [(arrivals[name] - at) * 1000 for name, at in accepted.items()]
    middle, most = statistics.median(waits), percentile(waits, 0.99)
    print(f"accepted to first model request: p50 {middle:.0f} ms, p99 {most:.0f} ms ({turns} turns)")


def idle(rig: ClusterRig, seconds: float) -> None:
    """The CPU of workers that have nothing to do."""
    before = {worker.process.pid: cpu_of(worker.process.pid) for worker in rig.workers}
    time.sleep(seconds)
    for pid, used in before.items():
        print(f"idle worker: {(cpu_of(pid) - used) / seconds * 100:.1f} % CPU, {memory_of(pid):.0f} MB")


def takeover(rig: ClusterRig, dispatcher: ClusterDispatcher) -> None:
    """From kill -9 of a worker to the first step of its turns elsewhere."""
    tickets = [dispatcher.submit(rig.request(f"hold {number}", f"hold-{number}")) for number in range(4)]
    query = "SELECT count(*) FROM turns WHERE state = 'running'"
    while rig.query(query)[0][0] < len(tickets):
        time.sleep(0.01)
    owners: list[str] = [row[0] for row in rig.query("SELECT runner FROM sessions WHERE id LIKE 'hold-%'")]
    victim = next(worker for worker in rig.workers if worker.id in owners)
    victim.process.kill()
    killed = time.monotonic()
    query = "SELECT count(*) FROM sessions WHERE runner = %s"
    while rig.query(query, victim.id)[0][0]:
        time.sleep(0.01)
    print(f"the turns of a worker killed with kill -9 run elsewhere after {time.monotonic() - killed:.2f} s")
    for ticket in tickets:
        dispatcher.cancel(ticket.turn_id)


def commits(rig: ClusterRig, count: int) -> None:
    """The CPU of this process for one fenced commit of one event."""
    host = rig.host()
    turn = begin_turn(
        *(host.store, host.runner, SessionInfo("commits", str(rig.cwd), "test")),
        turn_id="commits:1",
        task_id="1",
        request_key="1",
        message={"role": "user", "content": "hello"},
    )
    for measured in (20, count):  # the first ones prepare the statements
        before = time.thread_time()
        for number in range(measured):
            turn.event("measured", "", {"number": number})
            turn.commit()
        used = (time.thread_time() - before) / measured * 1000
    print(f"fenced commit of one event: {used:.2f} ms of CPU at the client")


def one_process(rig: ClusterRig, server: PostgresServer | None, turns: int) -> None:
    """The CPU and the time of the same turn without workers, on both stores in turn.

    The third one is PostgreSQL with the cursors of psycopg in place of the journal's own codec, which the codec must
    be worth.
    """
    on_file = msgspec.structs.replace(rig.config, journal=JournalConfig())
    with contextlib.closing(Host(rig.home, on_file, HostOptions(platform="test"), cwd=rig.cwd, env={})) as file:
        hosts = {"SQLite": file, "PostgreSQL": rig.host(), "with plain cursors": rig.host()}
        used, seconds, stored = (dict.fromkeys(hosts, 0.0) for _ in range(3))
        for measured in (turns // 2, turns):  # the first ones open connections and prepare statements
            used, seconds, stored = (dict.fromkeys(hosts, 0.0) for _ in range(3))
            for number in range(measured):
                for name, host in hosts.items():
                    made = PlainConnection if name == "with plain cursors" else PipelinedConnection
                    with patch.object(postgres_store, "PipelinedConnection", made):
                        before, database, started = time.process_time(), _database_cpu(server), time.monotonic()
                        assert host.new_session().run(f"{name} {number} of {measured}").answer
                    used[name] += time.process_time() - before
                    seconds[name] += time.monotonic() - started
                    stored[name] += _database_cpu(server) - database
        for name in hosts:
            print(f"a turn of 9 steps in one process, {name}: {used[name] / turns * 1000:.1f} ms of CPU and ", end="")
            print(f"{stored[name] / turns * 1000:.1f} ms of the server, {seconds[name] / turns * 1000:.1f} ms in all")


def slow_pace(folder: Path, url: str, model: _Model, seconds: float) -> None:
    """One worker that looks at its queue once a second."""
    rig = ClusterRig(folder, url, model, slots=8, poll_seconds=1.0)
    try:
        for number in range(6):
            (rig.cwd / f"file{number}.txt").write_text(_PARAGRAPH)
        rig.start_workers(1)
        print("one worker with worker.poll_seconds: 1")
        latency(rig, rig.dispatcher(), model, 30)
        idle(rig, seconds)
    finally:
        rig.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="", help="a PostgreSQL database to use; by default a server is started")
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--slots", type=int, default=8)
    parser.add_argument("--turns", type=int, default=200)
    parser.add_argument("--poll", type=float, default=0.1)
    parser.add_argument("--idle", type=float, default=10.0, help="seconds to measure idle workers")
    args = parser.parse_args()
    with contextlib.ExitStack() as stack:
        url, server = stack.enter_context(_server(args.url))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hermes-bench-")))
        model = _Model()
        stack.callback(model.close)
        rig = ClusterRig(
            folder, url, model, slots=args.slots, poll_seconds=args.poll, max_waiting=0, max_waiting_of_principal=0
        )
        stack.callback(rig.close)
        for number in range(6):
            (rig.cwd / f"file{number}.txt").write_text(_PARAGRAPH)
        commits(rig, 300)
        one_process(rig, server, 40)
        rig.start_workers(args.workers)
        dispatcher = rig.dispatcher()
        # Each connection prepares its statements: the first turns cost more.
        throughput(rig, dispatcher, args.turns, server)
        throughput(rig, dispatcher, args.turns, server)
        latency(rig, dispatcher, model, 60)
        idle(rig, args.idle)
        if args.workers > 1:
            takeover(rig, dispatcher)
        rig.close()
        slow_pace(folder / "slow", url, model, args.idle)


if __name__ == "__main__":
    main()
