"""Earlier turns of a conversation, made from the messages of its requests."""

from __future__ import annotations

from typing import Any

from hermes.trace.clean import Cleaner
from hermes.trace.draft import ToolDraft, TurnDraft
from hermes.trace.records import Message, ToolCallRecord


def turns_from(messages: list[Message], at: float, clean: Cleaner) -> list[TurnDraft]:
    """The turns in these messages, all of them over. Only their order is known, not their times."""
    turns: list[TurnDraft] = []
    for number, message in enumerate(messages):
        role = message.get("role")
        if role == "user" or not turns:
            said = clean.value(message.get("content") or "") if role == "user" else ""
            turns.append(TurnDraft(f"earlier:{number}", "", said, at, at, "completed", copied=True))
        if role == "assistant":
            _add_reply(turns[-1], message, f"earlier:{number}", at, clean)
        elif role == "tool":
            _add_result(turns[-1], message, at, clean)
    return turns


def tool_request(call: dict[str, Any], clean: Cleaner) -> ToolCallRecord:
    """A tool call of a message."""
    function: dict[str, Any] = call.get("function") or {}
    arguments = clean.arguments(function.get("arguments") or "")
    return ToolCallRecord(call.get("id") or "", function.get("name") or "", arguments)


def _add_reply(turn: TurnDraft, message: Message, name: str, at: float, clean: Cleaner) -> None:
    step = turn.step()
    step.add_attempt(name, "", "", at, at, "ok")
    step.text = clean.text(str(message.get("content") or ""))
    turn.add_requests(step, tuple(tool_request(call, clean) for call in message.get("tool_calls") or ()))
    turn.answer = "" if step.tool_calls else step.text


def _add_result(turn: TurnDraft, message: Message, at: float, clean: Cleaner) -> None:
    call_id = str(message.get("tool_call_id") or "")
    for step in reversed(turn.steps):
        for call in step.tool_calls:
            if call.id == call_id:
                result = clean.text(str(message.get("content") or ""))
                step.tools.ended.append(ToolDraft(call_id, call.name, call.arguments, at, at, "ok", result))
                return
