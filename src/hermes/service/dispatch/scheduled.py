"""Scheduled runs whose turns a dispatcher has run."""

from __future__ import annotations

import contextlib
from collections.abc import Generator

from hermes.agent.events import Listener, TurnResult
from hermes.agent.session import Session
from hermes.base.errors import HermesError
from hermes.base.scope import SCHEDULED, Interrupt
from hermes.host import Host
from hermes.journal.turns.lifecycle import Submission
from hermes.service.dispatch.following import follow, model_extra
from hermes.service.dispatch.port import Dispatcher, TurnEntry, TurnRequest
from hermes.service.dispatch.results import completed_result
from hermes.service.schedules.fires import DueRun
from hermes.service.schedules.run import COMPLETE, STOPPED


class DispatchedRuns:
    """Has the turns of scheduled runs run by a dispatcher. Implements ``RunTurns``."""

    def __init__(self, host: Host, dispatcher: Dispatcher) -> None:
        self._host = host
        self._dispatcher = dispatcher

    def run(self, due: DueRun, context: str, listener: Listener, interrupt: Interrupt) -> TurnResult:
        """Submit the turn of a run, or find the one that an earlier process submitted, and wait for its end."""
        schedule, run = due.schedule, due.run
        known = self._host.sessions.turn_of(run.session_id, run.request_key)
        if known is not None:  # the schedule may have been edited since
            turn_id = known.id
        else:
            request = TurnRequest(
                session_id=run.session_id,
                message=schedule.prompt,
                request_key=run.request_key,
                platform=SCHEDULED,
                cwd=schedule.cwd,
                title=due.title,
                principal=schedule.principal,
                context=context,
                extra=model_extra(schedule.provider, schedule.model),
            )
            turn_id = self._dispatcher.submit(request).turn_id
        now = follow(
            self._dispatcher,
            turn_id,
            interrupt,
            listener=listener,
            is_left=lambda: interrupt.reason == STOPPED,
        )
        if now.state == "suspended":
            self._dispatcher.cancel(turn_id, "there is no one to answer its question")
            now = follow(self._dispatcher, turn_id, Interrupt())
        if now.result is None:
            raise HermesError("the workers continue it")
        return completed_result(self._host.store, now.result)


def scheduled_entry(host: Host) -> TurnEntry:
    """What surrounds the turn of a scheduled run: no one answers questions, and its session ends with it."""

    @contextlib.contextmanager
    def entered(session: Session, submission: Submission) -> Generator[None]:
        yield
        session.close(COMPLETE)

    return entered
