"""The work behind the tools of the MCP server: turns with progress and cancel, sessions, search, approvals."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

from hermes.agent.session import Session
from hermes.base.config.principals import default_workspace, make_private
from hermes.base.errors import HermesError, SessionNotFound
from hermes.base.http_server.principals import Principal
from hermes.base.scope import Interrupt
from hermes.contract.events import ToolEnded, ToolStarted, TurnEvent
from hermes.host import Host
from hermes.journal.bodies import message_text
from hermes.journal.questions import QuestionRow, Questions
from hermes.service.live.questions import JournalResponder, asking, outgoing_subject

#: Where questions are asked.
_SURFACE = "mcp"
_MAX_MESSAGES = 200
_MAX_CHARS = 20_000
#: Seconds for a prompt that was stopped to end.
_END_SECONDS = 5.0
_ANSWERS = {"approve": "once", "once": "once", "session": "session", "deny": "deny"}

Report = Callable[[str], None]


class AgentService:
    """What clients may do with one host. Thread-safe: each call runs on a thread of its own.

    A client is a principal. One without a name was started by the owner of the home, and works as the owner.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self._questions = Questions(host.store)
        #: The limits of callers, which the MCP server shares with the A2A server.
        self.settings = host.config.a2a
        #: Prompts that run, by principal.
        self._running: Counter[str] = Counter()
        self._counting = threading.Condition()

    def close(self) -> None:
        """Wait for the prompts that were stopped with their calls, so that their ends are recorded."""
        with self._counting:
            self._counting.wait_for(lambda: not self._running.total(), _END_SECONDS)

    def run(
        self, client: Principal, prompt: str, session_id: str, report: Report, interrupt: Interrupt
    ) -> dict[str, Any]:
        """Answer a prompt, in a new session or in one of the client's. ``report`` is called for each tool that runs."""
        if "send" not in client.scopes:
            raise HermesError("this client may not run prompts (scope send)")
        if not prompt.strip():
            raise HermesError("prompt is empty; say what the agent is to do")
        with self._admitted(client.name):
            return self._run(client, prompt, session_id, report, interrupt)

    @contextlib.contextmanager
    def _admitted(self, principal: str) -> Generator[None]:
        """Count a prompt while it runs. Those of callers are limited: each holds a thread."""
        limits = self.settings
        with self._counting:
            if principal and (
                self._running[principal] >= limits.max_tasks_of_caller or self._running.total() >= limits.max_tasks
            ):
                raise HermesError("too many prompts run already; try again later")
            self._running[principal] += 1
        try:
            yield
        finally:
            with self._counting:
                self._running[principal] -= 1
                self._counting.notify_all()

    def _run(
        self, client: Principal, prompt: str, session_id: str, report: Report, interrupt: Interrupt
    ) -> dict[str, Any]:
        session = self._session(client, session_id)
        timeout = self._host.config.a2a.approval_timeout
        responder = JournalResponder(_SURFACE, self._questions, timeout=timeout, asks_owner=not client.may_approve)

        def listen(event: TurnEvent) -> None:
            if isinstance(event, ToolStarted):
                report(f"{event.tool_name} runs")
            elif isinstance(event, ToolEnded):
                report(f"{event.tool_name}: {event.status}")

        with asking(self._host, session, responder):
            result = session.run(prompt, listener=listen, interrupt=interrupt)
        masked = self._host.redactor.redact
        answer: dict[str, Any] = {"session_id": session.id, "status": result.status, "answer": masked(result.answer)}
        return {**answer, "error": masked(result.error)} if result.error else answer

    def _session(self, client: Principal, session_id: str) -> Session:
        if not session_id:
            return self._host.new_session(principal=client.name, cwd=self._folder(client))
        self._own(client, session_id)
        return self._host.resume_session(session_id)

    def _folder(self, client: Principal) -> Path | None:
        """The folder that the sessions of a client work in; None is that of the server."""
        if not client.name:
            return None
        named = Path(client.workspace).expanduser() if client.workspace else None
        return make_private(named or default_workspace(self._host.home, client.name))

    def _own(self, client: Principal, session_id: str) -> None:
        """``SessionNotFound`` for a session of another principal, as for one that does not exist."""
        if self._host.sessions.get(session_id).principal != client.name:
            raise SessionNotFound(f"no session {session_id}")

    def sessions(self, client: Principal, limit: int) -> list[dict[str, Any]]:
        """The sessions of the client that were used last."""
        self._need_read(client)
        rows = self._host.sessions.list(limit=max(1, min(limit, 100)), principal=client.name)
        return [
            {"session_id": row.id, "title": row.title, "turns": row.turns, "last_active": row.updated_at}
            for row in rows
        ]

    def messages(self, client: Principal, session_id: str) -> list[dict[str, str]]:
        """The last messages of a session, as text."""
        self._need_read(client)
        self._own(client, session_id)
        found = self._host.sessions.messages(self._host.sessions.get(session_id).id)[-_MAX_MESSAGES:]
        mask = self._host.redactor.redact
        return [
            {"role": message["role"], "text": mask(message_text(message))[:_MAX_CHARS]}
            for message in found
            if message["role"] in ("user", "assistant") and message_text(message)
        ]

    def search(self, client: Principal, query: str, limit: int) -> list[dict[str, Any]]:
        """Passages of the client's sessions."""
        self._need_read(client)
        hits = self._host.search.search(query, limit=max(1, min(limit, 50)), principal=client.name)
        mask = self._host.redactor.redact
        return [{"session_id": hit.session_id, "role": hit.role, "text": mask(hit.snippet)} for hit in hits]

    def approvals(self, client: Principal) -> list[dict[str, Any]]:
        """The calls of the client's sessions that wait for approval."""
        self._need_read(client)
        mask = self._host.redactor.redact
        return [
            {
                "id": row.id,
                "session_id": row.session_id,
                "tool": row.tool,
                "call": outgoing_subject(row, self._host.redactor, 1_000),
            }
            | {"reason": mask(row.description), "answered_by": "client" if client.may_approve else "owner"}
            for row in self._questions.pending(kind="approval")
            if self._is_own(client, row)
        ]

    def respond(self, client: Principal, approval_id: str, answer: str, reason: str) -> dict[str, Any]:
        """Answer an approval."""
        choice = _ANSWERS.get(answer.strip().lower())
        if not client.may_approve:
            raise HermesError("this client may not answer approvals (scope approve); the owner is asked")
        if choice is None:
            raise HermesError(f"found {answer!r}; allowed: approve, session or deny")
        row = self._questions.get(approval_id)
        if row is None or row.state != "pending" or not self._is_own(client, row):
            raise HermesError(f"no approval {approval_id} waits for an answer")
        self._questions.answer(approval_id, choice, reason or "answered over MCP", by=client.name)
        return {"id": approval_id, "answer": choice}

    def _is_own(self, client: Principal, row: QuestionRow) -> bool:
        try:
            return self._host.sessions.get(row.session_id).principal == client.name
        except SessionNotFound:
            return False

    @staticmethod
    def _need_read(client: Principal) -> None:
        if "read" not in client.scopes:
            raise HermesError("this client may not read sessions (scope read)")
