"""One-shot runs on workers (``hermes chat --on-workers``): the turn is submitted, followed, and asked about here."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from typing import Any

import msgspec

from hermes.agent.approvals.responder import ApprovalRequest, Responder
from hermes.agent.events import Listener, TurnResult
from hermes.agent.session import Session
from hermes.base.errors import HermesError, Interrupted
from hermes.base.scope import Interrupt, new_id, new_session_id
from hermes.host import Host
from hermes.journal.questions import QuestionRow, Questions
from hermes.journal.turns.lifecycle import Submission, open_submissions
from hermes.service.dispatch.choose import absent_workers
from hermes.service.dispatch.cluster.dispatcher import ClusterDispatcher
from hermes.service.dispatch.following import follow
from hermes.service.dispatch.port import TurnEntry, TurnRequest
from hermes.service.dispatch.results import completed_result
from hermes.service.live.questions import SuspendingResponder, asking
from hermes.surfaces.commands.surface import UserMessage

#: The platform of one-shot runs, and the place where their questions are shown.
PLATFORM = "cli"


class RemoteRun(msgspec.Struct, frozen=True, kw_only=True):
    """A one-shot run for workers."""

    #: None continues the open turn of the session.
    message: UserMessage | None
    #: Empty begins a new session.
    session_id: str = ""
    #: Shows what is asked; None when there is no one to ask.
    responder: Responder | None = None
    #: The output can show that text which it has shown does not count.
    can_withdraw: bool = False


class WorkerRuns:
    """Runs of this process on the workers of its database. A context manager."""

    def __init__(self, host: Host) -> None:
        absent = absent_workers(host)
        if absent:
            raise HermesError(f"{absent[0]}; without --on-workers this run needs none")
        self._host = host
        self._questions = Questions(host.store)
        self._dispatcher = ClusterDispatcher(host, workspace=host.config.worker.workspace)

    def __enter__(self) -> WorkerRuns:
        self._dispatcher.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._dispatcher.release()

    def submit(self, run: RemoteRun, listener: Listener) -> tuple[str, str]:
        """Submit the message, or take up the open turn of the session; the ids of the turn and of its session."""
        if run.message is None:
            return self._open_turn(run.session_id, listener)
        session_id, cwd = new_session_id(), str(self._host.cwd)
        if run.session_id:
            row = self._host.sessions.get(run.session_id)
            session_id, cwd = row.id, row.cwd
        request = TurnRequest(
            session_id=session_id,
            message=run.message,
            request_key=new_id(),
            platform=PLATFORM,
            cwd=cwd,
            extra={
                "asks": run.responder is not None,
                "withdraws": run.can_withdraw,
            },
        )
        return self._dispatcher.submit(request, listener=listener).turn_id, session_id

    def _open_turn(self, wanted: str, listener: Listener) -> tuple[str, str]:
        session_id = self._host.sessions.get(wanted).id
        found = [one for one in open_submissions(self._host.store) if one.session_id == session_id]
        if not found:
            raise HermesError(f"session {session_id} has no turn that a worker could continue; give a message")
        turn_id = found[0].turn_id
        self._dispatcher.watch(turn_id, lambda _turn: None, listener=listener)
        if not self._questions.pending(session_id=session_id):
            self._dispatcher.resume(turn_id)
        return turn_id, session_id

    def result(self, turn_id: str, session_id: str, run: RemoteRun, interrupt: Interrupt) -> TurnResult:
        """Follow a turn to its end; its questions are asked meanwhile. An interrupt stops it on its worker."""
        while True:
            now = follow(self._dispatcher, turn_id, interrupt)
            if now.result is not None:
                return completed_result(self._host.store, now.result)
            asked = self._questions.pending(session_id=session_id)
            if asked and not interrupt.cancelled:
                self._ask(asked[-1], run.responder, interrupt)
            if interrupt.cancelled:
                self._dispatcher.cancel(turn_id, interrupt.reason)
            else:
                self._dispatcher.resume(turn_id)

    def _ask(self, question: QuestionRow, responder: Responder | None, interrupt: Interrupt) -> None:
        with contextlib.suppress(Interrupted):
            answer, reason = self._answer(question, responder, interrupt)
            self._questions.answer(question.id, answer, reason)  # the first one counts: there may be one by now

    def _answer(self, question: QuestionRow, responder: Responder | None, interrupt: Interrupt) -> tuple[str, str]:
        if question.kind == "clarify":
            text = None if responder is None else responder.answer(question.subject, question.choices, interrupt)
            return text or "", ""
        if responder is None:
            return "deny", "there is no one to ask"
        request = ApprovalRequest(
            id=question.id,
            session_id=question.session_id,
            tool_call_id="",
            tool=question.tool,
            args={},
            subject=question.subject,
            description=question.description,
            rules=question.rules,
            timeout=self._host.config.approvals.timeout,
            can_be_kept=False,
        )
        given = responder.approve(request, interrupt)
        return given.choice, given.reason


def remote_entry(host: Host) -> TurnEntry:
    """What surrounds the turn of a one-shot run on its worker."""

    @contextlib.contextmanager
    def entered(session: Session, submission: Submission) -> Generator[None]:
        extra: dict[str, Any] = submission.options.get("extra", {})
        session.can_withdraw_text = bool(extra.get("withdraws"))
        if not extra.get("asks"):
            yield
            return
        with asking(host, session, SuspendingResponder(PLATFORM, timeout=host.config.approvals.timeout)):
            yield

    return entered
