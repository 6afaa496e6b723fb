"""Encoding of values in the journal: JSON, with large ones stored once under their hash."""

from __future__ import annotations

import sqlite3
from typing import Any, cast

import msgspec

from hermes.errors import JournalError

#: Bodies above this many characters are kept in ``blobs``, where equal ones share a row.
BLOB_THRESHOLD = 32_768
_REFERENCE = '{"$blob":"'


def to_json(value: object) -> str:
    """Encode plain data. Text that is not valid Unicode is repaired rather than refused."""
    try:
        return msgspec.json.encode(value).decode()
    except UnicodeEncodeError:
        return msgspec.json.encode(_repair(msgspec.to_builtins(value))).decode()
    except RecursionError:
        raise JournalError("a value is nested too deeply to be recorded; flatten it") from None


def clean_text(text: str) -> str:
    """The text as SQLite can hold it: file names and arguments may carry bytes that are no valid Unicode."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def pack(connection: sqlite3.Connection, session_id: str, text: str) -> str:
    """What to store for a JSON text: itself, or a reference to a blob when it is large.

    A text that looks like a reference becomes a blob too, so that a reference is always one of ours.
    """
    if len(text) <= BLOB_THRESHOLD and not text.startswith(_REFERENCE):
        return text
    import hashlib

    digest = hashlib.sha256(text.encode()).hexdigest()
    connection.execute("INSERT OR IGNORE INTO blobs VALUES (?, ?)", (digest, text))
    connection.execute("INSERT OR IGNORE INTO blob_uses VALUES (?, ?)", (session_id, digest))
    return f'{_REFERENCE}{digest}"}}'


def unpack(connection: sqlite3.Connection, text: str) -> Any:
    """The value behind a stored text."""
    if text.startswith(_REFERENCE):
        digest = text[len(_REFERENCE) : -2]
        text = connection.execute("SELECT data FROM blobs WHERE sha256 = ?", (digest,)).fetchone()[0]
    return msgspec.json.decode(text)


def drop_unused_blobs(connection: sqlite3.Connection) -> None:
    """Remove the blobs that no session uses any more."""
    connection.execute("DELETE FROM blobs WHERE sha256 NOT IN (SELECT sha256 FROM blob_uses)")


def message_text(message: dict[str, Any]) -> str:
    """The words of a message, without images and other parts."""
    content: str | list[dict[str, Any]] | None = message.get("content")
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content or () if part.get("text"))


def _repair(value: object) -> object:
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, dict):
        return {_repair(k): _repair(v) for k, v in cast("dict[object, object]", value).items()}
    if isinstance(value, list | tuple):
        return [_repair(item) for item in cast("list[object]", value)]
    return value
