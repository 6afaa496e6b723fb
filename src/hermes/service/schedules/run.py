"""A scheduled run: a claimed fire as one turn of a session of its own, and the delivery of the answer."""

from __future__ import annotations

import contextlib
import logging
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

from hermes.agent.events import Listener, TurnResult, ignore_events
from hermes.base.errors import HermesError, JournalError, SessionBusy, SessionNotFound
from hermes.base.scope import SCHEDULED, Interrupt
from hermes.journal.leases import release_lease
from hermes.service.schedules.delivery import SILENT, AnswerDelivery, describe
from hermes.service.schedules.fires import DueRun, FireLedger
from hermes.service.schedules.schedule import Schedule, ScheduleRun

if TYPE_CHECKING:
    from hermes.agent.llm.models import Models
    from hermes.agent.runtime import Runtime
    from hermes.agent.session import Session
    from hermes.base.config.schema.sections import Config
    from hermes.base.sanitize import Redactor
    from hermes.journal.runner import Runner
    from hermes.journal.sessions import Sessions
    from hermes.journal.store.port import Store
    from hermes.plugins.registry import PluginSet

log = logging.getLogger("hermes.cron")

#: Why a run is cut off that the next process continues.
STOPPED = "the scheduler was stopped"
#: Why a run is cut off by the person who started it. That is no failure of the schedule.
BY_HAND = "interrupted by hand"
#: A run that ends its process every time is given up, so that the scheduler, and a gateway around it, can start.
MAX_CRASHES = 5
#: Why the session of a run is closed, for plugins.
COMPLETE = "cron_complete"


class ScheduleHost(Protocol):
    """The host, as far as scheduled runs need it."""

    home: Path
    config: Config
    store: Store
    runner: Runner
    runtime: Runtime
    sessions: Sessions
    models: Models
    plugins: PluginSet
    redactor: Redactor

    def new_session(
        self, *, principal: str = "", cwd: Path | None = None, platform: str = "", session_id: str = ""
    ) -> Session:
        """A new conversation."""
        ...

    def resume_session(self, session_id: str, *, cwd: Path | None = None, platform: str = "") -> Session:
        """A conversation of the journal."""
        ...


class RunReport(Struct, frozen=True):
    """How a run ended. ``is_left``: it has not; the next scheduler continues it."""

    schedule: Schedule
    run: ScheduleRun
    answer: str = ""
    error: str = ""
    delivery: str = ""
    is_left: bool = False


class RunTurns(Protocol):
    """Runs the turns of scheduled runs: in this process, or elsewhere."""

    def run(self, due: DueRun, context: str, listener: Listener, interrupt: Interrupt) -> TurnResult:
        """The result of the turn of a run: begun now, or continued when a process that ended had begun it.

        Raises ``SessionBusy`` when another process runs it.
        """
        ...


class SessionTurns:
    """Runs them in this process. Implements ``RunTurns``."""

    def __init__(self, host: ScheduleHost) -> None:
        self._host = host

    def run(self, due: DueRun, context: str, listener: Listener, interrupt: Interrupt) -> TurnResult:
        session, is_new = self._session(due)
        try:
            # A process that ended before may have begun the turn, or ended it without a record of the run.
            is_open = is_new or session.unfinished_turn() in ("running", "interrupted")
            if is_open and due.run.crashes >= MAX_CRASHES:
                reason = f"{due.run.crashes} processes ended while they ran it"
                session.abandon_open_turn(reason)
                raise HermesError(f"{reason}; it is given up")
            if not is_new:
                if is_open:
                    result = session.finish_open_turn(listener=listener, interrupt=interrupt)
                    if result is not None:
                        return result
                return session.result_of(due.run.request_key)
            return session.run(
                due.schedule.prompt,
                listener=listener,
                interrupt=interrupt,
                request_key=due.run.request_key,
                context=context,
            )
        finally:
            session.close(COMPLETE)
            with contextlib.suppress(JournalError):  # it ends with this process at the latest
                release_lease(self._host.store, self._host.runner, session.id)

    def _session(self, due: DueRun) -> tuple[Session, bool]:
        """The session of the run, and whether it is a new one."""
        schedule, run = due.schedule, due.run
        cwd = Path(schedule.cwd)
        if not cwd.is_dir():
            raise HermesError(
                f"the folder {cwd} is gone; make it again, or give the schedule another with "
                f"'hermes cron edit {schedule.id} --cwd FOLDER'"
            )
        is_new = False
        try:
            session = self._host.resume_session(run.session_id, cwd=cwd, platform=SCHEDULED)
        except SessionNotFound:
            session = self._host.new_session(
                principal=schedule.principal, cwd=cwd, platform=SCHEDULED, session_id=run.session_id
            )
            is_new = True
            session.title = due.title
        if schedule.model or schedule.provider:
            session.models = self._host.models.conversation(provider=schedule.provider, model=schedule.model)
        return session, is_new


