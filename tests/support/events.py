"""Events with only the fields that a test cares about."""

from __future__ import annotations

from typing import Any, TypeVar

from hermes.contract.events import (
    HOOK_EVENTS,
    ChildEnded,
    ChildStarted,
    Event,
    ToolEnded,
    ToolStarted,
    ToolStatus,
    event_from,
)

E = TypeVar("E", bound=Event)


def some(kind: type[E], /, **fields: Any) -> E:
    """An event of that type; the fields that are not given are empty."""
    assert fields.keys() <= set(kind.__struct_fields__)
    return event_from(kind, fields)


def of_hook(hook: str, payload: dict[str, Any]) -> Event:
    """The event that a hook's keywords come from."""
    return event_from(HOOK_EVENTS[hook], payload)


def tool_started(call_id: str, name: str, args: dict[str, Any]) -> ToolStarted:
    return some(ToolStarted, tool_call_id=call_id, tool_name=name, args=args)


def tool_ended(
    call_id: str, name: str, args: dict[str, Any], status: ToolStatus, duration_ms: int, error: str | None
) -> ToolEnded:
    ids: dict[str, Any] = {"tool_call_id": call_id, "tool_name": name, "args": args}
    return some(ToolEnded, **ids, status=status, duration_ms=duration_ms, error_message=error)


def child_started(call_id: str, child: str, index: int, goal: str, role: str) -> ChildStarted:
    ids: dict[str, Any] = {"tool_call_id": call_id, "child_session_id": child, "task_index": index}
    return some(ChildStarted, **ids, child_goal=goal, child_role=role)


def child_ended(
    call_id: str, child: str, index: int, goal: str, status: str, duration_ms: int, error: str | None
) -> ChildEnded:
    ids: dict[str, Any] = {"tool_call_id": call_id, "child_session_id": child, "task_index": index, "child_goal": goal}
    return some(ChildEnded, **ids, child_status=status, duration_ms=duration_ms, child_error=error)
