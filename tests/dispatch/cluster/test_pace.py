"""The pace of a queue: a turn that is handed over is looked for at once, and no more turns are taken than slots."""

from __future__ import annotations

import threading
import time

import pytest

from hermes.dispatch.cluster import pace as pace_module
from hermes.dispatch.cluster.pace import QueuePace
from support.waiting import finish

_NEVER = 3_600.0


def _none() -> int:
    return 0


def _yes() -> bool:
    return True


def test_a_queue_is_looked_at_when_a_turn_is_handed_over() -> None:
    pace = QueuePace(_NEVER, _yes)
    threading.Timer(0.01, pace.wake).start()
    assert finish(lambda: pace.wait(_none, 1))
    pace.wake()  # before the wait: it is not lost
    assert finish(lambda: pace.wait(_none, 1))


def test_an_empty_queue_is_left_alone() -> None:
    found: list[bool] = [False, True]
    pace = QueuePace(0.001, lambda: found.pop(0))
    assert [pace.wait(_none, 1), pace.wait(_none, 1)] == [False, True]


def test_without_a_free_slot_nothing_is_asked() -> None:
    asked: list[int] = []

    def has_turns() -> bool:
        asked.append(1)
        return True

    pace = QueuePace(0.001, has_turns)
    assert not pace.wait(lambda: 2, 2)
    assert not pace.wait(_none, 0)
    pace.took(["a", "b"])
    assert not pace.wait(_none, 2)  # both were taken, and have not begun
    assert asked == []
    pace.began("a")
    assert pace.starting == 1
    pace.wake()
    assert finish(lambda: pace.wait(_none, 2))


def test_a_slot_that_becomes_free_is_used_at_once() -> None:
    pace = QueuePace(_NEVER, _yes)
    pace.wake()
    assert not finish(lambda: pace.wait(lambda: 1, 1))
    pace.ended()
    assert finish(lambda: pace.wait(_none, 1))


def test_a_worker_whose_slots_are_in_use_takes_turns_less_often() -> None:
    pace = QueuePace(0.001, _yes)
    assert pace.wait(lambda: 1, 2)
    pace.took(["a"])
    pace.began("a")
    assert not pace.wait(lambda: 1, 2)  # a look by itself is too early, and costs nothing
    pace.wake()
    assert finish(lambda: pace.wait(lambda: 1, 2))  # one that is asked for waits


def test_a_turn_that_was_lost_on_its_way_does_not_hold_its_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace_module, "_START_SECONDS", 0.0)
    pace = QueuePace(0.001, _yes)
    pace.took(["lost"])
    time.sleep(0.001)
    assert pace.starting == 0


def test_a_pace_that_is_closed_waits_no_more() -> None:
    pace = QueuePace(_NEVER, _yes)
    pace.close()
    assert not finish(lambda: pace.wait(_none, 1))
    assert not finish(lambda: pace.wait(_none, 1))
