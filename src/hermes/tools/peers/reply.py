"""The answer of another agent so far, assembled from the events of its task."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, cast

import msgspec
from a2a.types import Message, Part, StreamResponse, Task, TaskArtifactUpdateEvent, TaskState, TaskStatus
from google.protobuf import json_format

from hermes.tools.peers.failures import PeerError

COMPLETED = "completed"
WAITING = ("input-required", "auth-required")
_ENDED = (COMPLETED, "failed", "canceled", "rejected")
_MAX_ANSWER_CHARS = 4_000_000
_BETWEEN_ARTIFACTS = "\n\n"


class PeerUpdate(NamedTuple):
    """The news of one event: a piece of the answer, a status text, or both."""

    text: str = ""
    status: str = ""


class PeerReply(msgspec.Struct):
    """The answer to one message. It is settled once the task has ended or waits for input."""

    task_id: str = ""
    context_id: str = ""
    #: As in the protocol: ``working``, ``completed``, ``input-required`` …; empty before the first event.
    state: str = ""
    text: str = ""
    #: The agent's text for the state: its question, or why it failed.
    status: str = ""
    #: The data of the question: ``approval_id``, ``options`` …
    question: dict[str, Any] = {}
    metadata: dict[str, Any] = {}
    _artifacts: dict[str, str] = {}

    @property
    def is_settled(self) -> bool:
        return self.state in _ENDED or self.state in WAITING

    @property
    def waits(self) -> bool:
        """Whether the agent waits for an answer."""
        return self.state in WAITING

    @property
    def is_approval(self) -> bool:
        """Whether it waits for an approval."""
        return self.waits and "approval_id" in self.question

    def take(self, event: StreamResponse) -> PeerUpdate:
        """Add an event."""
        match event.WhichOneof("payload"):
            case "message":
                return self._take_message(event.message)
            case "task":
                return self.take_task(event.task)
            case "status_update":
                update = event.status_update
                self._know(update.task_id, update.context_id, json_format.MessageToDict(update.metadata))
                return self._take_status(update.status)
            case "artifact_update":
                self._know(event.artifact_update.task_id, event.artifact_update.context_id, {})
                return PeerUpdate(self._take_artifact(event.artifact_update))
            case _:
                return PeerUpdate()

    def take_task(self, task: Task) -> PeerUpdate:
        """Add the whole task. Text that is known already is not repeated."""
        self._know(task.id, task.context_id, json_format.MessageToDict(task.metadata))
        pieces = [self._grown(artifact.artifact_id, parts_text(artifact.parts)) for artifact in task.artifacts]
        update = self._take_status(task.status)
        return PeerUpdate("".join(pieces) + update.text, update.status)

    def _take_message(self, message: Message) -> PeerUpdate:
        self._know(message.task_id, message.context_id, json_format.MessageToDict(message.metadata))
        self.state = COMPLETED
        return PeerUpdate(self._grown("", parts_text(message.parts)))

    def _take_status(self, status: TaskStatus) -> PeerUpdate:
        before = (self.state, self.status)
        self.state = state_name(status.state)
        self.status = parts_text(part for part in status.message.parts if part.WhichOneof("content") != "data")
        self.question = _data(status.message.parts) if self.waits else {}
        if self.state == COMPLETED:
            # Some agents give the answer only here; others repeat it, which is ignored.
            text = self._grown("", self.status) if self.status and not self._artifacts else ""
            self.status = ""
            return PeerUpdate(text)
        is_news = self.status and (self.state, self.status) != before and not self.is_settled
        return PeerUpdate(status=self.status if is_news else "")

    def _take_artifact(self, update: TaskArtifactUpdateEvent) -> str:
        name, text = update.artifact.artifact_id, parts_text(update.artifact.parts)
        return self._grown(name, self._artifacts.get(name, "") + text if update.append else text)

    def _grown(self, name: str, text: str) -> str:
        """Set the text of an artifact and return the addition to the answer, which only grows."""
        if name not in self._artifacts:
            piece = (_BETWEEN_ARTIFACTS if self.text and text else "") + text
        elif text.startswith(self._artifacts[name]):
            piece = text[len(self._artifacts[name]) :]
        else:
            piece = _BETWEEN_ARTIFACTS + text
        self._artifacts[name] = text
        self.text += piece
        if len(self.text) > _MAX_ANSWER_CHARS:
            raise PeerError(f"the answer is longer than {_MAX_ANSWER_CHARS:,} characters")
        return piece

    def _know(self, task_id: str, context_id: str, metadata: dict[str, Any]) -> None:
        self.task_id = task_id or self.task_id
        self.context_id = context_id or self.context_id
        self.metadata |= _with_integers(metadata)


def state_name(state: TaskState) -> str:
    """The name of a state: ``input-required`` for TASK_STATE_INPUT_REQUIRED."""
    return TaskState.Name(state).removeprefix("TASK_STATE_").lower().replace("_", "-")


def parts_text(parts: Iterable[Part]) -> str:
    """Parts as text: data as JSON, files by their names."""
    return "".join(map(_part_text, parts))


def _part_text(part: Part) -> str:
    match part.WhichOneof("content"):
        case "text":
            return part.text
        case "data":
            return msgspec.json.encode(json_format.MessageToDict(part.data)).decode()
        case "url":
            return f"[file {part.filename or part.url}: {part.url}]"
        case "raw":
            kind = part.media_type or "unknown type"
            return f"[file {part.filename or 'without a name'}, {kind}, {len(part.raw):,} bytes]"
        case _:
            return ""


def _with_integers(value: Any) -> Any:
    """The value with whole numbers as integers: the protocol has only floats."""
    if isinstance(value, dict):
        return {name: _with_integers(item) for name, item in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_with_integers(item) for item in cast("list[Any]", value)]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _data(parts: Iterable[Part]) -> dict[str, Any]:
    for part in parts:
        if part.WhichOneof("content") == "data":
            document = cast("object", json_format.MessageToDict(part.data))  # its stub knows objects only
            if isinstance(document, dict):
                return _with_integers(document)
    return {}
