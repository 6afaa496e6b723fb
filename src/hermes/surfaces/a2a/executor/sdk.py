"""Compatibility between the major versions of the A2A SDK (0.3 and 1.x)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import a2a.types
import a2a.utils

if TYPE_CHECKING:
    from a2a.types import Message, TaskStatusUpdateEvent


def text_message(text: str, *, context_id: str | None = None, task_id: str | None = None) -> Message:
    """A message of the agent with one text part."""
    make: Callable[..., Message] | None = getattr(a2a.utils, "new_agent_text_message", None)
    if make is None:  # 1.x, where the second positional argument is the media type
        from a2a.helpers import new_text_message as make
    return make(text, context_id=context_id, task_id=task_id)


def canceled_event(task_id: str, context_id: str) -> TaskStatusUpdateEvent:
    """The event that ends a task as canceled. Without its ids the SDK refuses it, or reports the task as failed."""
    types: Any = a2a.types
    state = getattr(types.TaskState, "TASK_STATE_CANCELED", None)
    if state is not None:
        status = types.TaskStatus(state=state)
        status.timestamp.GetCurrentTime()
        return types.TaskStatusUpdateEvent(task_id=task_id, context_id=context_id, status=status)
    from datetime import UTC, datetime

    status = types.TaskStatus(state=types.TaskState.canceled, timestamp=datetime.now(UTC).isoformat())
    return types.TaskStatusUpdateEvent(task_id=task_id, context_id=context_id, status=status, final=True)


def part_text(part: object) -> str:
    """The text of a message part, of either version or as plain data; empty when it is not text."""
    if isinstance(part, dict):
        fields = cast("dict[str, Any]", part)
        return _text(fields.get("text")) or (part_text(fields["root"]) if "root" in fields else "")
    return _text(getattr(part, "text", None)) or _text(getattr(getattr(part, "root", None), "text", None))


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
