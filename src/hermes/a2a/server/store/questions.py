"""What tasks wait for: an approval or an answer, on record so that it outlives the process."""

from __future__ import annotations

import sqlite3
import time
from dataclasses import astuple, dataclass, fields, replace
from typing import Any, Literal, cast

import msgspec
from a2a.types import Message, Part, Role
from google.protobuf import json_format

from hermes.a2a.server.store.database import Database
from hermes.scope import new_id

Kind = Literal["approval", "clarify"]


@dataclass(frozen=True, slots=True)
class Question:
    """Something that the caller of a task is asked."""

    task_id: str
    owner: str
    context_id: str
    #: Of the approval; for a question of the model's, what its answer is kept under.
    id: str
    tool: str
    #: What would be done, or the question itself.
    summary: str
    reason: str
    deadline: float
    kind: Kind = "approval"
    #: Answers to choose from.
    choices: tuple[str, ...] = ()


#: What was answered in a task so far, by the id of the question; empty when nobody did in time.
Answers = dict[str, str]


class Questions:
    """The questions and answers of all tasks that are not over."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._open = {question.task_id: question for question in database.run_now(_load)}
        self._answers = database.run_now(_load_answers)

    def of(self, task_id: str) -> Question | None:
        """What a task waits for, if it waits."""
        return self._open.get(task_id)

    def answers(self, task_id: str) -> Answers:
        """What the model was answered in a task."""
        return self._answers.get(task_id, {})

    def in_context(self, owner: str, context_id: str) -> Question | None:
        """What keeps a conversation from going on, if something does."""
        found = (q for q in self._open.values() if (q.owner, q.context_id) == (owner, context_id))
        return next(found, None)

    async def ask(self, question: Question) -> None:
        """Put a question on record, in the place of what the task waited for before."""
        self._open[question.task_id] = question
        row = astuple(replace(question, choices=cast("Any", msgspec.json.encode(question.choices).decode())))
        names = ", ".join(field.name for field in fields(Question))
        query = f"INSERT OR REPLACE INTO questions ({names}) VALUES ({', '.join('?' * len(row))})"
        await self._database.run(lambda connection: connection.execute(query, row))

    async def answer(self, question: Question, answer: str) -> None:
        """Keep an answer for the model: the turn may come by its question more than once."""
        self._answers.setdefault(question.task_id, {})[question.id] = answer
        row = (question.task_id, question.id, answer)
        query = "INSERT OR REPLACE INTO answers VALUES (?, ?, ?)"
        await self._database.run(lambda connection: connection.execute(query, row))

    async def close(self, task_id: str) -> Question | None:
        """The task does not wait any more."""
        question = self._open.pop(task_id, None)
        if question is not None:
            query = "DELETE FROM questions WHERE task_id = ?"
            await self._database.run(lambda connection: connection.execute(query, (task_id,)))
        return question

    def forget(self, task_id: str) -> None:
        """The task is over: nothing comes by its questions any more."""
        if self._answers.pop(task_id, None) is not None:
            query = "DELETE FROM answers WHERE task_id = ?"
            self._database.run_soon(("answers", task_id), lambda connection: connection.execute(query, (task_id,)))

    def overdue(self) -> list[Question]:
        """The questions that nobody answered in time."""
        now = time.time()
        return [question for question in self._open.values() if question.deadline <= now]


def _load(connection: sqlite3.Connection) -> list[Question]:
    names = ", ".join(field.name for field in fields(Question))
    rows = connection.execute(f"SELECT {names} FROM questions")
    return [Question(*row[:-1], choices=msgspec.json.decode(row[-1], type=tuple[str, ...])) for row in rows]


def _load_answers(connection: sqlite3.Connection) -> dict[str, Answers]:
    answers: dict[str, Answers] = {}
    for task_id, question_id, answer in connection.execute("SELECT task_id, question_id, answer FROM answers"):
        answers.setdefault(task_id, {})[question_id] = answer
    return answers


# -- what messages say ----------------------------------------------------------------------------------------------


def words_of(message: Message) -> str:
    """The text of an answer."""
    return " ".join(part.text for part in message.parts if part.WhichOneof("content") == "text").strip()


def data_of(message: Message) -> list[Any]:
    """The data parts of an answer."""
    return [json_format.MessageToDict(part.data) for part in message.parts if part.WhichOneof("content") == "data"]


#: Marks the message by which the server itself answers a question that nobody answered in time.
_TIMEOUT_MARK = "hermes.timeout"


def timeout_message(question: Question) -> Message:
    """The answer to a question that nobody answered in time."""
    message = Message(
        message_id=new_id(),
        role=Role.ROLE_USER,
        task_id=question.task_id,
        context_id=question.context_id,
        parts=[Part(text="deny" if question.kind == "approval" else "(no answer in time)")],
    )
    message.metadata[_TIMEOUT_MARK] = True
    return message


def is_timeout(message: Message, question: Question) -> bool:
    """Whether nobody but the clock answered. A caller may write the mark too; before its time it means nothing."""
    return _TIMEOUT_MARK in message.metadata and question.deadline <= time.time()
