"""Events: appended under a lease, numbered without gaps, hash-chained, and never changed afterwards.

The chain of an event is the SHA-256 of the chain before it and of its own row, with the digest of the body in place of
the body. So a changed, missing, added or moved event is found, while a body that was redacted on purpose, and left its
digest behind, breaks nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from hermes.journal.bodies import body_digest, pack, pack_shared
from hermes.journal.leases import Lease
from hermes.journal.store.connection import JournalConnection

_INSERT = (
    "INSERT INTO events (session_id, seq, turn_id, kind, key, effect, body, at, epoch, chain) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_encode = msgspec.json.Encoder().encode


class NewEvent(NamedTuple):
    """An event before it has a number. ``text`` is its body as JSON."""

    kind: str
    key: str
    effect: str | None
    text: str
    at: float
    #: Further fields of the body as JSON, by name, which are the same in many events and are stored once.
    shared: Mapping[str, str] = {}


def append_events(connection: JournalConnection, lease: Lease, turn_id: str, events: Sequence[NewEvent]) -> None:
    """Append events to a session. Raises ``LeaseLost`` when the lease has ended."""
    session_id, epoch = lease.session_id, lease.epoch
    seq, chain = lease.advance(connection, len(events))
    link = chain or first_link(session_id)
    rows: list[tuple[object, ...]] = []
    for kind, key, effect, text, at, shared in events:
        seq += 1
        body = pack_shared(connection, session_id, text, shared) if shared else pack(connection, session_id, text)
        link = next_link(link, seq, turn_id, kind, key, effect, body_digest(body), at, epoch)
        rows.append((session_id, seq, turn_id, kind, key, effect, body, at, epoch, link))
    connection.executemany(_INSERT, rows)


def first_link(session_id: str) -> bytes:
    """What the chain of a session begins with, so that events of another session do not fit into it."""
    from hashlib import sha256  # loads OpenSSL, which only a turn needs

    return sha256(b"hermes events 1\0" + session_id.encode()).digest()


def next_link(
    previous: bytes,
    seq: int,
    turn_id: str,
    kind: str,
    key: str,
    effect: str | None,
    digest: str,
    at: float,
    epoch: int | None,
) -> bytes:
    """The chain of an event, given that of the event before it."""
    import hashlib  # not ``from hashlib``, which costs more than the digest when it is repeated

    return hashlib.sha256(previous + _encode((seq, turn_id, kind, key, effect, digest, at, epoch))).digest()


def chain_events(connection: JournalConnection, session_id: str) -> None:
    """Chain the events of a session that was copied as a whole: the copies have ids of their own."""
    rows = connection.execute(
        "SELECT seq, turn_id, kind, key, effect, body, at, epoch FROM events WHERE session_id = ? ORDER BY seq",
        (session_id,),
    ).fetchall()
    link, links = first_link(session_id), list[tuple[bytes, str, int]]()
    for seq, turn_id, kind, key, effect, body, at, epoch in rows:
        link = next_link(link, seq, turn_id, kind, key, effect, body_digest(body), at, epoch)
        links.append((link, session_id, seq))
    connection.executemany("UPDATE events SET chain = ? WHERE session_id = ? AND seq = ?", links)
