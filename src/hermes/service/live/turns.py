"""The live turns of one surface: accepted, suspended and continued, stopped, and followed to their ends."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from functools import partial

from hermes.agent.events import TurnResult, ignore_events
from hermes.base.errors import JournalError
from hermes.host import Host
from hermes.journal.questions import QuestionRow
from hermes.journal.turns.lifecycle import Submission, open_submissions
from hermes.service.dispatch.port import DispatchedTurn, Dispatcher, TurnRequest, TurnTicket
from hermes.service.live.questions import OpenQuestions
from hermes.service.live.turn import LiveTurn

log = logging.getLogger("hermes.live")

#: While the journal cannot be used.
_SECONDS_BETWEEN_TRIES = 1.0


class LiveTurns:
    """Runs the turns of one surface with a dispatcher. Thread-safe; what is called from outside blocks."""

    def __init__(
        self,
        host: Host,
        *platforms: str,
        finish: Callable[[TurnResult], TurnResult] | None = None,
        asks_one: bool = False,
    ) -> None:
        """``finish`` makes the result that the surface shows of the one that a turn ended with. It may block.

        ``asks_one``: of several questions of a turn only the first is asked, and the turn continues with its answer.
        """
        self._host = host
        self._platforms = platforms
        self._finish = finish
        self._asks_one = asks_one
        self._dispatcher: Dispatcher | None = None
        self.questions = OpenQuestions(host.store, self._continue)
        #: The turns that have not ended, by their ids.
        self._live: dict[str, LiveTurn] = {}
        #: How many ends and questions are just being reported.
        self._reports = 0
        self._reported = threading.Condition()

    # -- life ---------------------------------------------------------------------------------------------------

    @property
    def dispatcher(self) -> Dispatcher:
        """Runs the turns."""
        if self._dispatcher is None:
            raise RuntimeError("the turns of the surface were not started")
        return self._dispatcher

    def start(self, dispatcher: Dispatcher) -> list[Submission]:
        """Use a dispatcher. Returns the turns that an earlier process left; suspended ones continue when answered."""
        self._dispatcher = dispatcher
        left = [one for one in open_submissions(self._host.store) if one.source in self._platforms]
        for submission in left:
            if submission.state == "running":
                self.questions.watch(submission.turn_id, self._asked(submission.session_id))
        return left

    def wait_for_reports(self, seconds: float) -> None:
        """Wait until the turns that have ended or are suspended are reported as that."""
        with self._reported:
            self._reported.wait_for(lambda: not self._reports, seconds)

    def close(self) -> None:
        """Look for answers no longer. What runs is the dispatcher's, what waits is for the next process."""
        self.questions.close()

    # -- turns --------------------------------------------------------------------------------------------------

    def accept(self, live: LiveTurn, request: TurnRequest) -> TurnTicket:
        """Accept a turn: it is on disk when this returns. Raises what ``Dispatcher.submit`` raises.

        The end of the turn is stored with the turn, and found by its idempotency key: a surface that was not there then
        takes it up later, and is told.
        """
        ticket = self.dispatcher.submit(request, listener=live.listener)
        live.turn_id, live.session_id = ticket.turn_id, ticket.session_id
        self._watch(live)
        return ticket

    def take_up(self, live: LiveTurn, turn_id: str) -> None:
        """Follow a turn that is in the journal already, whether it waits, runs or has ended. One that was left runs."""
        live.turn_id = turn_id
        self._watch(live)

    def stop(self, live: LiveTurn, reason: str) -> bool:
        """Stop a turn. False when it had ended."""
        live.stop_reason = reason
        self.questions.forget(live.turn_id)
        is_stopped = self.dispatcher.cancel(live.turn_id, reason)
        if is_stopped and live.status == "waiting":  # no one else reports the end of a suspended turn
            self._watch(live)
        return is_stopped

    def stop_soon(self, live: LiveTurn, reason: str) -> None:
        """The same without waiting, as soon as the journal can be used."""
        self._host.workers.submit(lambda: self._persist(lambda: self.stop(live, reason)))

    def stop_turn(self, turn_id: str, reason: str) -> bool:
        """The same for a turn that may not be followed here."""
        live = self._live.get(turn_id)
        return self.dispatcher.cancel(turn_id, reason) if live is None else self.stop(live, reason)

    def _watch(self, live: LiveTurn) -> None:
        self._live[live.turn_id] = live
        self.dispatcher.watch(live.turn_id, partial(self._settled, live), listener=live.listener)

    # -- their ends and their questions -------------------------------------------------------------------------

    def _settled(self, live: LiveTurn, now: DispatchedTurn) -> None:
        """A turn has ended or is suspended. Called with locks of the dispatcher: it must not block."""
        if now.result is not None and self._finish is None:
            self._end(live, now.result)
            return
        with self._reported:
            self._reports += 1
        self._host.workers.submit(partial(self._report, live, now.result))

    def _report(self, live: LiveTurn, result: TurnResult | None) -> None:
        try:
            self._persist(partial(self._end_or_ask, live, result))
        except Exception:
            log.exception("turn %s cannot be followed any more", live.turn_id)
        finally:
            with self._reported:
                self._reports -= 1
                self._reported.notify_all()

    def _persist(self, work: Callable[[], object]) -> None:
        """Do something again and again while the journal cannot be used."""
        while True:
            try:
                work()
                return
            except JournalError as error:
                if self._host.workers.is_closed:
                    return
                log.warning("the journal cannot be used; trying again: %s", error)
                time.sleep(_SECONDS_BETWEEN_TRIES)

    def _end_or_ask(self, live: LiveTurn, result: TurnResult | None) -> None:
        if result is None:
            self._ask(live)
        else:
            self._end(live, result if self._finish is None else self._finish(result))

    def _end(self, live: LiveTurn, result: TurnResult) -> None:
        live.end(result)
        self._live.pop(live.turn_id, None)

    def _asked(self, session_id: str) -> list[QuestionRow]:
        asked = self.questions.of_session(session_id)
        return asked[:1] if self._asks_one else asked

    def _ask(self, live: LiveTurn) -> None:
        asked = self._asked(live.session_id)
        if live.stop_reason:  # it came while the turn was being suspended
            self.dispatcher.cancel(live.turn_id, live.stop_reason)
            self._watch(live)
        elif asked:
            live.ask(asked)
            self.questions.watch(live.turn_id, asked)
        else:  # the answer was faster than the turn
            self._continue(live.turn_id)

    def _continue(self, turn_id: str) -> None:
        """Continue a turn whose questions are answered. One that no client follows runs all the same."""
        live = self._live.get(turn_id)
        if live is not None and live.stop_reason:
            return  # it is about to end
        self.dispatcher.resume(turn_id, listener=ignore_events if live is None else live.listener)
        if live is not None:
            live.continued()
            self._watch(live)
