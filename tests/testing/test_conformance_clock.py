"""The load-adjusted clock, and verdicts of the conformance kit that do not depend on the machine."""

from __future__ import annotations

import os
import threading
from typing import Any

import pytest

from hermes.testing.conformance import clock
from hermes.testing.conformance.check import ConformanceLimits, check_plugin
from hermes.testing.conformance.clock import Stopwatch, cpu_waits


class Machine:
    """A wall clock and a count of CPU waits that a test moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        self.waits: dict[str, float] = {"1": 5.0}
        monkeypatch.setattr(clock, "monotonic", lambda: self.now)
        monkeypatch.setattr(clock, "cpu_waits", self.cpu_waits)

    def cpu_waits(self, _pid: object) -> dict[str, float]:
        return dict(self.waits)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


def test_time_without_a_cpu_does_not_count(machine: Machine) -> None:
    watch = Stopwatch()
    machine.now += 10
    machine.waits["1"] += 7
    assert (watch.wall_seconds, watch.seconds) == (10, 3)
    assert watch.reached(3) and not watch.reached(3.5)
    watch.restart()
    assert watch.seconds == 0


def test_threads_that_come_and_go_do_not_make_time_jump(machine: Machine) -> None:
    machine.waits = {"1": 50.0, "2": 1.0}
    watch = Stopwatch()
    machine.now += 4
    machine.waits = {"2": 2.0, "3": 0.5}
    assert watch.seconds == 3


def test_many_threads_that_wait_at_the_same_time_do_not_stop_the_clock(machine: Machine) -> None:
    watch = Stopwatch()
    machine.now += 10
    machine.waits = {str(number): 5.0 + 9 for number in range(1, 11)}
    machine.waits["1"] = 5.0 + 9
    assert watch.seconds < 1
    machine.now += 10
    assert watch.seconds > 5


def test_without_a_count_it_is_the_wall_clock(machine: Machine) -> None:
    machine.waits = {}
    watch = Stopwatch()
    machine.now += 2
    assert watch.seconds == 2


def test_waits_end_with_the_event_the_thread_or_the_limit() -> None:
    happened, thread = threading.Event(), threading.Thread(target=lambda: None)
    assert not Stopwatch().wait(happened, 0.01)
    happened.set()
    assert Stopwatch().wait(happened, 60)
    thread.start()
    assert Stopwatch().join(thread, 60)
    stop = threading.Event()
    waiting = threading.Thread(target=stop.wait, daemon=True)
    waiting.start()
    assert not Stopwatch().join(waiting, 0.01)
    stop.set()


def test_the_kernels_count_of_this_process() -> None:
    waits = cpu_waits()
    if waits:  # Linux
        assert str(os.getpid()) in waits
    assert cpu_waits(2**30) == {}


@pytest.mark.slow
def test_a_plugin_is_not_slow_because_the_machine_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same callback, on a machine where all of its time was spent on waiting for a CPU."""
    limits = ConformanceLimits(deadline=60, slow=0.05, budget=120)
    starved = False
    stopwatch_seconds = Stopwatch.seconds.fget
    assert stopwatch_seconds is not None

    def seconds(watch: Stopwatch) -> float:
        return 0.0 if starved else stopwatch_seconds(watch)

    monkeypatch.setattr(Stopwatch, "seconds", property(seconds))

    def callback(**_fields: Any) -> None:
        threading.Event().wait(0.3)

    def register(ctx: Any) -> None:
        ctx.register_hook("pre_verify", callback)

    assert check_plugin(register, limits=limits).rules == {"slow"}
    starved = True
    assert check_plugin(register, limits=limits).findings == []
