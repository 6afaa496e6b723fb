"""The order of waiting turns: one at a time per session, priorities, fairness between principals, limits."""

from __future__ import annotations

import random

from hermes.journal.turns.lifecycle import Submission
from hermes.service.dispatch.fair_queue import FairQueue
from hermes.service.dispatch.port import CHILDREN, TURNS


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


def test_the_order_is_that_of_a_plain_search_whatever_happens() -> None:
    """Against the definition itself: of all turns that may start, the one with the lowest rank."""
    chance = random.Random(5)
    queue, model = FairQueue({TURNS: 3, CHILDREN: 1}, 2), PlainQueue({TURNS: 3, CHILDREN: 1}, 2)
    running: list[Submission] = []
    for number in range(3_000):
        action = chance.random()
        if action < 0.45:
            at = chance.randrange(12)
            one = turn(
                *(f"t{number}", f"s{at}"),
                principal=f"p{at % 5}",
                priority=chance.choice((0, 0, 0, 7)),
                queue=CHILDREN if chance.random() < 0.2 else TURNS,
            )
            is_first = chance.random() < 0.1
            queue.add(one, is_first=is_first)
            model.add(one, is_first=is_first)
        elif action < 0.55 and model.waiting:
            gone = chance.choice(model.waiting).turn_id
            assert queue.remove(gone)
            model.remove(gone)
        elif action < 0.7 and running:
            ended, is_held = running.pop(chance.randrange(len(running))), chance.random() < 0.2
            queue.done(ended, is_held=is_held)
            model.done(ended, is_held=is_held)
        elif action < 0.75:
            session = f"s{chance.randrange(12)}"
            if all(one.session_id != session for one in running):
                queue.let_go(session)
                model.held.discard(session)
        else:
            taken, expected = queue.take(), model.take()
            assert taken == expected
            running += [taken] if taken is not None else []
        assert len(queue) == len(model.waiting)


class PlainQueue:
    """The same order by looking at everything each time."""

    def __init__(self, slots: dict[str, int], limit: int) -> None:
        self.slots, self.limit = slots, limit
        self.waiting: list[Submission] = []
        self.numbers: dict[str, int] = {}
        self.held: set[str] = set()
        self.running: list[Submission] = []
        self.served: dict[str, int] = {}
        self.clock = 0

    def add(self, one: Submission, *, is_first: bool) -> None:
        self.clock += 1
        self.numbers[one.turn_id] = self.clock
        self.waiting.insert(0, one) if is_first else self.waiting.append(one)

    def remove(self, turn_id: str) -> None:
        self.waiting = [one for one in self.waiting if one.turn_id != turn_id]
        self.forget()

    def forget(self) -> None:
        active = {one.principal for one in (*self.waiting, *self.running)}
        self.served = {principal: at for principal, at in self.served.items() if principal in active}

    def of(self, principal: str) -> int:
        return sum(one.principal == principal for one in self.running)

    def take(self) -> Submission | None:
        heads: dict[str, Submission] = {}
        for one in self.waiting:
            heads.setdefault(one.session_id, one)
        ready = [
            one
            for one in heads.values()
            if one.session_id not in self.held
            and sum(other.queue == one.queue for other in self.running) < self.slots[one.queue]
            and self.of(one.principal) < self.limit
        ]
        if not ready:
            return None
        chosen = min(ready, key=self.rank)
        self.clock += 1
        self.served[chosen.principal] = self.clock
        self.running.append(chosen)
        self.held.add(chosen.session_id)
        self.remove(chosen.turn_id)
        return chosen

    def rank(self, one: Submission) -> tuple[int, int, int, int]:
        served = self.served.get(one.principal, -1)
        return (-one.priority, self.of(one.principal), served, self.numbers[one.turn_id])

    def done(self, one: Submission, *, is_held: bool) -> None:
        self.running.remove(one)
        if not is_held:
            self.held.discard(one.session_id)
        self.forget()
