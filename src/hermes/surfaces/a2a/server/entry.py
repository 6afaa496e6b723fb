"""Set-up of a task's turn on the thread that runs it, in the server or on a worker: responder, hop count, trace.

Imports nothing of the SDK: workers need not have it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from typing import Any

from hermes.agent.approvals.responder import ApprovalAnswer, ApprovalRequest
from hermes.agent.session import Session
from hermes.base.config.schema.sections import A2AConfig
from hermes.host import Host
from hermes.journal.turns.lifecycle import Submission
from hermes.service.dispatch.port import TurnEntry
from hermes.service.live.questions import SuspendingResponder, asking
from hermes.tools.peers.hops import hops_scope
from hermes.trace.parent import joined

#: The platform of tasks, and the place where their callers are asked.
SURFACE = "a2a"
NOT_FOR_CALLERS = "no caller of this server may approve it"


def caller_responder(settings: A2AConfig, *, may_approve: bool) -> SuspendingResponder:
    """Suspends the turn of a caller until there is an answer: the caller's, or about an approval the owner's.

    A caller with the scope answers its own approvals, the owner those of all others.
    """
    asks_owner = settings.approvals == "ask" and not may_approve

    def decide(request: ApprovalRequest) -> ApprovalAnswer | None:
        if asks_owner:
            return None
        # An answer that cannot be kept is about approvals themselves, or the call hides what it does: not remotely.
        if settings.approvals == "deny" or not request.can_be_kept:
            return ApprovalAnswer("deny", NOT_FOR_CALLERS)
        return ApprovalAnswer("once", "a2a.approvals is allow") if settings.approvals == "allow" else None

    return SuspendingResponder(SURFACE, timeout=settings.approval_timeout, asks_owner=asks_owner, decide=decide)


def task_entry(host: Host) -> TurnEntry:
    """What surrounds each turn of a task."""
    settings = host.config.a2a

    @contextlib.contextmanager
    def entered(session: Session, submission: Submission) -> Generator[None]:
        extra: dict[str, Any] = submission.options.get("extra", {})
        # A chunk that does not append replaces the artifact that was begun.
        session.can_withdraw_text = True
        responder = caller_responder(settings, may_approve=bool(extra.get("may_approve")))
        trace = joined(*extra.get("trace", ("", "")))
        with asking(host, session, responder), trace, hops_scope(extra.get("hops", 0)):
            yield

    return entered
