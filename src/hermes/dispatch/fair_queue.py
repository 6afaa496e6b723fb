"""The order in which waiting turns start: one at a time per session, by priority, fair between principals."""

from __future__ import annotations

import itertools
from collections import Counter, deque
from collections.abc import Mapping

import msgspec

from hermes.journal.turns import Submission


class _Waiting(msgspec.Struct):
    submission: Submission
    #: Counts up: earlier turns have smaller numbers.
    number: int


class FairQueue:
    """Waiting turns, by session. Not thread-safe: its owner holds a lock.

    The turns of a session start in their order, each after the one before it is done. Between sessions the higher
    priority comes first, then the principal with the fewest running turns, then the one that was served longest ago.
    """

    def __init__(self, slots: Mapping[str, int], max_running_of_principal: int = 0) -> None:
        """``slots`` are the turns that may run at the same time, by queue. A limit of 0 is none."""
        self._slots = dict(slots)
        self._limit = max_running_of_principal
        self._waiting: dict[str, deque[_Waiting]] = {}
        #: The sessions whose next turn may not start: one of theirs runs, or is suspended.
        self._held: set[str] = set()
        self._running: dict[str, Submission] = {}
        self._running_of: Counter[str] = Counter()
        self._used: Counter[str] = Counter()
        self._served: dict[str, int] = {}
        self._numbers = itertools.count()

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    @property
    def running(self) -> int:
        """How many turns have a slot."""
        return len(self._running)

    def add(self, submission: Submission, *, is_first: bool = False) -> None:
        """Add a turn behind those of its session, or before them."""
        turns = self._waiting.setdefault(submission.session_id, deque())
        waiting = _Waiting(submission, next(self._numbers))
        if is_first:
            turns.appendleft(waiting)
        else:
            turns.append(waiting)

    def remove(self, turn_id: str) -> bool:
        """Take a waiting turn out. False when it does not wait."""
        for session_id, turns in self._waiting.items():
            for waiting in turns:
                if waiting.submission.turn_id == turn_id:
                    turns.remove(waiting)
                    if not turns:
                        del self._waiting[session_id]
                    return True
        return False

    def take(self) -> Submission | None:
        """The turn to start now, which then has a slot; None when none may start."""
        ready = [turns[0] for session_id, turns in self._waiting.items() if session_id not in self._held]
        ready = [waiting for waiting in ready if self._may_start(waiting.submission)]
        if not ready:
            return None
        chosen = min(ready, key=self._rank).submission
        self.remove(chosen.turn_id)
        self._held.add(chosen.session_id)
        self._running[chosen.turn_id] = chosen
        self._used[chosen.queue] += 1
        self._running_of[chosen.principal] += 1
        self._served[chosen.principal] = next(self._numbers)
        return chosen

    def done(self, submission: Submission, *, is_held: bool = False) -> None:
        """Give the slot of a turn back. While its session is held, because it has not ended, no other one starts."""
        if self._running.pop(submission.turn_id, None) is None:
            return
        self._used[submission.queue] -= 1
        self._running_of[submission.principal] -= 1
        if not self._running_of[submission.principal]:
            del self._running_of[submission.principal]
            if not any(turn.submission.principal == submission.principal for turn in self._heads()):
                self._served.pop(submission.principal, None)
        if not is_held:
            self._held.discard(submission.session_id)

    def hold(self, session_id: str) -> None:
        """Start no turn of a session until ``let_go``."""
        self._held.add(session_id)

    def let_go(self, session_id: str) -> None:
        """Start the turns of a session again."""
        self._held.discard(session_id)

    def _heads(self) -> list[_Waiting]:
        return [turns[0] for turns in self._waiting.values()]

    def _may_start(self, submission: Submission) -> bool:
        if self._used[submission.queue] >= self._slots[submission.queue]:
            return False
        return not self._limit or self._running_of[submission.principal] < self._limit

    def _rank(self, waiting: _Waiting) -> tuple[int, int, int, int]:
        turn = waiting.submission
        return (-turn.priority, self._running_of[turn.principal], self._served.get(turn.principal, -1), waiting.number)
