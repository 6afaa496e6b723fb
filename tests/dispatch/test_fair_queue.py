"""The order of waiting turns: one at a time per session, priorities, fairness between principals, limits."""

from __future__ import annotations

from hermes.dispatch.fair_queue import FairQueue
from hermes.dispatch.port import CHILDREN, TURNS
from hermes.journal.turns import Submission


def turn(name: str, session: str = "", *, principal: str = "", priority: int = 0, queue: str = TURNS) -> Submission:
    return Submission(
        *(name, session or name, name, name, "test", "queued", queue, priority, principal, 0.0),
    )


def queue_of(*turns: Submission, slots: int = 2, limit: int = 0) -> FairQueue:
    queue = FairQueue({TURNS: slots, CHILDREN: 1}, limit)
    for one in turns:
        queue.add(one)
    return queue


def taken(queue: FairQueue) -> list[str]:
    """Everything that may start now."""
    names: list[str] = []
    while (one := queue.take()) is not None:
        names.append(one.turn_id)
    return names


def served(queue: FairQueue) -> list[str]:
    """The order in which turns start when each ends before the next one begins."""
    names: list[str] = []
    while (one := queue.take()) is not None:
        names.append(one.turn_id)
        queue.done(one)
    return names


def test_slots_bound_what_runs() -> None:
    queue = queue_of(turn("a"), turn("b"), turn("c"))
    assert taken(queue) == ["a", "b"]
    assert (queue.running, len(queue)) == (2, 1)
    queue.done(turn("a"))
    assert taken(queue) == ["c"]


def test_a_session_has_one_turn_at_a_time_and_keeps_its_order() -> None:
    first, second = turn("1", "s"), turn("2", "s", priority=9)
    queue = queue_of(first, second, turn("3", "t"))
    assert taken(queue) == ["1", "3"]
    queue.done(first)
    assert taken(queue) == ["2"]


def test_a_higher_priority_starts_first() -> None:
    assert served(queue_of(turn("low"), turn("high", priority=5), turn("also low"))) == ["high", "low", "also low"]


def test_principals_take_turns() -> None:
    many = [turn(f"a{number}", principal="ann") for number in range(4)]
    queue = queue_of(*many, turn("b0", principal="bob"), turn("b1", principal="bob"))
    assert served(queue) == ["a0", "b0", "a1", "b1", "a2", "a3"]


def test_the_principal_with_fewer_running_turns_comes_first() -> None:
    many = [turn(f"a{number}", principal="ann") for number in range(4)]
    queue = queue_of(*many, slots=3)
    assert taken(queue) == ["a0", "a1", "a2"]
    queue.add(turn("b", principal="bob"))
    queue.done(many[0])
    assert taken(queue) == ["b"]


def test_a_principal_has_no_more_than_its_limit() -> None:
    many = [turn(f"a{number}", principal="ann") for number in range(3)]
    queue = queue_of(*many, turn("b", principal="bob"), slots=8, limit=1)
    assert taken(queue) == ["a0", "b"]
    queue.done(many[0])
    assert taken(queue) == ["a1"]


def test_children_have_slots_of_their_own() -> None:
    queue = queue_of(turn("parent"), turn("other"), turn("child", queue=CHILDREN), slots=2)
    assert taken(queue) == ["parent", "other", "child"]


def test_a_session_that_is_held_starts_nothing_until_it_is_let_go() -> None:
    first = turn("1", "s")
    queue = queue_of(first, turn("2", "s"))
    assert taken(queue) == ["1"]
    queue.done(first, is_held=True)
    assert (taken(queue), queue.running) == ([], 0)
    queue.let_go("s")
    queue.add(first, is_first=True)
    assert taken(queue) == ["1"]


def test_a_removed_turn_never_starts() -> None:
    queue = queue_of(turn("1", "s"), turn("2", "s"))
    assert queue.remove("1")
    assert not queue.remove("1")
    assert taken(queue) == ["2"]