class ScheduledRun:
    """Runs one claimed fire. Meant for one thread; ``interrupt`` may be cancelled from others."""

    def __init__(
        self, host: ScheduleHost, turns: RunTurns, ledger: FireLedger, delivery: AnswerDelivery, due: DueRun
    ) -> None:
        self._host = host
        self._turns = turns
        self._ledger = ledger
        self._delivery = delivery
        self.due = due
        self.interrupt = Interrupt()

    def execute(self, listener: Listener = ignore_events) -> RunReport:
        """Run the turn, deliver the answer and record the end. No failure of the run leaves this method."""
        due = self.due
        schedule, run = due.schedule, due.run
        answer, error = "", ""
        try:
            result = self._answer(listener)
            answer, error = result.answer, _failure(result, self.interrupt)
        except SessionBusy as busy:
            log.warning("schedule %s: %s", schedule.id, busy)
            return self._leave()
        except Exception as failure:
            log.warning("schedule %s failed", schedule.id, exc_info=not isinstance(failure, HermesError))
            error = str(failure) if isinstance(failure, HermesError) else f"{type(failure).__name__}: {failure}"
        if self.interrupt.cancelled and self.interrupt.reason == STOPPED and error:
            return self._leave()
        error = self._host.redactor.redact(error)
        is_by_hand = bool(error) and self.interrupt.cancelled and self.interrupt.reason == BY_HAND
        delivery, problem = ("", "") if is_by_hand else self._deliver(answer, error)
        error = error or problem
        changed = self._ledger.finish(due, error=error, delivery=delivery, is_by_hand=is_by_hand)
        if changed.state == "paused" and schedule.state == "active":
            log.error("the schedule %r (%s) is paused: %s", schedule.name, schedule.id, changed.reason)
        return RunReport(changed, run, answer, error, delivery)

    def _leave(self) -> RunReport:
        self._ledger.release(self.due.run)
        return RunReport(self.due.schedule, self.due.run, is_left=True)

    def _deliver(self, answer: str, error: str) -> tuple[str, str]:
        """A note about the delivery, and what went wrong with it."""
        schedule, run = self.due.schedule, self.due.run
        try:
            if error:
                return self._delivery.failure(schedule, run, error), ""
            return self._delivery.answer(schedule, run, answer), ""
        except (HermesError, OSError) as failure:
            return "", f"the answer could not be delivered: {self._host.redactor.redact(str(failure))}"

    # -- the turn -----------------------------------------------------------------------------------------------

    def _answer(self, listener: Listener) -> TurnResult:
        timer = self._timer()
        try:
            return self._turns.run(self.due, _context(self.due), listener, self.interrupt)
        finally:
            if timer is not None:
                timer.cancel()

    def _timer(self) -> threading.Timer | None:
        seconds = self._host.config.cron.timeout
        if not seconds:
            return None
        reason = f"it took longer than {seconds:g} s (cron.timeout)"
        timer = threading.Timer(seconds, self.interrupt.cancel, (reason,))
        timer.daemon = True
        timer.start()
        return timer


def _failure(result: TurnResult, interrupt: Interrupt) -> str:
    """Why a turn has no answer; empty when it has one."""
    if result.status in ("completed", "incomplete"):
        return ""
    if result.status == "interrupted":
        return interrupt.reason or result.error or "it was interrupted"
    return result.error or "the turn failed"


def _context(due: DueRun) -> str:
    """The note for the model about a run, beside its prompt."""
    schedule, run = due.schedule, due.run
    when = "now, by hand" if run.is_manual else schedule.clock(run.planned)
    return (
        f"[This message comes from the schedule “{schedule.name}” ({schedule.timing}), planned for {when}. No one is "
        f"there to answer questions. Your final answer is delivered as it is ({describe(schedule.deliver)}). If there "
        f"is nothing to report, answer exactly {SILENT}]"
    )


def run_data(report: RunReport) -> dict[str, Any]:
    """A report as data for programs."""
    return {
        "schedule": report.schedule.id,
        "name": report.schedule.name,
        "session_id": report.run.session_id,
        "planned": report.run.planned,
        "state": "left" if report.is_left else "failed" if report.error else "completed",
        "answer": report.answer,
        "error": report.error,
        "delivery": report.delivery,
    }
