"""Content in and out: a caller's parts (text, data, files) as a user message, and written files as artifacts."""

from __future__ import annotations

import base64
import logging
import mimetypes
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import msgspec
from a2a.types import Message as A2AMessage
from a2a.types import Part, Task
from google.protobuf import json_format, struct_pb2

from hermes.agent.events import TurnResult, changed_paths
from hermes.agent.images.attachments import image_type
from hermes.base.errors import HermesError
from hermes.base.http_server.outgoing import redacted
from hermes.base.sanitize import Redactor
from hermes.tools.files.guard import FileGuard

log = logging.getLogger("hermes.a2a")

#: The media types of messages, also on the card.
INPUT_MODES = tuple(
    (
        "text/plain text/markdown text/csv text/html text/xml application/json application/xml "
        "application/yaml image/png image/jpeg image/gif image/webp"
    ).split()
)
#: The media type of data; a caller that accepts it gets an answer that is JSON as data too.
JSON = "application/json"
OUTPUT_MODES = ("text/plain", JSON)
#: Added to the message of a caller that accepts nothing else.
JSON_ONLY = "The caller accepts only JSON: answer with one JSON document and nothing else."
#: Longest text of a referenced task.
_MAX_REFERENCE_CHARS = 4_000
_FETCH_SECONDS = 20.0
_FENCED = re.compile(r"```(?:json)?\n(.*)\n```", re.DOTALL)
#: Files sent for one turn.
_MAX_FILES = 20

#: The content of a user message.
UserContent = str | list[dict[str, Any]]


class UnusableMessage(HermesError):
    """The message cannot be sent to the model. The text is for the caller."""


def content_of(
    message: A2AMessage, related: Sequence[Task], *, max_file_bytes: int, allow_private: bool
) -> UserContent:
    """The content of the user message. Blocking: files may have to be fetched."""
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
        raise UnusableMessage(f"{shown} has {len(data):,} bytes; at most {limit:,} are allowed.")
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
    from hermes.base.http.fetch import fetch  # few messages name an address

    try:
        return fetch(url, max_bytes=limit, timeout=_FETCH_SECONDS, allow_private=allow_private).data
    except (OSError, ValueError) as error:
        log.warning("a file of a message could not be fetched: %s", error)
        # The reason is only logged: it would show a caller what is in the private network (SSRF).
        raise UnusableMessage("A file of the message cannot be fetched from its address.") from None


def _json(part: Part) -> str:
    # Sorted, because the SDK keeps no order: the same data must be the same text every time.
    return msgspec.json.encode(_integers(json_format.MessageToDict(part.data)), order="sorted").decode()


def _integers(value: Any) -> Any:
    """All numbers arrive as floats; those without a fraction become integers."""
    if isinstance(value, dict):
        return {name: _integers(item) for name, item in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_integers(item) for item in cast("list[Any]", value)]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def _reference(task: Task) -> str:
    text = "\n".join(part.text for artifact in task.artifacts for part in artifact.parts if part.text)
    text = redacted(text)
    if len(text) > _MAX_REFERENCE_CHARS:
        text = f"{text[:_MAX_REFERENCE_CHARS]}…"
    return f"The message refers to task {task.id}, which answered:\n{text}" if text else ""


# -- data and files out ---------------------------------------------------------------------------------------------


def data_part(answer: str) -> Part | None:
    """An answer that is a JSON document, alone or in a code block, as data; None when it is none."""
    text = answer.strip()
    fenced = _FENCED.fullmatch(text)
    try:
        document: object = msgspec.json.decode(fenced[1] if fenced else text)
        if not isinstance(document, dict | list):
            return None
        data = struct_pb2.Value()
        json_format.ParseDict(cast("dict[str, Any]", document), data)  # a list is fine too
    except (msgspec.DecodeError, json_format.ParseError, UnicodeError, RecursionError, OverflowError):
        return None
    return Part(data=data, media_type=JSON)


def written_files(result: TurnResult, folder: Path, guard: FileGuard, redactor: Redactor, max_bytes: int) -> list[Part]:
    """The files that the tools of a turn wrote in the folder, without those that are guarded or hold a secret.

    Their names are relative to the folder.
    """
    folder = folder.resolve()
    paths = dict.fromkeys((folder / name).resolve() for name in changed_paths(result.tool_calls))
    found: list[Part] = []
    for path in paths:
        if len(found) == _MAX_FILES or not path.is_relative_to(folder) or guard.refusal(path):
            continue
        data = _read(path, max_bytes)
        if data is None:
            continue
        if _has_secret(data, redactor):
            log.warning("%s was not sent: it holds a secret", path)
            continue
        kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
        found.append(Part(raw=data, filename=path.relative_to(folder).as_posix(), media_type=kind))
    return found


def _read(path: Path, limit: int) -> bytes | None:
    """The data; None when it is gone, not a file, or too long."""
    try:
        if not path.is_file():
            return None
        with path.open("rb") as file:
            data = file.read(limit + 1)
    except OSError as error:
        log.warning("%s was not sent: %s", path, error.strerror or type(error).__name__)
        return None
    if len(data) > limit:
        log.warning("%s was not sent: it has more than a2a.max_file_bytes (%d)", path, limit)
        return None
    return data


def _has_secret(data: bytes, redactor: Redactor) -> bool:
    text = data.decode("utf-8", "replace")
    return redactor.redact(text) != text
