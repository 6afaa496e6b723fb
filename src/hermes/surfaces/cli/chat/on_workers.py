"""One-shot runs on workers (``hermes chat --on-workers``): the turn is submitted, followed, and asked about here."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from typing import Any

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


class WorkerRun:
    """A run on the workers of its database: submitted, followed, and asked about here. A context manager."""

    def __init__(self, host: Host, responder: Responder | None) -> None:
        """``responder`` shows what is asked; None when there is no one to ask."""
        absent = absent_workers(host)
        if absent:
            raise HermesError(f"{absent[0]}; without --on-workers this run needs none")
        self._host = host
        self._responder = responder
        self._questions = Questions(host.store)
        self._dispatcher = ClusterDispatcher(host, workspace=host.config.worker.workspace)
        self._turn_id = ""
        #: Set when there is a turn.
        self.session_id = ""

    def __enter__(self) -> WorkerRun:
        self._dispatcher.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._dispatcher.release()

    def submit(self, message: UserMessage, wanted: str, listener: Listener, *, can_withdraw: bool = False) -> None:
        """Submit a message for the session ``wanted``; empty begins a new one.

        ``can_withdraw``: the output can show that text which it has shown does not count.
        """
        row = self._host.sessions.get(wanted) if wanted else None
        self.session_id = new_session_id() if row is None else row.id
        request = TurnRequest(
            session_id=self.session_id,
            message=message,
            request_key=new_id(),
            platform=PLATFORM,
            cwd=str(self._host.cwd) if row is None else row.cwd,
            extra={"asks": self._responder is not None, "withdraws": can_withdraw},
        )
        self._turn_id = self._dispatcher.submit(request, listener=listener).turn_id

    def take_up(self, wanted: str, listener: Listener) -> None:
        """Continue the open turn of a session."""
        self.session_id = self._host.sessions.get(wanted).id
        found = [one.turn_id for one in open_submissions(self._host.store) if one.session_id == self.session_id]
        if not found:
            raise HermesError(f"session {self.session_id} has no turn that a worker could continue; give a message")
        self._turn_id = found[0]
        self._dispatcher.watch(self._turn_id, lambda _turn: None, listener=listener)
        if not self._questions.pending(session_id=self.session_id):
            self._dispatcher.resume(self._turn_id)

    def result(self, interrupt: Interrupt) -> TurnResult:
        """Follow the turn to its end; its questions are asked meanwhile. An interrupt stops it on its worker."""
        while True:
            now = follow(self._dispatcher, self._turn_id, interrupt)
            if now.result is not None:
                return completed_result(self._host.store, now.result)
            asked = self._questions.pending(session_id=self.session_id)
            if asked and not interrupt.cancelled:
                with contextlib.suppress(Interrupted):
                    answer, reason = self._answer(asked[-1], interrupt)
                    self._questions.answer(asked[-1].id, answer, reason)  # the first one counts: there may be one now
            if interrupt.cancelled:
                self._dispatcher.cancel(self._turn_id, interrupt.reason)
            else:
                self._dispatcher.resume(self._turn_id)

    def _answer(self, question: QuestionRow, interrupt: Interrupt) -> tuple[str, str]:
        responder = self._responder
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
