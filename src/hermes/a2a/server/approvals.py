"""Approvals that a caller decides about: the question, the answer, and what waits for one."""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields
from typing import Any, Literal, cast

from a2a.server.tasks import TaskUpdater
from a2a.types import Message, Part, Role
from google.protobuf import json_format, struct_pb2

from hermes.a2a.server.database import Database
from hermes.a2a.server.principals import Principal
from hermes.agent.person import ApprovalAnswer, ApprovalRequest
from hermes.config.sections import A2A
from hermes.errors import ApprovalSuspended
from hermes.sanitize import Redactor
from hermes.scope import Interrupt, new_id

log = logging.getLogger("hermes.a2a")

Choice = Literal["approve", "deny"]
OPTIONS: tuple[Choice, ...] = ("approve", "deny")
_WORDS: dict[str, Choice] = {
    **dict.fromkeys(("approve", "approved", "allow", "yes", "y", "ok", "once"), "approve"),
    **dict.fromkeys(("deny", "denied", "reject", "refuse", "no", "n"), "deny"),
}
_LONGEST_SUMMARY = 1_000
NOT_FOR_CALLERS = "no caller of this server may approve it"


@dataclass(frozen=True, slots=True)
class Question:
    """An approval that a task waits for."""

    task_id: str
    owner: str
    context_id: str
    approval_id: str
    tool: str
    summary: str
    reason: str
    deadline: float


class RemotePerson:
    """The caller of one turn, as the approvals see it."""

    surface = "a2a"

    def __init__(self, principal: Principal, settings: A2A, redactor: Redactor) -> None:
        self._principal = principal
        self._settings = settings
        self._redactor = redactor
        #: What it was asked last.
        self.asked: ApprovalRequest | None = None

    def approve(self, request: ApprovalRequest, interrupt: Interrupt) -> ApprovalAnswer:
        """Refuse, allow, or let go of the turn until the caller has answered, as the settings say."""
        interrupt.check()
        # What cannot be kept is about this very gate, or hides what it is: not for somebody far away to decide.
        if self._settings.approvals == "deny" or "approve" not in self._principal.scopes or not request.can_be_kept:
            return ApprovalAnswer("deny", NOT_FOR_CALLERS)
        if self._settings.approvals == "allow":
            return ApprovalAnswer("once", "a2a.approvals is allow")
        self.asked = request
        raise ApprovalSuspended

    def answer(self, question: str, choices: Sequence[str], interrupt: Interrupt) -> str | None:
        """Questions of the model's go into its answer; the caller replies with its next message."""
        return None

    def question(self, task_id: str, owner: str, context_id: str) -> Question | None:
        """What the task waits for now."""
        asked = self.asked
        if asked is None:
            return None
        summary = self._redactor.redact(asked.subject)[:_LONGEST_SUMMARY]
        deadline = time.time() + self._settings.approval_timeout
        reason = self._redactor.redact(asked.description)
        return Question(task_id, owner, context_id, asked.id, asked.tool, summary, reason, deadline)


def question_message(updater: TaskUpdater, question: Question, note: str = "") -> Message:
    """The question in words, and in a form for programs."""
    words = (
        f"{note}The agent wants to use {question.tool}, which {question.reason}:\n{question.summary}\n"
        f"Answer with 'approve' or 'deny'."
    )
    data = struct_pb2.Value()
    json_format.ParseDict(
        {
            "approval_id": question.approval_id,
            "tool": question.tool,
            "summary": question.summary,
            "reason": question.reason,
            "options": list(OPTIONS),
        },
        data,
    )
    return updater.new_agent_message([Part(text=words), Part(data=data)])


def read_answer(message: Message, approval_id: str) -> Choice | None:
    """What the caller decided; None when that is not clear."""
    data = [json_format.MessageToDict(part.data) for part in message.parts if part.WhichOneof("content") == "data"]
    if data:
        return _from_data(data, approval_id)
    words = " ".join(part.text for part in message.parts if part.WhichOneof("content") == "text")
    return _WORDS.get(words.strip().strip(".!'\"").casefold())


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


#: Marks the message by which the server itself answers a question that nobody answered in time.
_TIMEOUT_MARK = "hermes.timeout"


def timeout_message(question: Question) -> Message:
    """The answer to a question that nobody answered in time."""
    message = Message(
        message_id=new_id(),
        role=Role.ROLE_USER,
        task_id=question.task_id,
        context_id=question.context_id,
        parts=[Part(text="deny")],
    )
    message.metadata[_TIMEOUT_MARK] = True
    return message


def is_timeout(message: Message) -> bool:
    """Whether nobody but the clock answered."""
    return _TIMEOUT_MARK in message.metadata


class Questions:
    """What tasks wait for, on record so that it outlives the process."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._open = {question.task_id: question for question in database.run_now(_load)}

    def of(self, task_id: str) -> Question | None:
        """What a task waits for, if it waits."""
        return self._open.get(task_id)

    def in_context(self, owner: str, context_id: str) -> Question | None:
        """What keeps a conversation from going on, if something does."""
        found = (q for q in self._open.values() if (q.owner, q.context_id) == (owner, context_id))
        return next(found, None)

    async def ask(self, question: Question) -> None:
        """Put a question on record, in the place of what the task waited for before."""
        self._open[question.task_id] = question
        row = astuple(question)
        query = f"INSERT OR REPLACE INTO questions VALUES ({', '.join('?' * len(row))})"
        await self._database.run(lambda connection: connection.execute(query, row))

    async def close(self, task_id: str) -> Question | None:
        """The task does not wait any more."""
        question = self._open.pop(task_id, None)
        if question is not None:
            query = "DELETE FROM questions WHERE task_id = ?"
            await self._database.run(lambda connection: connection.execute(query, (task_id,)))
        return question

    def overdue(self) -> list[Question]:
        """The questions that nobody answered in time."""
        now = time.time()
        return [question for question in self._open.values() if question.deadline <= now]


def _load(connection: sqlite3.Connection) -> list[Question]:
    names = ", ".join(field.name for field in fields(Question))
    return [Question(*row) for row in connection.execute(f"SELECT {names} FROM questions")]
