"""Messages of the protocol as JSON documents: the same as the conversion of protobuf itself."""

from __future__ import annotations

import random
from typing import Any

import pytest
from a2a.types import (
    AgentCard,
    Artifact,
    ListTasksResponse,
    Message,
    Part,
    Role,
    SendMessageResponse,
    StreamResponse,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message as ProtoMessage

from hermes.surfaces.a2a.server.transports.json_documents import document_of


def test_a_task_is_written_with_all_it_has() -> None:
    message = Message(message_id="m", context_id="c", task_id="t", role=Role.ROLE_USER, extensions=["x"])
    message.parts.extend([Part(text="where?", media_type="text/plain"), Part(raw=b"\x00\xff", filename="a.bin")])
    part = message.parts.add()
    part.data.struct_value.update({"n": 1.5, "none": None, "list": [True, "a", {"b": []}], "empty": {}})
    task = Task(id="t", context_id="c", status=TaskStatus(state=TaskState.TASK_STATE_COMPLETED, message=message))
    task.status.timestamp.FromNanoseconds(1_700_000_000_123_000_000)
    task.history.append(message)
    task.artifacts.append(Artifact(artifact_id="a", name="answer", parts=[Part(text="here")]))
    task.metadata.update({"hermes.usage": {"inputTokens": 3}})

    document = document_of(SendMessageResponse(task=task))

    assert document == MessageToDict(SendMessageResponse(task=task))
    assert document["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
    assert document["task"]["history"][0]["parts"][1] == {"raw": "AP8=", "filename": "a.bin"}


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize(
    "kind",
    [Task, Message, StreamResponse, TaskStatusUpdateEvent, TaskArtifactUpdateEvent, ListTasksResponse, AgentCard],
)
def test_it_is_the_conversion_of_protobuf(kind: type[ProtoMessage], seed: int) -> None:
    message = kind()
    _fill(message, random.Random(seed))

    assert document_of(message) == MessageToDict(message)


def test_a_value_of_a_newer_version_is_written_as_its_number() -> None:
    task = Task(status=TaskStatus(state=99))  # pyright: ignore[reportArgumentType]  (no state of this version)

    assert document_of(task) == MessageToDict(task) == {"status": {"state": 99}}


def _fill(message: ProtoMessage, dice: random.Random, depth: int = 0) -> None:
    """Set random fields of a message to random values."""
    if message.DESCRIPTOR.full_name == "google.protobuf.Value":
        _fill_value(message, dice, depth)
        return
    for field in message.DESCRIPTOR.fields:
        if dice.random() < 0.4:
            continue
        items: Any = getattr(message, field.name)
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            if depth < 4 and field.message_type.fields_by_name["value"].message_type is not None:
                _fill(items["key"], dice, depth + 1)
        elif field.message_type is not None:
            if depth < 5:
                target: Any = items.add() if field.is_repeated else items
                target.SetInParent()
                _fill(target, dice, depth + 1)
        elif field.is_repeated:
            items.extend([_scalar(field, dice), _scalar(field, dice)])
        else:
            setattr(message, field.name, _scalar(field, dice))


def _fill_value(value: Any, dice: random.Random, depth: int) -> None:
    match dice.randrange(5 if depth < 5 else 3):
        case 0:
            value.string_value = "text ü"
        case 1:
            value.number_value = dice.choice([0.0, 1.0, -2.5])
        case 2:
            value.null_value = 0
        case 3:
            value.struct_value["key"] = dice.choice([True, "x", None, 4])
        case _:
            value.list_value.extend([1, "two", False])


def _scalar(field: Any, dice: random.Random) -> Any:
    if field.enum_type is not None:
        return dice.choice(field.enum_type.values).number
    kinds: dict[int, Any] = {
        FieldDescriptor.CPPTYPE_BOOL: dice.choice([True, False]),
        FieldDescriptor.CPPTYPE_STRING: "words",
        FieldDescriptor.CPPTYPE_DOUBLE: 1.25,
    }
    if field.type == FieldDescriptor.TYPE_BYTES:
        return b"\x01\xfe"
    return kinds.get(field.cpp_type, dice.randrange(1, 1_000_000)) if field.name != "nanos" else 5_000_000
