"""What a caller sends, as the content of a user message: text, data and files."""

from __future__ import annotations

import base64
import logging
from collections.abc import Sequence
from typing import Any, cast

import msgspec
from a2a.types import Message as A2AMessage
from a2a.types import Part, Task
from google.protobuf import json_format

from hermes.a2a.server.redaction import visible
from hermes.agent.images.attachments import image_type
from hermes.errors import HermesError

log = logging.getLogger("hermes.a2a")

#: What a message may hold; the card says so too.
INPUT_MODES = (
    *("text/plain", "text/markdown", "text/csv", "text/html", "text/xml", "application/json", "application/xml"),
    *("application/yaml", "image/png", "image/jpeg", "image/gif", "image/webp"),
)
#: What is told of a task that the message refers to.
_LONGEST_REFERENCE = 4_000
_FETCH_SECONDS = 20.0

Content = str | list[dict[str, Any]]


class UnusableMessage(HermesError):
    """The message cannot be given to the model. Its words are for the caller."""


def content_of(message: A2AMessage, related: Sequence[Task], *, max_file_bytes: int, allow_private: bool) -> Content:
    """The content of the user message. Files may have to be fetched, so this can take a while."""
    texts: list[str] = []
    images: list[dict[str, Any]] = []
    for part in message.parts:
        kind = part.WhichOneof("content")
        if kind == "text":
            texts.append(part.text)
        elif kind == "data":
            texts.append(_json(part))
        elif kind is not None:
            data = part.raw if kind == "raw" else _fetch(part.url, max_file_bytes, allow_private)
            _add_file(part.filename, data, max_file_bytes, texts, images)
    texts += [_reference(task) for task in related]
    text = "\n\n".join(piece for piece in texts if piece.strip())
    if not text and not images:
        raise UnusableMessage("The message is empty: send text, data or a file.")
    if not images:
        return text
    return [*([{"type": "text", "text": text}] if text else []), *images]


def _add_file(name: str, data: bytes, limit: int, texts: list[str], images: list[dict[str, Any]]) -> None:
    shown = f"The file {name!r}" if name else "A file"
    if len(data) > limit:
        raise UnusableMessage(f"{shown} has {len(data):,} bytes; at most {limit:,} are taken.")
    kind = image_type(data)
    if kind is not None:
        images.append({"type": "image_url", "image_url": {"url": f"data:{kind};base64,{_encoded(data)}"}})
        return
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise UnusableMessage(f"{shown} is neither text nor a PNG, JPEG, GIF or WebP image.")
    texts.append(f"{shown} holds:\n{text}")


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _fetch(url: str, limit: int, allow_private: bool) -> bytes:
    from hermes.http.fetch import fetch  # few messages name an address

    try:
        return fetch(url, max_bytes=limit, timeout=_FETCH_SECONDS, allow_private=allow_private).data
    except (OSError, ValueError) as error:
        log.warning("a file of a message could not be fetched: %s", error)
        # Why is for the log alone: it would tell a caller what there is in the private network.
        raise UnusableMessage("A file of the message cannot be fetched from its address.") from None


def _json(part: Part) -> str:
    # In order, because the SDK keeps none: the same data must read the same every time.
    return msgspec.json.encode(_whole(json_format.MessageToDict(part.data)), order="sorted").decode()


def _whole(value: Any) -> Any:
    """Numbers come as floats whatever they were; those without a fraction are shown without one."""
    if isinstance(value, dict):
        return {name: _whole(item) for name, item in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_whole(item) for item in cast("list[Any]", value)]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def _reference(task: Task) -> str:
    text = "\n".join(part.text for artifact in task.artifacts for part in artifact.parts if part.text)
    text = visible(text)
    if len(text) > _LONGEST_REFERENCE:
        text = f"{text[:_LONGEST_REFERENCE]}…"
    return f"The message refers to task {task.id}, which answered:\n{text}" if text else ""
