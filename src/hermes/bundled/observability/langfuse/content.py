"""Content of observations: JSON without secrets, and only as much as the settings allow."""

from __future__ import annotations

from typing import Any, cast

import msgspec
from msgspec import UNSET, UnsetType

from hermes.base.sanitize import Redactor
from hermes.contract.response import to_plain
from hermes.trace.clean import Cleaner

from .settings import LangfuseSettings

#: What a provider wants back with the next request, opaque to everyone else.
_OPAQUE = ("carry", "provider_state")
_REASONING = ("reasoning", "reasoning_content", "reasoning_details")
#: Fields of a request that say how the model is to answer, and nothing of what is said.
_PARAMETERS = tuple(
    (
        "temperature top_p top_k min_p seed stop frequency_penalty presence_penalty max_tokens "
        "max_completion_tokens max_output_tokens reasoning_effort reasoning thinking verbosity tool_choice "
        "parallel_tool_calls service_tier stream"
    ).split()
)


class ObservationContent:
    """Texts for observations. Every method returns None when there is nothing to send or content is off."""

    def __init__(self, settings: LangfuseSettings, redactor: Redactor) -> None:
        self._captures = settings.capture_content
        self._hidden = _OPAQUE if settings.capture_reasoning else (*_OPAQUE, *_REASONING)
        self._clean = Cleaner(redactor)
        #: Redacts what is sent even when content is not.
        self.redact = redactor.redact
        #: The last request of each session: its messages, and each of them as JSON.
        self._requests: dict[str, tuple[list[Any], list[bytes]]] = {}

    def text(self, text: str | None) -> str | None:
        """A plain text."""
        return self._clean.text(text) if self._captures and text else None

    def data(self, value: Any) -> str | None:
        """A text as it is, anything else as JSON."""
        if isinstance(value, str):
            return self.text(value)
        return _json(self._clean.value(value)).decode() if self._captures and value is not None else None

    def conversation(self, session_id: str, messages: list[Any]) -> str | None:
        """The messages of a request. Only those that the last request of the session had not are encoded."""
        if not self._captures or not messages:
            return None
        known, parts = self._requests.get(session_id, ([], []))
        same = 0
        for old, new in zip(known, messages, strict=False):
            if old is not new and old != new:
                break
            same += 1
        parts = parts[:same] + [_json(self._message(message)) for message in messages[same:]]
        self._requests[session_id] = messages, parts
        return (b"[" + b",".join(parts) + b"]").decode()

    def answer(self, message: Any) -> str | None:
        """The message of a model."""
        if not self._captures or message is UNSET or message is None:
            return None
        return _json(self._message(to_plain(message))).decode()

    def forget(self, session_id: str) -> None:
        """The session makes no more requests."""
        self._requests.pop(session_id, None)

    def _message(self, message: Any) -> Any:
        if not isinstance(message, dict):
            return self._clean.value(message)
        fields = cast("dict[str, Any]", message).items()
        return self._clean.value({name: item for name, item in fields if item is not None and name not in self._hidden})


def parameters(request: dict[str, Any] | UnsetType, max_tokens: int | None) -> dict[str, Any]:
    """How the model was asked to answer."""
    body: dict[str, Any] = (request or {}).get("body") or {}
    found: dict[str, Any] = {"max_tokens": max_tokens} if max_tokens else {}
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
