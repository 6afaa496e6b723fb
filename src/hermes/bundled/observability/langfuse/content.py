"""What was said, fit to be sent: as JSON, without secrets, and only as much as the settings allow."""

from __future__ import annotations

import os
from typing import Any, cast

import msgspec

from hermes.contract.response import to_plain
from hermes.trace.clean import Cleaner, knowing

from .settings import Settings

#: What a provider wants back with the next request, opaque to everybody else.
_OPAQUE = "carry"
_REASONING = ("reasoning", "reasoning_content", "reasoning_details")
#: Fields of a request that say how the model is to answer, and nothing of what is said.
_PARAMETERS = (
    *("temperature", "top_p", "top_k", "min_p", "seed", "stop", "frequency_penalty", "presence_penalty"),
    *("max_tokens", "max_completion_tokens", "max_output_tokens", "reasoning_effort", "reasoning", "thinking"),
    *("verbosity", "tool_choice", "parallel_tool_calls", "service_tier", "stream"),
)

#: The fields of hooks that only content is made of: whoever wants none need not be given them.
CONTENT_FIELDS = frozenset(
    {"user_message", "assistant_response", "conversation_history", "assistant_message", "args", "result"}
    | {"error_message", "command", "child_goal", "child_summary"}
)

Parameters = dict[str, str | int | float | bool | list[str]]


class Content:
    """Texts for observations. Every method gives None when there is nothing to tell or content is off.

    The SDK would encode data itself, every time from the start; it leaves a text as it is.
    """

    def __init__(self, settings: Settings) -> None:
        self._captures = settings.capture_content
        self._hidden = (_OPAQUE,) if settings.capture_reasoning else (_OPAQUE, *_REASONING)
        self._clean = Cleaner(knowing({**os.environ, "LANGFUSE_SECRET_KEY": settings.secret_key}))
        #: The last request of each session: its messages, and each of them as JSON.
        self._spoken: dict[str, tuple[list[Any], list[bytes]]] = {}

    def words(self, text: str | None) -> str | None:
        """A plain text."""
        return self._clean.text(text) if self._captures and text else None

    def data(self, value: Any) -> str | None:
        """A text as it is, anything else as JSON."""
        if isinstance(value, str):
            return self.words(value)
        return _json(self._clean.value(value)).decode() if self._captures and value is not None else None

    def conversation(self, session_id: str, messages: list[Any] | None) -> str | None:
        """The messages of a request. Only those that the last request of the session had not are worked on."""
        if not self._captures or not messages:
            return None
        known, parts = self._spoken.get(session_id, ([], []))
        same = 0
        for old, new in zip(known, messages, strict=False):
            if old is not new and old != new:
                break
            same += 1
        parts = parts[:same] + [_json(self._message(message)) for message in messages[same:]]
        self._spoken[session_id] = messages, parts
        return (b"[" + b",".join(parts) + b"]").decode()

    def answer(self, message: Any) -> str | None:
        """The message of a model."""
        return _json(self._message(to_plain(message))).decode() if self._captures and message is not None else None

    def forget(self, session_id: str) -> None:
        """The session makes no more requests."""
        self._spoken.pop(session_id, None)

    def _message(self, message: Any) -> Any:
        if not isinstance(message, dict):
            return self._clean.value(message)
        fields = cast("dict[str, Any]", message).items()
        return self._clean.value({name: item for name, item in fields if item is not None and name not in self._hidden})


def parameters(request: dict[str, Any] | None, max_tokens: int | None) -> Parameters:
    """How the model was asked to answer; what a request is too large to be shown with is left out."""
    body: dict[str, Any] = (request or {}).get("body") or {}
    found: Parameters = {"max_tokens": max_tokens} if max_tokens else {}
    for name in _PARAMETERS:
        value = body.get(name)
        if isinstance(value, dict):
            inner = cast("dict[str, Any]", value).items()
            found.update({f"{name}.{part}": item for part, item in inner if isinstance(item, str | int | float)})
        elif isinstance(value, list):
            found[name] = [str(item) for item in cast("list[Any]", value)]
        elif value is not None:
            found[name] = value
    return found


def _json(value: Any) -> bytes:
    return msgspec.json.encode(value)
