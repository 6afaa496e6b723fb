"""Encoding of values in the journal: JSON, with large ones stored once under their hash."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from hermes.base.errors import JournalError
from hermes.base.sanitize.surrogates import encodable
from hermes.journal.store.connection import JournalConnection, answers_at_once

#: Bodies above this many characters are kept in ``blobs``, where equal ones share a row.
BLOB_THRESHOLD = 32_768
#: Placeholders: for a blob, for further fields that are in a blob, and for a body that was removed on purpose.
_REFERENCE, _SHARED, _REDACTED = '{"$blob":"', '{"$shared":"', '{"$redacted":"'
_RESERVED = (_REFERENCE, _SHARED, _REDACTED)
#: A blob with the digests of fields, by name.
_FIELDS = '{"$fields":{'
_DIGEST_CHARS = 64
_PUT_BLOB = "INSERT INTO blobs (sha256, data) VALUES (?, ?) ON CONFLICT DO NOTHING"
_USE_BLOB = "INSERT INTO blob_uses (session_id, sha256) VALUES (?, ?) ON CONFLICT DO NOTHING"


def prepare_struct(kind: Any) -> None:
    """Let msgspec inspect a type now, while its module is imported, and not at its first use.

    Otherwise the thread that first uses a struct inspects it, and another thread that uses the struct meanwhile ends
    the process with a segmentation fault: two turns that are taken up at the same time are enough.
    """
    msgspec.json.Decoder(kind)


class MissingBlob(ValueError):
    """A body refers to a text that is not there."""


def to_json(value: object) -> str:
    """Encode plain data. Text that is not valid Unicode is repaired rather than refused."""
    try:
        return msgspec.json.encode(value).decode()
    except UnicodeEncodeError:
        return msgspec.json.encode(encodable(msgspec.to_builtins(value))).decode()
    except RecursionError:
        raise JournalError("a value is nested too deeply to be recorded; flatten it") from None


def clean_text(text: str) -> str:
    """The text as a database can hold it: file names and arguments may carry bytes that are no Unicode, or NUL."""
    text = text.replace("\0", "?") if "\0" in text else text
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def pack(connection: JournalConnection, session_id: str, text: str) -> str:
    """What to store for a JSON text: itself, or a reference to a blob when it is large.

    A text that looks like a reference becomes a blob too, so that a reference is always one of ours.
    """
    if len(text) <= BLOB_THRESHOLD and not text.startswith(_RESERVED):
        return text
    return f'{_REFERENCE}{put_blob(connection, text, session_id)}"}}'


def put_blob(connection: JournalConnection, text: str, session_id: str = "") -> str:
    """Store a text once for all that use it, and that the session does, if one is given; returns its digest."""
    digest = _digest(text)
    if session_id:
        _put_used(connection, session_id, [(digest, text)])
    else:
        connection.execute(_PUT_BLOB, (digest, text))
    return digest


def _digest(text: str) -> str:
    import hashlib  # loads OpenSSL, which only a turn needs

    return hashlib.sha256(text.encode()).hexdigest()


def _put_used(connection: JournalConnection, session_id: str, blobs: list[tuple[str, str]]) -> None:
    """Store a blob that a session uses, the last of these, and those that it names, each as digest and text."""
    use = (session_id, blobs[-1][0])
    if not answers_at_once(connection):
        connection.executemany(_PUT_BLOB, blobs)
        connection.execute(_USE_BLOB, use)
    elif connection.execute(_USE_BLOB, use).rowcount:  # else the session has it, with those that it names
        connection.executemany(_PUT_BLOB, blobs)


def pack_shared(connection: JournalConnection, session_id: str, text: str, shared: Mapping[str, str]) -> str:
    """What to store for the JSON text of an object with further fields: one reference, whatever they are.

    Each of the fields is a blob of its own, because they do not change together.
    """
    blobs = [(_digest(part), part) for part in shared.values()]
    fields = ",".join(f'"{name}":"{digest}"' for name, (digest, _) in zip(shared, blobs, strict=True))
    frame = f"{_FIELDS}{fields}}}}}"
    digest = _digest(frame)
    _put_used(connection, session_id, [*blobs, (digest, frame)])
    return f'{_SHARED}{digest}"{"" if text == "{}" else ","}{text[1:]}'


def unpack(connection: JournalConnection, text: str, known: dict[str, dict[str, Any]] | None = None) -> Any:
    """The value behind a stored text. Raises ``ValueError`` when it cannot be read or a blob is missing.

    ``known`` has the fields that several texts share, by digest, once they were read: those must not be changed then.
    """
    if text.startswith(_REFERENCE):
        text = blob_text(connection, text[len(_REFERENCE) : -2])
        return msgspec.json.decode(text)
    value = msgspec.json.decode(text)
    if text.startswith(_SHARED):
        shared = value.pop("$shared")
        fields = known.get(shared) if known is not None else None
        if fields is None:
            digests = _fields_in(blob_text(connection, shared))
            fields = {name: msgspec.json.decode(blob_text(connection, digest)) for name, digest in digests.items()}
            if known is not None:
                known[shared] = fields
        value.update(fields)
    return value


def is_plain(stored: str) -> bool:
    """Whether a stored body is the JSON text itself."""
    return not stored.startswith(_RESERVED)


def is_redacted(stored: str) -> bool:
    """Whether a stored body was removed on purpose."""
    return stored.startswith(_REDACTED)


def blob_in(column: str) -> str:
    """A condition for the blob ``b`` to which the body in a column refers."""
    begin = len(_REFERENCE)
    digest = f"substr({column}, {begin + 1}, {_DIGEST_CHARS})"
    return f"b.sha256 = {digest} AND substr({column}, 1, {begin}) = '{_REFERENCE}'"


def _fields_in(blob: str) -> dict[str, str]:
    """The digests in a blob of fields; none in any other."""
    if not blob.startswith(_FIELDS):
        return {}
    try:
        return msgspec.json.decode(blob, type=dict[str, dict[str, str]])["$fields"]
    except msgspec.DecodeError:
        return {}  # a text that only begins like one


def blob_text(connection: JournalConnection, digest: str) -> str:
    """A stored text. Raises ``MissingBlob``."""
    row = connection.execute("SELECT data FROM blobs WHERE sha256 = ?", (digest,)).fetchone()
    if row is None:
        raise MissingBlob(f"the stored text {digest} is missing")
    return row[0]


def body_digest(stored: str) -> str:
    """The SHA-256 of a stored body. Where a digest replaces the body, it is that one."""
    for mark in (_REFERENCE, _REDACTED):
        if stored.startswith(mark):
            return stored[len(mark) : -2]
    return _digest(stored)


def blobs_of(connection: JournalConnection, stored: str) -> list[str]:
    """The digests of the blobs that a stored body refers to."""
    if stored.startswith(_REFERENCE):
        return [stored[len(_REFERENCE) : -2]]
    if not stored.startswith(_SHARED):
        return []
    digest = stored[len(_SHARED) : len(_SHARED) + _DIGEST_CHARS]
    return [digest, *_fields_in(blob_text(connection, digest)).values()]


def drop_unused_blobs(connection: JournalConnection) -> None:
    """Remove the blobs that nothing uses any more."""
    used = "sha256 IN (SELECT sha256 FROM blob_uses)"
    frames = connection.execute(
        f"SELECT data FROM blobs WHERE {used} AND substr(data, 1, {len(_FIELDS)}) = ?", (_FIELDS,)
    )
    fields = {digest for (data,) in frames.fetchall() for digest in _fields_in(data).values()}
    unused = connection.execute(
        f"SELECT sha256 FROM blobs WHERE NOT {used} "
        "AND sha256 NOT IN (SELECT content FROM outside_calls WHERE content IS NOT NULL)"
    ).fetchall()
    connection.executemany("DELETE FROM blobs WHERE sha256 = ?", [row for row in unused if row[0] not in fields])


def message_text(message: dict[str, Any]) -> str:
    """The words of a message, without images and other parts."""
    content: str | list[dict[str, Any]] | None = message.get("content")
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content or () if part.get("text"))
