"""How values become text in the journal: JSON, with large ones stored once under their hash."""

from __future__ import annotations

import hashlib
import sqlite3
from typing import Any, cast

import msgspec

#: Bodies above this many characters are kept in ``blobs``, where equal ones share a row.
BLOB_THRESHOLD = 32_768
_BLOB_PREFIX = '{"$blob":"'


def to_json(value: object) -> str:
    """Encode plain data. Text that is not valid Unicode is repaired rather than refused."""
    try:
        return msgspec.json.encode(value).decode()
    except UnicodeEncodeError:
        return msgspec.json.encode(_repair(value)).decode()


def pack(connection: sqlite3.Connection, value: object) -> str:
    """The text to store for a value; a large one goes to ``blobs`` and leaves a reference."""
    text = to_json(value)
    if len(text) <= BLOB_THRESHOLD:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()
    connection.execute("INSERT OR IGNORE INTO blobs (sha256, data) VALUES (?, ?)", (digest, text))
    return f'{_BLOB_PREFIX}{digest}"}}'


def unpack(connection: sqlite3.Connection, text: str) -> Any:
    """The value behind a stored text."""
    if text.startswith(_BLOB_PREFIX):
        digest = text[len(_BLOB_PREFIX) : -2]
        row = connection.execute("SELECT data FROM blobs WHERE sha256 = ?", (digest,)).fetchone()
        text = row[0]
    return msgspec.json.decode(text)


def message_text(message: dict[str, Any]) -> str:
    """The words of a message, without images and other parts."""
    content: str | list[dict[str, Any]] | None = message.get("content")
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content or () if part.get("text"))


def _repair(value: object) -> object:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_repair(k): _repair(v) for k, v in cast("dict[object, object]", value).items()}
    if isinstance(value, list | tuple):
        return [_repair(item) for item in cast("list[object]", value)]
    return value
