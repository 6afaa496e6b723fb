"""The order in which waiting turns start: one at a time per session, by priority, fair between principals."""

from __future__ import annotations

import itertools
from collections import Counter, deque
from collections.abc import Mapping
from typing import NamedTuple

from hermes.journal.turns.lifecycle import Submission


class _Waiting(NamedTuple):
    submission: Submission
    #: Counts up: earlier turns have smaller numbers.
    number: int


class FairQueue:
    """Waiting turns, by session. Not thread-safe: its owner holds a lock.

    The turns of a session start in their order, each after the one before it is done. Between sessions the higher
    priority comes first, then the principal with the fewest running turns, then the one that was served longest ago.
    Taking a turn looks at the first one of each session that waits.
    """

    def __init__(self, slots: Mapping[str, int], max_running_of_principal: int = 0) -> None:
        """``slots`` are the turns that may run at the same time, by queue. A limit of 0 is none."""
        self._slots = dict(slots)
        self._limit = max_running_of_principal
        self._sessions: dict[str, deque[_Waiting]] = {}
        self._waiting: dict[str, _Waiting] = {}
        #: The sessions whose next turn may not start: one of theirs runs, or is suspended.
        self._held: set[str] = set()
        self._running: dict[str, Submission] = {}
        self._running_of: Counter[str] = Counter()
        self._waiting_of: Counter[str] = Counter()
        self._used: Counter[str] = Counter()
        self._served: dict[str, int] = {}
        self._numbers = itertools.count()

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def running(self) -> int:
        """How many turns have a slot."""
        return len(self._running)

    def add(self, submission: Submission, *, is_first: bool = False) -> None:
        """Add a turn behind those of its session, or before them."""
        waiting = _Waiting(submission, next(self._numbers))
        turns = self._sessions.setdefault(submission.session_id, deque())
        if is_first:
            turns.appendleft(waiting)
        else:
            turns.append(waiting)
        self._waiting[submission.turn_id] = waiting
        self._waiting_of[submission.principal] += 1

    def remove(self, turn_id: str) -> bool:
        """Take a waiting turn out. False when it does not wait."""
        waiting = self._waiting.pop(turn_id, None)
        if waiting is None:
            return False
        submission = waiting.submission
        turns = self._sessions[submission.session_id]
        turns.remove(waiting)
        if not turns:
            del self._sessions[submission.session_id]
        self._waiting_of[submission.principal] -= 1
        self._forget(submission.principal)
        return True

    def take(self) -> Submission | None:
        """The turn to start now, which then has a slot; None when none may start."""
        if all(self._used[queue] >= slots for queue, slots in self._slots.items()):
            return None
        ready = [turns[0] for turns in self._sessions.values() if self._may_start(turns[0].submission)]
        if not ready:
            return None
        chosen = min(ready, key=self._rank).submission
        self._held.add(chosen.session_id)
        self._running[chosen.turn_id] = chosen
        self._used[chosen.queue] += 1
        self._running_of[chosen.principal] += 1
        self._served[chosen.principal] = next(self._numbers)
        self.remove(chosen.turn_id)
        return chosen

    def done(self, submission: Submission, *, is_held: bool = False) -> None:
        """Give the slot of a turn back. While its session is held, because it has not ended, no other one starts."""
        if self._running.pop(submission.turn_id, None) is None:
            return
        self._used[submission.queue] -= 1
        self._running_of[submission.principal] -= 1
        if not is_held:
            self.let_go(submission.session_id)
        self._forget(submission.principal)

    def hold(self, session_id: str) -> None:
        """Start no turn of a session until ``let_go``."""
        self._held.add(session_id)

    def let_go(self, session_id: str) -> None:
        """Start the turns of a session again."""
        self._held.discard(session_id)

    def _may_start(self, submission: Submission) -> bool:
        if submission.session_id in self._held or self._used[submission.queue] >= self._slots[submission.queue]:
            return False
        return not self._limit or self._running_of[submission.principal] < self._limit

    def _rank(self, waiting: _Waiting) -> tuple[int, int, int, int]:
        """The lowest comes first."""
        principal = waiting.submission.principal
        served = self._served.get(principal, -1)
        return -waiting.submission.priority, self._running_of[principal], served, waiting.number

    def _forget(self, principal: str) -> None:
        """A principal with nothing to run is a new one when it comes again."""
        if not self._running_of[principal] and not self._waiting_of[principal]:
            del self._running_of[principal], self._waiting_of[principal]
            self._served.pop(principal, None)
