"""Set-up of a task's turn on the thread that runs it, in the server or on a worker: responder, hop count, trace.

Imports nothing of the SDK: workers need not have it.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Generator, Sequence
from typing import Any

from hermes.agent.approvals.responder import ApprovalAnswer, ApprovalRequest
from hermes.agent.session import Session
from hermes.config.schema.sections import A2AConfig
from hermes.dispatch.port import TurnEntry
from hermes.errors import TurnSuspended
from hermes.host import Host
from hermes.journal.questions import OWNER
from hermes.journal.turns.lifecycle import Submission
from hermes.peers.hops import hops_scope
from hermes.scope import Interrupt
from hermes.trace.parent import joined

#: The platform of tasks, and the place where their callers are asked.
SURFACE = "a2a"
NOT_FOR_CALLERS = "no caller of this server may approve it"


class CallerResponder:
    """Suspends the turn of a caller until there is an answer: the caller's, or about an approval the owner's."""

    surface = SURFACE

    def __init__(self, settings: A2AConfig, *, may_approve: bool) -> None:
        self._settings = settings
        #: Where approvals are asked: a caller with the scope answers its own, the owner those of all others.
        self.approval_surface = SURFACE if may_approve or settings.approvals != "ask" else OWNER

    def approve(self, request: ApprovalRequest, interrupt: Interrupt) -> ApprovalAnswer:
        """Refuse, allow, or suspend the turn until there is an answer, as the settings say."""
        interrupt.check()
        if self.approval_surface != OWNER:
            # An answer that cannot be kept is about approvals themselves, or the call hides what it does: not remotely.
            if self._settings.approvals == "deny" or not request.can_be_kept:
                return ApprovalAnswer("deny", NOT_FOR_CALLERS)
            if self._settings.approvals == "allow":
                return ApprovalAnswer("once", "a2a.approvals is allow")
        raise TurnSuspended(time.time() + self._settings.approval_timeout)

    def answer(self, question: str, choices: Sequence[str], interrupt: Interrupt) -> str | None:
        """Suspend the turn until the caller has answered."""
        interrupt.check()
        raise TurnSuspended(time.time() + self._settings.approval_timeout)


def task_extra(*, may_approve: bool, hops: int, trace: tuple[str, str]) -> dict[str, Any]:
    """What the submission of a turn says for ``task_entry``."""
    return {"may_approve": may_approve, "hops": hops, "trace": list(trace)}


def task_entry(host: Host) -> TurnEntry:
    """What surrounds each turn of a task."""
    settings = host.config.a2a

    @contextlib.contextmanager
    def entered(session: Session, submission: Submission) -> Generator[None]:
        extra: dict[str, Any] = submission.options.get("extra", {})
        # A chunk that does not append replaces the artifact that was begun.
        session.can_withdraw_text = True
        may_approve = bool(extra.get("may_approve"))
        host.responders.attach(session.id, CallerResponder(settings, may_approve=may_approve))
        try:
            with joined(*extra.get("trace", ("", ""))), hops_scope(extra.get("hops", 0)):
                yield
        finally:
            host.responders.detach(session.id)

    return entered
