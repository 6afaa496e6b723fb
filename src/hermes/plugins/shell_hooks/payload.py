"""What a hook command is told: the event as JSON on its input, and a few names in its environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from hermes.sanitize import Redactor, sanitise

#: The text that each transforming hook hands over for replacement. It is passed whole, because what the command
#: prints takes its place; every other text in ``extra`` is bounded and redacted.
SUBJECTS = {
    "transform_llm_output": "response_text",
    "transform_tool_result": "result",
    "transform_terminal_output": "output",
}

#: Set while a hook command runs, so that a runtime started by one knows where it is.
EVENT_VARIABLE = "HERMES_HOOK_EVENT"

_VARIABLES = {
    "session_id": "HERMES_SESSION_ID",
    "task_id": "HERMES_TASK_ID",
    "turn_id": "HERMES_TURN_ID",
    "tool_name": "HERMES_TOOL_NAME",
    "tool_call_id": "HERMES_TOOL_CALL_ID",
}
_LONGEST_VALUE = 1_000

#: Fields that stand at the top of the document instead of in ``extra``.
_AT_THE_TOP = frozenset({"tool_name", "args", "session_id"})


def hook_input(event: str, payload: Mapping[str, Any], cwd: Path, redactor: Redactor) -> bytes:
    """The event as a JSON document. ``tool_input`` holds the arguments as they are: a policy must see them all."""
    subject = SUBJECTS.get(event)
    extra: dict[str, Any] = {}
    for name, value in payload.items():
        if name == subject and isinstance(value, str):
            extra[name] = _encodable(value)
        elif name not in _AT_THE_TOP:
            extra[name] = sanitise(value, redactor=redactor)
    document = {
        "hook_event_name": event,
        "tool_name": payload.get("tool_name"),
        "tool_input": _whole(payload.get("args")),
        "session_id": payload.get("session_id", ""),
        "cwd": _encodable(str(cwd)),
        "extra": extra,
    }
    return msgspec.json.encode({name: _safe(value) for name, value in document.items()})


def hook_environment(event: str, payload: Mapping[str, Any], home: Path) -> dict[str, str]:
    """The environment of this process, and what the command is run for."""
    told = {name: payload.get(field) for field, name in _VARIABLES.items()}
    return {
        **os.environ,
        **{name: _variable(value) for name, value in told.items() if isinstance(value, str) and value},
        EVENT_VARIABLE: event,
        "HERMES_HOME": str(home),
    }


def _whole(value: Any) -> Any:
    """The value itself when it is JSON data, else as much of it as can be told."""
    try:
        return msgspec.Raw(msgspec.json.encode(value))
    except (TypeError, ValueError, RecursionError):
        return sanitise(value)


def _safe(value: Any) -> Any:
    return _encodable(value) if isinstance(value, str) else value


def _encodable(text: str) -> str:
    """The text with question marks for lone surrogates, which no JSON can carry."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def _variable(text: str) -> str:
    return _encodable(text).replace("\0", "")[:_LONGEST_VALUE]
