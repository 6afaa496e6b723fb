"""Questions of a session, asked in the editor: permission for a call, and questions of the model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hermes.agent.approvals.responder import ApprovalAnswer, ApprovalRequest, Choice
from hermes.base.sanitize.hidden import escape_hidden
from hermes.base.scope import Interrupt
from hermes.surfaces.acp.updates import ToolUpdates
from hermes.surfaces.acp.wire import EditorConnection, fields_of

#: Option id -> kind, text, and what it means here.
_OPTIONS: dict[str, tuple[str, str, Choice]] = {
    "once": ("allow_once", "Allow", "once"),
    "session": ("allow_always", "Allow for longer", "session"),
    "always": ("allow_always", "Always allow", "always"),
    "deny": ("reject_once", "Reject", "deny"),
}


def _worded(option: str, request: ApprovalRequest) -> tuple[str, str]:
    """The kind and the text of an option. One that lasts allows every call under the rules, and says so."""
    kind, text, choice = _OPTIONS[option]
    if choice not in ("session", "always"):
        return kind, text
    rules = ("the rule " if len(request.rules) == 1 else "the rules ") + ", ".join(request.rules)
    where = "in this session" if choice == "session" else "in all sessions"
    return kind, f"{text}: all calls under {rules}, {where}"


class EditorResponder:
    """Asks the editor. An editor that is closed, or a prompt that is cancelled, denies."""

    surface = "acp"

    def __init__(
        self,
        connection: EditorConnection,
        session_id: str,
        updates: ToolUpdates,
        call_id: Callable[[str], str],
        *,
        can_fill_forms: bool,
    ) -> None:
        self._connection = connection
        self._session_id = session_id
        self._updates = updates
        self._call_id = call_id
        self._can_fill_forms = can_fill_forms

    def approve(self, request: ApprovalRequest, interrupt: Interrupt) -> ApprovalAnswer:
        """Ask about a call with ``session/request_permission``."""
        call = self._updates.call(self._call_id(request.tool_call_id), request.tool, request.args)
        why = f"Needs approval: it {request.description}."
        if (shown := escape_hidden(request.subject)) != request.subject:
            why += f" It has hidden characters: {shown}"
        reason = {"type": "content", "content": {"type": "text", "text": why}}
        call["content"] = [*call.get("content", ()), reason]
        call["status"] = "pending"
        kept = ("once", "session", "always", "deny") if request.can_be_kept else ("once", "deny")
        chosen = self._ask(call, [(option, *_worded(option, request)) for option in kept], interrupt)
        return ApprovalAnswer(_OPTIONS[chosen][2] if chosen in kept else "deny")

    def answer(self, question: str, choices: Sequence[str], interrupt: Interrupt) -> str | None:
        """Ask a question of the model: as a form where the editor has them, else as a choice."""
        if self._can_fill_forms:
            return self._fill_form(question, choices, interrupt)
        if not choices:
            return None
        call = {"toolCallId": self._call_id("clarify"), "title": question, "kind": "think", "status": "pending"}
        options = [(f"choice-{at}", "allow_once", choice) for at, choice in enumerate(choices)]
        chosen = self._ask(call, [*options, ("skip", "reject_once", "Skip")], interrupt)
        return {option: text for option, _, text in options}.get(chosen)

    def _ask(self, call: dict[str, Any], options: list[tuple[str, str, str]], interrupt: Interrupt) -> str:
        """The id of the option that was chosen; empty when none was."""
        listed = [{"optionId": option, "kind": kind, "name": name} for option, kind, name in options]
        params = {"sessionId": self._session_id, "toolCall": call, "options": listed}
        answer = fields_of(self._connection.ask("session/request_permission", params, interrupt))
        outcome = fields_of(answer.get("outcome"))
        return str(outcome.get("optionId") or "") if outcome.get("outcome") == "selected" else ""

    def _fill_form(self, question: str, choices: Sequence[str], interrupt: Interrupt) -> str | None:
        field: dict[str, Any] = {"type": "string", "title": "Answer"}
        if choices:
            field["description"] = "For example: " + "; ".join(choices)
        schema = {"type": "object", "properties": {"answer": field}, "required": ["answer"]}
        params = {"sessionId": self._session_id, "mode": "form", "message": question, "requestedSchema": schema}
        answer = fields_of(self._connection.ask("elicitation/create", params, interrupt))
        content = fields_of(answer.get("content")) if answer.get("action") == "accept" else {}
        return str(content.get("answer") or "") or None
