"""The accepted requests of the API in the journal: idempotency keys, ids that clients know, and fingerprints."""

from __future__ import annotations

import time
from typing import Any, Literal

import msgspec
from msgspec.structs import astuple

from hermes.journal.bodies import clean_text, message_text, unpack
from hermes.journal.history.rows import TurnFacts, find_request, later_turns, messages_of
from hermes.journal.store.connection import JournalConnection, placeholders
from hermes.journal.store.port import Store

RequestKind = Literal["chat", "response", "run"]

#: How ids begin, by kind.
PREFIXES: dict[RequestKind, str] = {"chat": "chatcmpl-", "response": "resp_", "run": "run_"}

_COLUMNS = "id, principal, key, digest, session_id, fingerprint, document, created_at, deleted"


class ApiRequestRow(msgspec.Struct, frozen=True):
    """An accepted request. Its turn is that of the session with this id as the request key."""

    id: str
    principal: str
    #: The idempotency key of the client, if it sent one.
    key: str | None
    digest: str
    session_id: str
    fingerprint: str
    #: What the answer repeats of the request: the name of the model, the previous response …
    document: dict[str, Any]
    created_at: float
    deleted: bool = False

    @property
    def kind(self) -> RequestKind:
        """The endpoint that it came to."""
        found: list[RequestKind] = [kind for kind, prefix in PREFIXES.items() if self.id.startswith(prefix)]
        return found[0]


class ApiRequests:
    """The requests of one journal. Thread-safe, and safe between processes."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def add(self, row: ApiRequestRow) -> ApiRequestRow:
        """Store a request before its turn is accepted. One with the same idempotency key is returned instead.

        It is on disk when its turn is: the journal keeps the order of what is written.
        """

        def write(connection: JournalConnection) -> ApiRequestRow:
            if row.key is not None:
                found = _select(connection, "principal = ? AND key = ?", (row.principal, row.key))
                if found:
                    return found[0]
            *names, document, created_at, deleted = astuple(row)
            values = (*names, msgspec.json.encode(document).decode(), created_at, int(deleted))
            connection.execute(f"INSERT INTO api_requests ({_COLUMNS}) VALUES ({placeholders(values)})", values)
            return row

        return self._store.write_soon(write)

    def get(self, request_id: str, principal: str) -> ApiRequestRow | None:
        """The request with that id, if it is one of this caller."""
        return next(iter(self._find("id = ? AND principal = ?", clean_text(request_id), principal)), None)

    def with_key(self, principal: str, key: str) -> ApiRequestRow | None:
        """The request with that idempotency key."""
        return next(iter(self._find("principal = ? AND key = ?", principal, clean_text(key))), None)

    def with_fingerprint(self, principal: str, fingerprint: str) -> list[ApiRequestRow]:
        """The requests whose conversation was this one up to their message, newest first."""
        return self._find("principal = ? AND fingerprint = ?", principal, fingerprint)

    def _find(self, where: str, *values: str) -> list[ApiRequestRow]:
        return self._store.read(lambda connection: _select(connection, where, values))

    def delete(self, request_id: str) -> None:
        """Forget a response: it can no longer be read or continued. Its session stays."""
        query = "UPDATE api_requests SET deleted = 1 WHERE id = ?"
        self._store.write(lambda connection: connection.execute(query, (request_id,)))

    def drop(self, request_id: str) -> None:
        """Remove a request whose turn was not accepted."""
        query = "DELETE FROM api_requests WHERE id = ?"
        self._store.write(lambda connection: connection.execute(query, (request_id,)))

    def drop_old(self, keep_days: int) -> None:
        """Remove the requests that were made too long ago."""
        query = "DELETE FROM api_requests WHERE created_at < ?"
        moment = time.time() - keep_days * 86_400
        self._store.write(lambda connection: connection.execute(query, (moment,)))

    # -- their turns --------------------------------------------------------------------------------------------

    def turn(self, row: ApiRequestRow) -> TurnFacts | None:
        """The turn of a request; None when it was never accepted, or its session was deleted."""
        return self._store.read(lambda connection: find_request(connection, row.session_id, row.id))

    def later_turns(self, turn: TurnFacts) -> tuple[int, int]:
        """How many turns of its conversation came after a turn, and how many wait to be started."""
        return self._store.read(lambda connection: later_turns(connection, turn))

    def said_in(self, turn: TurnFacts) -> list[str]:
        """What the assistant said in a turn, step by step."""

        def read(connection: JournalConnection) -> list[str]:
            said = messages_of(connection, turn.session_id, turn.ordinal, role="assistant")
            texts = [message_text(unpack(connection, one.body)) for one in said if one.turn == turn.ordinal]
            return [text for text in texts if text]

        return self._store.read(read)


def _select(connection: JournalConnection, where: str, values: tuple[object, ...]) -> list[ApiRequestRow]:
    query = f"SELECT {_COLUMNS} FROM api_requests WHERE {where} ORDER BY created_at DESC LIMIT 50"
    rows = connection.execute(query, values).fetchall()
    return [
        ApiRequestRow(*row[:6], document=msgspec.json.decode(row[6]), created_at=row[7], deleted=bool(row[8]))
        for row in rows
    ]
