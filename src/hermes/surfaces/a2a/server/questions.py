"""Questions of a caller's turn: approvals and what the model asks, as prompts (text and data), and the answers.

The questions themselves are in the journal. A turn that asks is suspended, holds no thread, and continues with the
answer, also after a restart of the server.
"""

from __future__ import annotations

from typing import Any, cast

from a2a.server.tasks import TaskUpdater
from a2a.types import Message, Part
from google.protobuf import json_format, struct_pb2

from hermes.base.http_server.principals import Principal
from hermes.base.sanitize import Redactor
from hermes.journal.questions import QuestionRow
from hermes.service.live.questions import outgoing_subject, read_choice

#: The status of a task whose turn waits for the owner.
WAITS_FOR_OWNER = "waiting for the owner's approval"

_MAX_SUMMARY_CHARS = 1_000
_APPROVE, _DENY = "once", "deny"
_CHOICES = {
    **dict.fromkeys(("approve", "approved", "allow", "yes", "y", "ok", "once"), _APPROVE),
    **dict.fromkeys(("deny", "denied", "reject", "refuse", "no", "n"), _DENY),
}


# -- prompts --------------------------------------------------------------------------------------------------------


def prompt_message(updater: TaskUpdater, question: QuestionRow, redactor: Redactor, note: str = "") -> Message:
    """The question as text and as data, without secrets."""
    text, document = (_approval_prompt if question.kind == "approval" else _clarify_prompt)(question, redactor)
    data = struct_pb2.Value()
    json_format.ParseDict(document, data)
    return updater.new_agent_message([Part(text=note + text), Part(data=data)])


def shown_question_id(prompt: Message) -> str:
    """The id of the question that a prompt shows; empty when it shows none."""
    documents = [cast("dict[str, Any]", document) for document in _data(prompt) if isinstance(document, dict)]
    found = (document.get(name) for document in documents for name in ("question_id", "approval_id"))
    return next((str(value) for value in found if value), "")


def _approval_prompt(question: QuestionRow, redactor: Redactor) -> tuple[str, dict[str, Any]]:
    summary = outgoing_subject(question, redactor, _MAX_SUMMARY_CHARS)
    reason = redactor.redact(question.description)
    text = f"The agent wants to use {question.tool}, which {reason}:\n{summary}\nAnswer with 'approve' or 'deny'."
    return text, {
        "approval_id": question.id,
        "tool": question.tool,
        "summary": summary,
        "reason": reason,
        "options": ["approve", "deny"],
    }


def _clarify_prompt(question: QuestionRow, redactor: Redactor) -> tuple[str, dict[str, Any]]:
    asked, choices = redactor.redact(question.subject), [redactor.redact(choice) for choice in question.choices]
    numbered = [f"{number}. {choice}" for number, choice in enumerate(choices, 1)]
    how = "Answer with a number, or in your own words." if numbered else "Answer in your own words."
    text = "\n".join([f"The agent asks: {asked}", *numbered, how])
    return text, {"question_id": question.id, "question": asked, "choices": choices}


# -- answers --------------------------------------------------------------------------------------------------------


def read_answer(message: Message, question: QuestionRow, principal: Principal) -> str | None:
    """The answer as the journal stores it; None when it is not clear, or not for this caller to give."""
    if question.kind == "clarify":
        return _read_clarification(message, question)
    choice = _read_approval(message, question.id)
    return None if choice == _APPROVE and "approve" not in principal.scopes else choice


def _read_approval(message: Message, approval_id: str) -> str | None:
    documents = _data(message)
    if not documents:
        return _CHOICES.get(_text(message).strip(".!'\"").casefold())
    choices: set[str | None] = set()
    for document in documents:
        if not isinstance(document, dict):
            return None
        answer = cast("dict[str, Any]", document)
        if answer.get("approval_id", approval_id) != approval_id:
            return None
        choice = next((answer[name] for name in ("choice", "decision", "answer") if name in answer), None)
        choices.add(_CHOICES.get(choice.strip().casefold()) if isinstance(choice, str) else None)
    return choices.pop() if len(choices) == 1 else None


def _read_clarification(message: Message, question: QuestionRow) -> str | None:
    documents = _data(message)
    answer = _clarification_data(documents, question.id) if documents else _text(message)
    return read_choice(answer, question.choices) or None


def _clarification_data(documents: list[Any], question_id: str) -> str:
    answers: set[str] = set()
    for document in documents:
        answer = cast("dict[str, Any]", document) if isinstance(document, dict) else {"answer": document}
        if answer.get("question_id", question_id) != question_id:
            return ""
        found = next((answer[name] for name in ("answer", "choice", "response") if name in answer), "")
        if isinstance(found, float) and found.is_integer():
            found = str(int(found))
        answers.add(found.strip() if isinstance(found, str) else "")
    return answers.pop() if len(answers) == 1 else ""


def _text(message: Message) -> str:
    return " ".join(part.text for part in message.parts if part.WhichOneof("content") == "text").strip()


def _data(message: Message) -> list[Any]:
    return [json_format.MessageToDict(part.data) for part in message.parts if part.WhichOneof("content") == "data"]
