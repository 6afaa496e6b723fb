"""The local dispatcher: turns run in this process, on a bounded number of threads."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from contextvars import Context
from functools import partial

from hermes.agent.events import Listener, ignore_events
from hermes.base.errors import JournalError, SessionBusy
from hermes.base.scope import Interrupt
from hermes.host import Host
from hermes.journal.questions import Questions
from hermes.journal.turns.lifecycle import NO_LIMITS, Submission, cancel_queued, open_submissions
from hermes.service.dispatch.execution import Execution
from hermes.service.dispatch.fair_queue import FairQueue
from hermes.service.dispatch.following import FollowedTurn
from hermes.service.dispatch.port import CHILDREN, TURNS, DispatchedTurn, TurnEntry, TurnRequest, TurnTicket

log = logging.getLogger("hermes.dispatch")

#: Results that are kept whole; later ones are read from the journal, which does not keep the list of calls.
_MAX_RESULTS = 256
#: Seconds until a turn whose session another process holds is tried again, and the longest such pause.
_RETRY_SECONDS, _MAX_RETRY_SECONDS = 0.1, 5.0


class _LocalTurn(FollowedTurn):
    """One turn that this process waits for, runs, or has suspended."""

    def __init__(self, submission: Submission) -> None:
        super().__init__(submission.turn_id)
        self.submission = submission
        self.interrupt = Interrupt()
        self.failures = 0


class LocalDispatcher:
    """Runs submitted turns on threads of this process. Implements ``Dispatcher``."""

    def __init__(
        self,
        host: Host,
        *,
        entries: Mapping[str, TurnEntry] | None = None,
        platforms: Collection[str] | None = None,
        slots: int = 0,
    ) -> None:
        """``entries`` are what surfaces do around their turns, by platform.

        ``platforms`` are the surfaces whose turns are taken over from an earlier process; None takes all. ``slots``
        is for a surface that limits its turns itself: so many may run, and no limit is put on those that wait.
        """
        settings = host.config.worker
        known: Mapping[str, TurnEntry] = {} if entries is None else entries  # a surface may add to its own later
        self._execution = Execution(host, known.get, NO_LIMITS if slots else None)
        self._host = host
        self._platforms = platforms
        self._queue = FairQueue(
            {TURNS: slots or settings.slots, CHILDREN: slots or settings.child_slots}, settings.max_running_of_principal
        )
        self._turns: dict[str, _LocalTurn] = {}
        self._ended: OrderedDict[str, DispatchedTurn] = OrderedDict()
        self._changed = threading.Condition()
        self._is_started = False
        self._is_released = False

    # -- the port -----------------------------------------------------------------------------------------------

    def submit(self, request: TurnRequest, *, listener: Listener = ignore_events) -> TurnTicket:
        submission, is_new = self._execution.accept(self._execution.prepare(request), is_stored=request.is_stored)
        with self._changed:
            turn = self._turns.get(submission.turn_id)
            if turn is None and submission.state == "queued":
                turn = self._add(submission)
            if turn is not None:
                turn.listen(listener)
            self._start_ready()
        return TurnTicket(submission.turn_id, submission.session_id, is_new)

    def resume(self, turn_id: str, *, listener: Listener = ignore_events) -> None:
        submission = self._execution.submission(turn_id)
        with self._changed:
            turn = self._turns.get(turn_id)
            if turn is not None and turn.now.state != "suspended":
                return  # it waits or runs
            if turn is None:
                if submission.state not in ("queued", "running"):
                    return  # it has ended
                turn = self._turns[turn_id] = _LocalTurn(submission)
            turn.now, turn.interrupt = DispatchedTurn("queued"), Interrupt()
            turn.listen(listener)
            self._queue.let_go(submission.session_id)
            self._queue.add(submission, is_first=True)
            self._start_ready()

    def cancel(self, turn_id: str, reason: str = "cancelled") -> bool:
        if cancel_queued(self._host.store, turn_id, reason):
            with self._changed:
                waited = self._queue.remove(turn_id)
                if turn_id in self._turns:
                    self._close(self._turns[turn_id].submission, holds_session=not waited)
            return True
        submission = self._execution.submission(turn_id)
        with self._changed:
            turn = self._turns.get(turn_id)
            is_here = turn is not None and turn.now.state in ("queued", "running")
            if turn is not None:
                turn.interrupt.cancel(reason)
        if is_here:
            return True
        if submission.state != "running":
            if turn is not None:  # another process has continued it since it was suspended here
                self._close(submission)
            return False
        self._execution.abandon(submission, reason)
        self._close(submission)
        return True

    def _close(self, submission: Submission, *, holds_session: bool = True) -> None:
        """A turn has ended without running here: the next one of its session may start, if it waited for this one."""
        result = self._execution.result(submission.turn_id)
        with self._changed:
            if holds_session:
                self._queue.let_go(submission.session_id)
            self._end(submission.turn_id, DispatchedTurn("ended", result))
            self._start_ready()

    def watch(
        self,
        turn_id: str,
        settled: Callable[[DispatchedTurn], None],
        *,
        listener: Listener = ignore_events,
    ) -> None:
        with self._changed:
            turn = self._turns.get(turn_id)
            if turn is not None:
                turn.listen(listener)
                if turn.now.state in ("queued", "running"):
                    turn.watchers.append(settled)
                    return
            now = self._ended.get(turn_id) if turn is None else turn.now
        settled(now or self._recorded(turn_id))

    def start(self) -> None:
        left = open_submissions(self._host.store)
        if self._platforms is not None:
            left = [submission for submission in left if submission.source in self._platforms]
        is_asked = bool(Questions(self._host.store).pending())  # else none of many turns need be looked at
        suspended = {
            one.turn_id for one in left if is_asked and one.state == "running" and self._execution.is_suspended(one)
        }
        with self._changed:
            self._is_started = True
            # What had started continues before what waits behind it.
            for submission in sorted(left, key=lambda one: one.state == "queued"):
                if submission.turn_id in self._turns:
                    continue
                if submission.turn_id in suspended:
                    self._turns[submission.turn_id] = turn = _LocalTurn(submission)
                    turn.now = DispatchedTurn("suspended")
                    self._queue.hold(submission.session_id)
                else:
                    self._add(submission)
            self._start_ready()

    def release(self, timeout: float | None = None) -> bool:
        with self._changed:
            self._is_released = True
            return self._changed.wait_for(lambda: not self._queue.running, timeout)

    # -- inside -------------------------------------------------------------------------------------------------

    @property
    def waiting(self) -> int:
        """How many turns wait in this process."""
        with self._changed:
            return len(self._queue)

    @property
    def running(self) -> int:
        """How many turns run in this process."""
        with self._changed:
            return self._queue.running

    def _add(self, submission: Submission) -> _LocalTurn:
        turn = self._turns[submission.turn_id] = _LocalTurn(submission)
        self._queue.add(submission)
        return turn

    def _start_ready(self) -> None:
        """Start what may start. With the lock held."""
        while self._is_started and not self._is_released and (submission := self._queue.take()) is not None:
            turn = self._turns[submission.turn_id]
            turn.now = DispatchedTurn("running")
            # In a context of its own: what plugins keep in context variables stays with its turn.
            self._host.workers.submit(partial(self._run_apart, turn))

    def _run_apart(self, turn: _LocalTurn) -> None:
        Context().run(self._run, turn)

    def _run(self, turn: _LocalTurn) -> None:
        submission = turn.submission
        now = DispatchedTurn("queued")
        try:
            now = self._execution.run(submission, turn.listeners, turn.interrupt)
        except SessionBusy as error:
            log.debug("turn %s waits: %s", submission.turn_id, error)
        except JournalError as error:
            log.warning("turn %s is tried again: %s", submission.turn_id, error)
        except BaseException:  # a plugin may try to end the program
            # Taking it up again counts in the journal: a turn that always fails like this ends as a dead letter.
            log.exception("turn %s was cut off and is tried again", submission.turn_id)
        if not self._settle(turn, now):
            self._settle(turn, self._give_up(turn), is_last=True)

    def _settle(self, turn: _LocalTurn, now: DispatchedTurn, *, is_last: bool = False) -> bool:
        """Note the state of a turn. False when it asks something and was stopped: no one else would end it."""
        submission = turn.submission
        with self._changed:
            if now.state == "suspended" and turn.interrupt.cancelled and not self._is_released and not is_last:
                return False
            self._queue.done(submission, is_held=now.state != "ended")
            if now.state == "ended":
                self._end(submission.turn_id, now)
            elif now.state == "suspended":
                turn.settle(now)
            else:
                turn.now = now
                self._postpone(turn)
            self._start_ready()
            self._changed.notify_all()
        return True

    def _give_up(self, turn: _LocalTurn) -> DispatchedTurn:
        """Close a turn that asks something and was stopped meanwhile."""
        try:
            self._execution.abandon(turn.submission, turn.interrupt.reason)
        except JournalError as error:
            log.warning("turn %s is still open: %s", turn.submission.turn_id, error)
            return DispatchedTurn("suspended")
        return DispatchedTurn("ended", self._execution.result(turn.submission.turn_id))

    def _postpone(self, turn: _LocalTurn) -> None:
        """Try a turn again later; those of its session wait for it."""
        pause = min(_RETRY_SECONDS * 2**turn.failures, _MAX_RETRY_SECONDS)
        turn.failures += 1
        timer = threading.Timer(pause, self._try_again, (turn,))
        timer.daemon = True
        timer.start()

    def _try_again(self, turn: _LocalTurn) -> None:
        with self._changed:
            if self._turns.get(turn.submission.turn_id) is turn:
                self._queue.let_go(turn.submission.session_id)
                self._queue.add(turn.submission, is_first=True)
                self._start_ready()

    def _end(self, turn_id: str, now: DispatchedTurn) -> None:
        turn = self._turns.pop(turn_id, None)
        if turn is not None:
            turn.settle(now)
        if now.result is not None:
            self._ended[turn_id] = now
            if len(self._ended) > _MAX_RESULTS:
                self._ended.popitem(last=False)
        self._changed.notify_all()

    def _recorded(self, turn_id: str) -> DispatchedTurn:
        submission = self._execution.submission(turn_id)
        if submission.state in ("queued", "running"):
            return DispatchedTurn(submission.state)
        return DispatchedTurn("ended", self._execution.result(turn_id))
