"""Conversations read from requests: what one has that the last one had not, compaction, and earlier turns."""

from __future__ import annotations

from typing import Any, cast

from hermes.trace.clean import Cleaner
from hermes.trace.records import AttemptRecord, Message, ToolCallRecord, ToolStep, TurnRecord

#: How the message begins that replaces everything condensed so far.
SUMMARY_MARK = "[Summary of the conversation so far"


class LastRequest:
    """Remembers how long the last request was and how it ended, which is enough to know what comes after that."""

    __slots__ = ("_last", "_length")

    def __init__(self) -> None:
        self._length = 0
        self._last: Message = {}

    def advance(self, messages: list[Message], *, is_new_turn: bool) -> tuple[list[Message], dict[str, Any]]:
        """The messages of the next request that are new, beside replies and tool results.

        When older ones went, with the data of a mark of that: how many there were and are, and their summary.
        The first request of a turn has nothing new but the user's message, which is known from elsewhere.
        """
        before, last = self._length, self._last
        self._length, self._last = len(messages), messages[-1] if messages else {}
        if is_new_turn:
            # What was added to the user's message may be gone, so that only the length shows it.
            return [], _compaction(before, messages) if len(messages) < before else {}
        if 0 < before <= len(messages) and messages[before - 1] == last:
            return [message for message in messages[before:] if message.get("role") in ("user", "system")], {}
        return [], _compaction(before, messages)


def _compaction(before: int, messages: list[Message]) -> dict[str, Any]:
    return {"messages_before": before, "messages_after": len(messages), "summary": summary_in(messages)}


def summary_in(messages: list[Message]) -> str:
    """The summary that replaces condensed messages, empty when they were only cut."""
    for message in messages:
        content = message.get("content")
        if message.get("role") == "user" and isinstance(content, str) and content.startswith(SUMMARY_MARK):
            return content
    return ""


def context_of(messages: list[Message], user_message: Any) -> str:
    """What was added to the user's message of this turn, seen in its first request."""
    content = messages[-1].get("content") if messages else None
    if isinstance(content, str) and isinstance(user_message, str):
        return content[len(user_message) :].strip() if content.startswith(user_message) else ""
    if isinstance(content, list) and isinstance(user_message, list):
        added = cast("list[dict[str, Any]]", content)[len(cast("list[Any]", user_message)) :]
        return "\n\n".join(part["text"] for part in added if part.get("text"))
    return ""


def turns_from(messages: list[Message], at: float, clean: Cleaner) -> list[TurnRecord]:
    """The turns in these messages, all of them over. Only their order is known, not their times."""
    turns: list[TurnRecord] = []
    for number, message in enumerate(messages):
        role = message.get("role")
        if role == "user" or not turns:
            said = clean.value(message.get("content") or "") if role == "user" else ""
            turns.append(TurnRecord(f"earlier:{number}", "", said, at, at, "completed", copied=True))
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


def _add_reply(turn: TurnRecord, message: Message, name: str, at: float, clean: Cleaner) -> None:
    step = turn.step()
    step.add_attempt(AttemptRecord(name, "", "", at, at, "ok"))
    step.text = clean.text(str(message.get("content") or ""))
    step.tool_calls = tuple(tool_request(call, clean) for call in message.get("tool_calls") or ())
    turn.answer = "" if step.tool_calls else step.text


def _add_result(turn: TurnRecord, message: Message, at: float, clean: Cleaner) -> None:
    call_id = str(message.get("tool_call_id") or "")
    for step in reversed(turn.steps):
        for call in step.tool_calls:
            if call.id == call_id:
                result = clean.text(str(message.get("content") or ""))
                step.tools.append(ToolStep(call_id, call.name, call.arguments, at, at, "ok", result))
                return
