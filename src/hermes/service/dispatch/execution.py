"""Execution of submitted turns on one host, the same for every dispatcher: open the session, run, release it."""

from __future__ import annotations

import contextlib
import logging
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from hermes.agent.events import Listener, TurnResult
from hermes.agent.session import Session, stored_result
from hermes.base.config.principals import default_workspace, make_private
from hermes.base.errors import HermesError, JournalError, SessionBusy, SessionNotFound, TurnSuspended
from hermes.base.scope import Interrupt, new_id
from hermes.host import Host
from hermes.journal.leases import SessionInfo, release_lease
from hermes.journal.questions import Questions, has_pending
from hermes.journal.store.connection import JournalConnection
from hermes.journal.turns.lifecycle import Accepted, QueueLimits, Submission, accept_turn, claim_turn, find_submission
from hermes.journal.turns.recovery import close_turn
from hermes.journal.turns.steps import Message
from hermes.service.dispatch.following import use_model
from hermes.service.dispatch.port import DispatchedTurn, TurnEntry, TurnRequest

log = logging.getLogger("hermes.dispatch")

#: Sessions that stay open between their turns, and their messages; others are read from the journal when they continue.
MAX_OPEN_SESSIONS, MAX_OPEN_MESSAGES = 1_000, 50_000


class PreparedTurn(NamedTuple):
    """What the journal stores of a request."""

    session: SessionInfo
    submission: Submission
    message: Message


