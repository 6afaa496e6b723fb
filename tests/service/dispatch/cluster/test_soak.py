"""A cluster under steady load, with workers that are killed: nothing is lost or doubled, and nothing grows.

``pytest -m soak tests/service/dispatch/cluster/test_soak.py -s`` runs it for ten minutes and prints the figures.
"""

from __future__ import annotations

import resource
import statistics
import threading
import time
from collections import deque
from collections.abc import Callable, Generator
from pathlib import Path
from typing import NamedTuple

import pytest

from hermes.journal.history.inspection import inspect_session
from hermes.service.dispatch.cluster.dispatcher import ClusterDispatcher
from hermes.service.dispatch.port import DispatchedTurn
from hermes.testing import RecordedRequest, ScriptedProvider, ScriptedReply, by_step, text, tool_calls
from hermes.trace.verify.session import verify
from support.cluster_rig import ClusterRig, WorkerProcess, answer_of
from support.waiting import HANG, wait_until

_SECONDS = 600.0
#: Turns that are with the workers at the same time, and those of one session.
_IN_FLIGHT, _TURNS_OF_A_SESSION = 12, 2
#: Each of two workers keeps 1,000 sessions open, so its memory grows until it has had so many.
_SESSIONS_UNTIL_FULL = 2_250
_MOST_GROWTH = 8e6


class Use(NamedTuple):
    """What a process uses."""

    memory: int
    threads: int
    files: int


def use_of(pid: int) -> Use:
    """What a process uses now: bytes, threads, descriptors."""
    process = Path("/proc", str(pid))
    memory = int((process / "statm").read_text().split()[1]) * resource.getpagesize()
    return Use(memory, len(list((process / "task").iterdir())), len(list((process / "fd").iterdir())))


class Load:
    """Submits turns as others end, and remembers how they did."""

    def __init__(self, rig: ClusterRig, surface: ClusterDispatcher) -> None:
        self._rig, self._surface = rig, surface
        self._free = threading.Semaphore(_IN_FLIGHT)
        self._answers: deque[tuple[str, DispatchedTurn]] = deque()
        self.submitted = self.ended = 0

    @property
    def sessions(self) -> int:
        return -(-self.submitted // _TURNS_OF_A_SESSION)

    def submit(self) -> None:
        """Submit one turn when another one has ended."""
        assert self._free.acquire(timeout=HANG), "no turn ends any more"
        name = f"turn-{self.submitted}"
        session = f"soak-{self.submitted // _TURNS_OF_A_SESSION}"
        self.submitted += 1
        ticket = self._surface.submit(self._rig.request(name, session))

        def settled(turn: DispatchedTurn) -> None:
            self._answers.append((name, turn))
            self._free.release()

        self._surface.watch(ticket.turn_id, settled)
        self.check()

    def check(self) -> None:
        """Every turn that has ended has its own answer."""
        while self._answers:
            name, turn = self._answers.popleft()
            assert answer_of(turn) == f"Answer to {name}"
            self.ended += 1

    def finish(self) -> None:
        """Wait for those that run."""
        for _ in range(_IN_FLIGHT):
            assert self._free.acquire(timeout=HANG), "a turn does not end"
        self.check()
        assert self.ended == self.submitted


def _answer(request: RecordedRequest) -> ScriptedReply | str:
    name = request.last_user_text
    calls = [("read_file", {"path": "notes.txt"}), ("terminal", {"command": f"echo {name} >> effects.log"})]
    return by_step(tool_calls(calls), text(f"Answer to {name}"))(request)


@pytest.fixture
def rig(postgres_url: str, tmp_path: Path) -> Generator[ClusterRig]:
    with ScriptedProvider(_answer) as provider:
        rig = ClusterRig(tmp_path, postgres_url, provider, slots=4, max_waiting=0, max_waiting_of_principal=0)
        (rig.cwd / "notes.txt").write_text("A line of notes.\n" * 20)
        try:
            yield rig
        finally:
            rig.close()


def _replace(rig: ClusterRig, worker: WorkerProcess) -> WorkerProcess:
    worker.kill()
    return rig.start_workers(1)[0]


def _check_records(rig: ClusterRig, load: Load, every: int) -> None:
    """Each command ran once at most, nothing waits, and the records of sessions fit together."""
    effects = (rig.cwd / "effects.log").read_text().split()
    assert len(effects) == len(set(effects))
    states = dict(rig.query("SELECT state, count(*) FROM turns GROUP BY state"))
    assert states == {"completed": load.submitted}
    host = rig.host()
    for number in range(0, load.sessions, every):
        assert verify(inspect_session(host.store, f"soak-{number}")) == []


def _drive(rig: ClusterRig, load: Load, goes_on: Callable[[], bool], replace_every: int) -> list[Use]:
    """Submit turns while it goes on, and kill the second worker now and then; what the first one used meanwhile."""
    first, second = rig.start_workers(2)
    uses: list[Use] = []
    while goes_on():
        load.submit()
        if load.submitted % replace_every == 0:
            second = _replace(rig, second)
        if load.sessions > _SESSIONS_UNTIL_FULL and load.submitted % 5 == 0:
            uses.append(use_of(first.process.pid))
    load.finish()
    return uses


@pytest.mark.slow
def test_a_short_time_under_load(rig: ClusterRig) -> None:
    surface = rig.dispatcher()
    load = Load(rig, surface)
    _drive(rig, load, lambda: load.submitted < 90, replace_every=40)
    _check_records(rig, load, every=3)
    followed: dict[str, object] = getattr(surface, "_followed")  # noqa: B009
    assert followed == {}
    # Nothing of the killed workers is left.
    wait_until(lambda: rig.query("SELECT count(*) FROM workers") == [(2,)], "the rows of killed workers are gone")


@pytest.mark.soak
def test_ten_minutes_under_load(rig: ClusterRig) -> None:
    load = Load(rig, rig.dispatcher())
    until = time.monotonic() + _SECONDS
    started = time.monotonic()
    uses = _drive(rig, load, lambda: time.monotonic() < until, replace_every=400)
    seconds = time.monotonic() - started
    _check_records(rig, load, every=25)
    fifth = len(uses) // 5
    assert fifth >= 5, "too few turns to say anything about the memory"
    early, late = (statistics.median(one.memory for one in part) for part in (uses[:fifth], uses[-fifth:]))
    print(f"\n{load.submitted} turns in {load.sessions} sessions, {load.submitted / seconds:.1f} turns/s")
    print(f"workers killed {len(rig.workers) - 2}; memory of the first {early / 1e6:.1f} MB, later {late / 1e6:.1f} MB")
    print(f"threads {uses[0].threads} to {uses[-1].threads}, descriptors {uses[0].files} to {uses[-1].files}")
    assert late - early < _MOST_GROWTH
    assert uses[-1].threads <= max(one.threads for one in uses[:fifth]) + 2
    assert uses[-1].files <= max(one.files for one in uses[:fifth]) + 10
