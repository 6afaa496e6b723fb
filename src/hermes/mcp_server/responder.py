"""Questions of served sessions: they wait in the journal for the owner, or for a client that may approve."""

from __future__ import annotations

import time
from collections.abc import Sequence

from hermes.agent.approvals.responder import ApprovalAnswer, ApprovalRequest, Choice
from hermes.journal.questions import OWNER, Questions
from hermes.mcp_server.client import ServedClient
from hermes.scope import Interrupt

SURFACE = "mcp"
_LOOK_EVERY = 0.2
_CHOICES: dict[str, Choice] = {"once": "once", "session": "session", "always": "always"}


class JournalResponder:
    """Waits until a question is answered in the journal: by ``hermes approvals``, or by ``approvals_respond``."""

    surface = SURFACE

    def __init__(self, questions: Questions, client: ServedClient, timeout: float) -> None:
        self._questions = questions
        self._timeout = timeout
        self.approval_surface = SURFACE if client.may_approve else OWNER

    def approve(self, request: ApprovalRequest, interrupt: Interrupt) -> ApprovalAnswer:
        """The stored answer, as soon as there is one; ``timeout`` when there is none in time."""
        deadline = time.monotonic() + self._timeout
        while time.monotonic() < deadline:
            row = self._questions.get(request.id)
            if row is not None and row.state != "pending":
                return ApprovalAnswer(_CHOICES.get(row.answer or "", "deny"), row.reason)
            if interrupt.wait(_LOOK_EVERY):
                interrupt.check()
        return ApprovalAnswer("timeout")

    def answer(self, question: str, choices: Sequence[str], interrupt: Interrupt) -> str | None:
        """Questions of the model are not for the client of a call: it decides by itself and says what it assumed."""
        return None
