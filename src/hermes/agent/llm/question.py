"""What a plugin asks a model, checked: the options of the call, its messages, and how long it may take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

Message = dict[str, Any]

#: What clocks and servers can count to.
_LARGEST = 10**9
_TEXTS = ("provider", "model", "agent_id", "profile", "purpose")


@dataclass(frozen=True, slots=True)
class CallOptions:
    """The options that all four methods share. An empty choice is none."""

    provider: str = ""
    model: str = ""
    agent_id: str = ""
    profile: str = ""
    purpose: str = ""
    temperature: float | None = None
    max_tokens: int | None = None
    #: Seconds for the whole call.
    timeout: float | None = None

    @classmethod
    def read(cls, options: Mapping[str, Any]) -> CallOptions:
        """The options of a call. ``ValueError`` names one that makes no sense."""
        return cls(
            **{name: _text(name, options.get(name)) for name in _TEXTS},
            temperature=_number("temperature", options.get("temperature")),
            max_tokens=_count("max_tokens", options.get("max_tokens")),
            timeout=_number("timeout", options.get("timeout")) or None,
        )

    @property
    def choices(self) -> dict[str, str]:
        """What the call chooses itself, as far as it may."""
        return {
            "provider": self.provider,
            "model": self.model,
            "agent_id": self.agent_id,
            "profile": self.profile,
        }


@dataclass(slots=True)
class Question:
    """Messages for a model, and the format that its answer should have."""

    messages: list[Message]
    response_format: dict[str, Any] | None = None
    has_images: bool = field(init=False)

    def __post_init__(self) -> None:
        self.has_images = any(map(_has_image, self.messages))


def chat_messages(messages: object) -> list[Message]:
    """The messages of a chat, copied. ``ValueError`` when there are none, or one has no role."""
    if not isinstance(messages, list | tuple):
        raise ValueError(f"messages must be a list of {{'role': …, 'content': …}}, got {type(messages).__name__}")
    if not len(cast("Sequence[object]", messages)):
        raise ValueError("messages are empty; give at least one")
    return [
        _chat_message(message, f"messages[{number}]")
        for number, message in enumerate(cast("Sequence[object]", messages))
    ]


def _chat_message(message: object, place: str) -> Message:
    fields = dict(cast("Mapping[str, Any]", message)) if isinstance(message, Mapping) else {}
    role, content, calls = fields.get("role"), fields.get("content"), fields.get("tool_calls")
    if not isinstance(role, str) or not role:
        raise ValueError(f"{place} must be a dictionary with a 'role' and a 'content'")
    # JSON has a form for bytes and sets too, which no model would understand.
    if content is not None and not isinstance(content, str | list | tuple):
        raise ValueError(f"{place}['content'] must be a string or a list of parts, got {type(content).__name__}")
    if calls and not (isinstance(calls, list) and all(isinstance(call, dict) for call in cast("list[object]", calls))):
        raise ValueError(f"{place}['tool_calls'] must be a list of dictionaries")
    return fields


def _has_image(message: Message) -> bool:
    content: object = message.get("content")
    if not isinstance(content, list):
        return False
    parts = cast("list[object]", content)
    return any(isinstance(part, dict) and cast("Message", part).get("type") == "image_url" for part in parts)


def _text(name: str, value: object) -> str:
    if not value:
        return ""
    if not isinstance(value, str):
        raise ValueError(f"{name} must be a string, got {type(value).__name__}")
    # Not ``str(value)``: what is checked has to be what is used, whatever a subclass makes of it.
    return str.__str__(value)


def _number(name: str, value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _LARGEST:
        raise ValueError(f"{name} must be a number from 0 to {_LARGEST:,}, got {value!r}")
    return value


def _count(name: str, value: object) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= _LARGEST:
        raise ValueError(f"{name} must be a whole number from 1 to {_LARGEST:,}, got {value!r}")
    return value
