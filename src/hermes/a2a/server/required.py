"""Whether a message of the protocol has every field it must have."""

from __future__ import annotations

import functools
from typing import Any, cast

from a2a.utils.proto_utils import validate_proto_required_fields
from google.api import field_behavior_pb2
from google.protobuf.message import Message

#: Their messages hold what anybody likes; nothing in them is required.
_FREE = "google.protobuf"


def check_required(message: Message) -> None:
    """Raise what the SDK raises for a missing field. It takes its time, so messages that miss none are spared it."""
    if not _is_complete(message):
        validate_proto_required_fields(message)


def _is_complete(message: Message) -> bool:
    present = message.ListFields()
    if not _required(message.DESCRIPTOR) <= {field.name for field, _ in present}:
        return False
    for field, value in present:
        kind = field.message_type
        if kind is None or kind.file.package == _FREE:
            continue
        if not all(map(_is_complete, value if field.is_repeated else (value,))):
            return False
    return True


@functools.cache
def _required(descriptor: Any) -> frozenset[str]:
    marked = (
        field.name
        for field in descriptor.fields
        if field_behavior_pb2.REQUIRED in field.GetOptions().Extensions[field_behavior_pb2.field_behavior]
    )
    return frozenset(cast("str", name) for name in marked)
