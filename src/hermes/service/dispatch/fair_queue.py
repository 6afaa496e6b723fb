"""The order in which waiting turns start: one at a time per session, by priority, fair between principals."""

from __future__ import annotations

import itertools
from collections import Counter, deque
from collections.abc import Mapping
from heapq import heappop, heappush
from operator import itemgetter

import msgspec

from hermes.journal.turns.lifecycle import Submission

#: Running turns of a principal, when it was served last, and the number of its first turn. The lowest comes first.
_Rank = tuple[int, int, int]
#: Entries of a heap that may be out of date, beside as many as there are principals, before it is made anew.
_MAX_OUTDATED = 64


class _Waiting(msgspec.Struct, frozen=True):
    submission: Submission
    #: Counts up: earlier turns have smaller numbers.
    number: int


class _Line:
    """The turns of one queue and priority that are first in their session, as heaps.

    What changes is pushed once more, and an entry that is out of date is dropped when it comes to the front.
    """

    def __init__(self) -> None:
        self.principals: list[tuple[_Rank, str]] = []
        #: Number and id of each turn, by principal.
        self.turns: dict[str, list[tuple[int, str]]] = {}


class FairQueue:
    """Waiting turns, by session. Not thread-safe: its owner holds a lock.

    The turns of a session start in their order, each after the one before it is done. Between sessions the higher
    priority comes first, then the principal with the fewest running turns, then the one that was served longest ago.
    Adding a turn and taking one cost the logarithm of how many wait.
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
        self._lines: dict[tuple[str, int], _Line] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def running(self) -> int:
        """How many turns have a slot."""
        return len(self._running)

    def waiting_of(self, principal: str) -> int:
        """How many turns of a principal wait."""
        return self._waiting_of[principal]

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
        if turns[0] is waiting:
            self._line_up(submission.session_id)

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
        self._line_up(submission.session_id)
        return True

    def take(self) -> Submission | None:
        """The turn to start now, which then has a slot; None when none may start."""
        found = [
            (-priority, *first)
            for (queue, priority), line in list(self._lines.items())
            if self._used[queue] < self._slots[queue] and (first := self._first(queue, priority, line)) is not None
        ]
        if not found:
            return None
        chosen = min(found, key=itemgetter(0, 1))[2].submission
        self._give_slot(chosen)
        self.remove(chosen.turn_id)
        self._rank_again(chosen.principal)
        return chosen

    def start(self, submission: Submission) -> bool:
        """Give a turn that never waited a slot, if one is free. To be asked when ``take`` has no turn to start."""
        queue, principal, session_id = submission.queue, submission.principal, submission.session_id
        if self._used[queue] >= self._slots[queue] or session_id in self._held or session_id in self._sessions:
            return False
        if self._limit and self._running_of[principal] >= self._limit:
            return False
        self._give_slot(submission)
        self._rank_again(principal)
        return True

    def _give_slot(self, submission: Submission) -> None:
        self._held.add(submission.session_id)
        self._running[submission.turn_id] = submission
        self._used[submission.queue] += 1
        self._running_of[submission.principal] += 1
        self._served[submission.principal] = next(self._numbers)

    def done(self, submission: Submission, *, is_held: bool = False) -> None:
        """Give the slot of a turn back. While its session is held, because it has not ended, no other one starts."""
        if self._running.pop(submission.turn_id, None) is None:
            return
        principal = submission.principal
        self._used[submission.queue] -= 1
        self._running_of[principal] -= 1
        if not is_held:
            self.let_go(submission.session_id)
        self._forget(principal)
        self._rank_again(principal)

    def hold(self, session_id: str) -> None:
        """Start no turn of a session until ``let_go``."""
        self._held.add(session_id)

    def let_go(self, session_id: str) -> None:
        """Start the turns of a session again."""
        self._held.discard(session_id)
        self._line_up(session_id)

    # -- inside -------------------------------------------------------------------------------------------------

    def _forget(self, principal: str) -> None:
        """A principal with nothing to run is a new one when it comes again."""
        if not self._running_of[principal] and not self._waiting_of[principal]:
            del self._running_of[principal], self._waiting_of[principal]
            self._served.pop(principal, None)

    def _line_up(self, session_id: str) -> None:
        """The first turn of a session may start, unless the session is held."""
        turns = self._sessions.get(session_id)
        if not turns or session_id in self._held:
            return
        waiting = turns[0]
        submission = waiting.submission
        line = self._lines.setdefault((submission.queue, submission.priority), _Line())
        heappush(line.turns.setdefault(submission.principal, []), (waiting.number, submission.turn_id))
        self._rank_again(submission.principal)

    def _rank_again(self, principal: str) -> None:
        for line in self._lines.values():
            if principal in line.turns:
                heappush(line.principals, (self._rank(line, principal), principal))
                if len(line.principals) > 2 * len(line.turns) + _MAX_OUTDATED:
                    line.principals = sorted((self._rank(line, one), one) for one in line.turns)  # a heap as well

    def _rank(self, line: _Line, principal: str) -> _Rank:
        return self._running_of[principal], self._served.get(principal, -1), line.turns[principal][0][0]

    def _first(self, queue: str, priority: int, line: _Line) -> tuple[_Rank, _Waiting] | None:
        """The turn of a line that comes first, and its rank; the line is dropped when it is empty."""
        while line.principals:
            rank, principal = line.principals[0]
            turn = self._first_of(line, principal)
            if turn is not None and not (self._limit and self._running_of[principal] >= self._limit):
                now = self._rank(line, principal)
                if rank == now:
                    return rank, turn
                if rank < now:
                    heappush(line.principals, (now, principal))
            heappop(line.principals)  # out of date, without a turn here, or until one of its turns has ended
        if not line.turns:
            del self._lines[queue, priority]
        return None

    def _first_of(self, line: _Line, principal: str) -> _Waiting | None:
        turns = line.turns.get(principal, [])
        while turns:
            number, turn_id = turns[0]
            waiting = self._waiting.get(turn_id)
            if waiting is not None and waiting.number == number:
                session_id = waiting.submission.session_id
                if session_id not in self._held and self._sessions[session_id][0] is waiting:
                    return waiting
            heappop(turns)  # it is lined up again when it may start
        line.turns.pop(principal, None)
        return None
