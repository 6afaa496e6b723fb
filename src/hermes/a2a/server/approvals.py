"""Approvals that a caller decides about: the question in words and for programs, and what the answer says."""

from __future__ import annotations

from typing import Any, Literal, cast

from a2a.server.tasks import TaskUpdater
from a2a.types import Message, Part
from google.protobuf import json_format, struct_pb2

from hermes.a2a.server.store.questions import Question, data_of, words_of

Choice = Literal["approve", "deny"]
OPTIONS: tuple[Choice, ...] = ("approve", "deny")
_WORDS: dict[str, Choice] = {
    **dict.fromkeys(("approve", "approved", "allow", "yes", "y", "ok", "once"), "approve"),
    **dict.fromkeys(("deny", "denied", "reject", "refuse", "no", "n"), "deny"),
}


def approval_message(updater: TaskUpdater, question: Question, note: str = "") -> Message:
    """The question in words, and in a form for programs."""
    words = (
        f"{note}The agent wants to use {question.tool}, which {question.reason}:\n{question.summary}\n"
        f"Answer with 'approve' or 'deny'."
    )
    document = {
        "approval_id": question.id,
        "tool": question.tool,
        "summary": question.summary,
        "reason": question.reason,
        "options": list(OPTIONS),
    }
    return updater.new_agent_message([Part(text=words), data_part(document)])


def data_part(document: dict[str, Any]) -> Part:
    """A document as a part of a message."""
    data = struct_pb2.Value()
    json_format.ParseDict(document, data)
    return Part(data=data)


def read_approval(message: Message, approval_id: str) -> Choice | None:
    """What the caller decided; None when that is not clear."""
    data = data_of(message)
    if data:
        return _from_data(data, approval_id)
    return _WORDS.get(words_of(message).strip(".!'\"").casefold())


def _from_data(documents: list[Any], approval_id: str) -> Choice | None:
    choices: set[Choice | None] = set()
    for document in documents:
        if not isinstance(document, dict):
            return None
        answer = cast("dict[str, Any]", document)
        if answer.get("approval_id", approval_id) != approval_id:
            return None
        choice = next((answer[name] for name in ("choice", "decision", "answer") if name in answer), None)
        choices.add(_WORDS.get(choice.strip().casefold()) if isinstance(choice, str) else None)
    return choices.pop() if len(choices) == 1 else None