class Execution:
    """Accepts and runs turns with the sessions of one host. Thread-safe; a session has one turn at a time."""

    def __init__(
        self, host: Host, entry_for: Callable[[str], TurnEntry | None], limits: QueueLimits | None = None
    ) -> None:
        """``limits`` are how many turns may wait; None is what the configuration says."""
        self.host = host
        settings = host.config.worker
        own = QueueLimits(settings.max_waiting, settings.max_waiting_of_principal)
        self.limits = own if limits is None else limits
        self._entry_for = entry_for
        #: Each with the number of its messages.
        self._open: OrderedDict[str, tuple[Session, int]] = OrderedDict()
        self._open_messages = 0
        self._lock = Lock()

    def submission(self, turn_id: str) -> Submission:
        """A turn as it was submitted. Raises ``SessionNotFound``."""
        found = self.host.store.read(lambda connection: find_submission(connection, turn_id))
        if found is None:
            raise SessionNotFound(f"there is no submitted turn {turn_id!r}")
        return found

    # -- accepting ----------------------------------------------------------------------------------------------

    def prepare(self, request: TurnRequest) -> PreparedTurn:
        """What the journal stores of a request."""
        task_id = request.task_id or new_id()
        session = SessionInfo(
            request.session_id,
            request.cwd,
            request.platform,
            title=request.title,
            principal=request.principal,
        )
        submission = Submission(
            turn_id=f"{request.session_id}:{task_id}:{new_id()[:16]}",
            session_id=request.session_id,
            task_id=task_id,
            request_key=request.request_key or task_id,
            source=request.platform,
            state="queued",
            queue=request.queue,
            priority=request.priority,
            principal=request.principal,
            submitted_at=0.0,
            options={
                **({"context": request.context} if request.context else {}),
                **({"is_structured": True} if request.is_structured else {}),
                **({"extra": request.extra} if request.extra else {}),
                **({"own_folder": True} if self._is_own_folder(request) else {}),
            },
        )
        message = {"role": "user", "content": self.host.redactor.mask_data(request.message)}
        return PreparedTurn(session, submission, message)

    def _is_own_folder(self, request: TurnRequest) -> bool:
        """Whether a caller works in the folder below the home that each process makes for it."""
        return bool(request.principal) and request.cwd == str(default_workspace(self.host.home, request.principal))

    def accept(self, prepared: PreparedTurn, *, is_stored: bool = False) -> Accepted:
        """Store a turn, on disk unless its surface has it there (``is_stored``)."""

        def write(connection: JournalConnection) -> Accepted:
            return accept_turn(connection, *prepared, self.limits)

        return self.host.store.write_soon(write) if is_stored else self.host.store.write(write)

    # -- running ------------------------------------------------------------------------------------------------

    def run(self, submission: Submission, listener: Listener, interrupt: Interrupt) -> DispatchedTurn:
        """Run a turn until it ends or is suspended, and release its session.

        Raises ``JournalError`` (also ``SessionBusy``, ``LeaseLost``) when it cannot be run here and now. Any other
        failure ends the turn.
        """
        try:
            session = self._session(submission)
            use_model(self.host, session, submission)
        except (JournalError, TurnSuspended):
            raise
        except Exception as error:
            return DispatchedTurn("ended", self._fail(submission, error))
        session.released, is_ours = "", True
        try:
            with self._entered(session, submission):
                result = session.run_accepted(submission, listener=listener, interrupt=interrupt, releases=True)
                return DispatchedTurn("ended", result)
        except TurnSuspended:
            return DispatchedTurn("suspended")
        except SessionBusy:
            is_ours = False  # the lease is that of what else works in the session
            raise
        finally:
            if is_ours and session.released != submission.turn_id:
                with contextlib.suppress(JournalError):  # it ends with this process at the latest
                    release_lease(self.host.store, self.host.runner, submission.session_id)
            self._keep(session)

    def _entered(self, session: Session, submission: Submission) -> contextlib.AbstractContextManager[object]:
        entry = self._entry_for(submission.source)
        return contextlib.nullcontext() if entry is None else entry(session, submission)

    def _session(self, submission: Submission) -> Session:
        already = self.host.open_sessions.get(submission.session_id)
        if already is not None:
            with self._lock:
                self._take_out(already.id)  # it stays open until its turn has ended
            return already
        folder = self._folder(submission)
        return self.host.resume_session(submission.session_id, cwd=folder, platform=submission.source)

    def _folder(self, submission: Submission) -> Path | None:
        """The folder of a caller on this machine; None for the folder that the session is in."""
        if not submission.principal or not submission.options.get("own_folder"):
            return None
        return make_private(default_workspace(self.host.home, submission.principal))

    def _fail(self, submission: Submission, error: Exception) -> TurnResult:
        """End a turn whose session cannot be opened."""
        host = self.host
        text = host.redactor.redact(str(error) if isinstance(error, HermesError) else repr(error))
        log.error("turn %s cannot be run: %s", submission.turn_id, text)
        journal = claim_turn(host.store, host.runner, submission.turn_id)
        if journal.state == "running":
            close_turn(journal, "failed", text)
            journal.commit()
        release_lease(host.store, host.runner, submission.session_id)
        return self.result(submission.turn_id)

    def abandon(self, submission: Submission, reason: str) -> None:
        """Give up a turn that no process runs: withdraw its questions and close it, without running anything of it."""
        questions = Questions(self.host.store)
        for question in questions.pending(session_id=submission.session_id):
            questions.withdraw(question.id, reason)
        session, is_ours = self._session(submission), True
        try:
            session.abandon_open_turn(reason)
        except SessionBusy:
            is_ours = False  # the lease is that of another caller, who ends the turn
            raise
        finally:
            if is_ours:
                release_lease(self.host.store, self.host.runner, submission.session_id)
            self._keep(session)

    def _keep(self, session: Session) -> None:
        """Keep a session open for its next turn, and free the memory of those that were not used for longest."""
        count, old = len(session.transcript.earlier), list[Session | None]()
        with self._lock:
            self._take_out(session.id)
            self._open[session.id] = session, count
            self._open_messages += count
            while len(self._open) > MAX_OPEN_SESSIONS or self._open_messages > MAX_OPEN_MESSAGES:
                old.append(self._take_out(next(iter(self._open))))
        for one in old:
            if one is not None:
                one.unload()

    def _take_out(self, session_id: str) -> Session | None:
        session, count = self._open.pop(session_id, (None, 0))
        self._open_messages -= count
        return session

    # -- results ------------------------------------------------------------------------------------------------

    def is_suspended(self, submission: Submission) -> bool:
        """Whether a turn that no process runs waits for an answer."""
        return self.host.store.read(lambda connection: has_pending(connection, submission.session_id))

    def result(self, turn_id: str) -> TurnResult:
        """The recorded result of a turn that has ended."""
        found = stored_result(self.host.store, turn_id)
        if found is None:
            raise SessionNotFound(f"there is no turn {turn_id!r}")
        return found
