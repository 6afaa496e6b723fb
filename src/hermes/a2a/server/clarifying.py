"""Questions of the model's that a caller answers: in words and for programs, and what the answer says."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, cast

import msgspec
from a2a.server.tasks import TaskUpdater
from a2a.types import Message, Part

from hermes.a2a.server.approvals import data_part
from hermes.a2a.server.store.questions import Question, data_of, words_of
from hermes.scope import current_scope


def question_id(question: str, choices: Sequence[str]) -> str:
    """What the answer is kept under: the same whenever the turn comes by, another for the next call that asks."""
    scope = current_scope.get()
    # What a plugin calls in between has another id every time.
    call = [] if scope is None else [scope.api_request_id, scope.tool_call_id.partition("/")[0]]
    asked = msgspec.json.encode([call, question, list(choices)])
    return f"ask_{hashlib.sha256(asked).hexdigest()[:12]}"


def clarifying_message(updater: TaskUpdater, question: Question, note: str = "") -> Message:
    """The question in words, and in a form for programs."""
    numbered = [f"{number}. {choice}" for number, choice in enumerate(question.choices, 1)]
    how = "Answer with a number, or in your own words." if numbered else "Answer in your own words."
    words = "\n".join([f"{note}The agent asks: {question.summary}", *numbered, how])
    document = {"question_id": question.id, "question": question.summary, "choices": list(question.choices)}
    return updater.new_agent_message([Part(text=words), data_part(document)])


def read_clarification(message: Message, question: Question) -> str | None:
    """What the caller answered; None when that is nothing."""
    data = data_of(message)
    answer = _from_data(data, question.id) if data else words_of(message)
    number = int(answer) if answer.isdecimal() and len(answer) < 3 else 0
    return question.choices[number - 1] if 1 <= number <= len(question.choices) else answer or None


def _from_data(documents: list[Any], question_id: str) -> str:
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
