"""Approvals in the journal: what was asked, what was answered, and which answer a call has used up."""

from __future__ import annotations

import sqlite3
import time
from dataclasses import dataclass, fields
from typing import Literal

import msgspec

from hermes.errors import JournalError
from hermes.journal.bodies import clean_text
from hermes.journal.store import Store

ApprovalState = Literal["pending", "granted", "denied", "consumed", "revoked"]

#: The answers that let a call run. All others refuse it.
GRANTS = ("once", "session", "always", "smart_approve")

#: What is kept of a very long command; the arguments themselves are with the step.
_LONGEST_SUBJECT = 4_000


@dataclass(frozen=True, slots=True)
class ApprovalRow:
    """One question and its answer, bound to a step of a turn and to the digest of the exact call."""

    id: str
    session_id: str
    turn_id: str
    key: str
    tool: str
    digest: str
    subject: str
    rules: tuple[str, ...]
    description: str
    surface: str
    state: ApprovalState = "pending"
    choice: str | None = None
    reason: str = ""
    created_at: float = 0.0
    answered_at: float | None = None
    consumed_at: float | None = None


_COLUMNS = ", ".join(field.name for field in fields(ApprovalRow))
_INSERT = f"INSERT INTO approvals ({_COLUMNS}) VALUES ({', '.join('?' * len(fields(ApprovalRow)))})"
_IN_SESSION = "state = 'granted' AND choice = 'session'"


class ApprovalRows:
    """The approvals of one journal."""

    def __init__(self, store: Store) -> None:
        self._store = store

    # -- the life of a question ---------------------------------------------------------------------------------

    def ask(self, row: ApprovalRow) -> bool:
        """Put a question on record. False when its session is not on record, so that nothing can be bound to it."""
        values = (
            *(row.id, row.session_id, row.turn_id, clean_text(row.key), clean_text(row.tool), row.digest),
            *(
                clean_text(row.subject)[:_LONGEST_SUBJECT],
                msgspec.json.encode(list(map(clean_text, row.rules))).decode(),
            ),
            *(clean_text(row.description), row.surface, "pending", None, "", time.time(), None, None),
        )

        def write(connection: sqlite3.Connection) -> bool:
            if connection.execute("SELECT 1 FROM sessions WHERE id = ?", (row.session_id,)).fetchone() is None:
                return False
            connection.execute(_INSERT, values)
            return True

        return self._store.write(write)

    def ask_again(self, approval_id: str, surface: str) -> None:
        """The question goes to somebody else, or was left open by a process that died."""
        query = "UPDATE approvals SET surface = ? WHERE id = ? AND state = 'pending'"
        self._store.write(lambda connection: connection.execute(query, (surface, approval_id)))

    def answer(self, approval_id: str, choice: str, reason: str = "") -> ApprovalRow:
        """Answer a question. The first answer counts: what is returned is the row as it stands, whoever answered."""
        state = "granted" if choice in GRANTS else "denied"
        values = (state, choice, clean_text(reason), time.time(), approval_id)

        def write(connection: sqlite3.Connection) -> ApprovalRow:
            connection.execute(
                "UPDATE approvals SET state = ?, choice = ?, reason = ?, answered_at = ? "
                "WHERE id = ? AND state = 'pending'",
                values,
            )
            found = _select(connection, "id = ?", (approval_id,))
            if not found:
                raise JournalError(
                    f"there is no approval {approval_id!r}; 'hermes approvals list' shows those there are"
                )
            return found[0]

        return self._store.write(write)

    def withdraw(self, approval_id: str, reason: str) -> None:
        """Nobody will answer this question any more, and the answer is not no either."""
        query = "UPDATE approvals SET state = 'revoked', reason = ?, answered_at = ? WHERE id = ? AND state = 'pending'"
        values = (clean_text(reason), time.time(), approval_id)
        self._store.write(lambda connection: connection.execute(query, values))

    def consume(self, approval_id: str) -> bool:
        """Use an answer up, once. False when it was used or revoked before: the call must not run on it."""
        query = "UPDATE approvals SET state = 'consumed', consumed_at = ? WHERE id = ? AND state = 'granted'"
        values = (time.time(), approval_id)
        return self._store.write(lambda connection: connection.execute(query, values).rowcount) == 1

    # -- what counts --------------------------------------------------------------------------------------------

    def find(self, *, session_id: str, turn_id: str, key: str, digest: str) -> ApprovalRow | None:
        """What an earlier run of the step left: an open question, or an answer that nothing has used up.

        Nobody having answered in time is no answer.
        """
        where = (
            "session_id = ? AND turn_id = ? AND key = ? AND digest = ? AND "
            "(state IN ('pending', 'granted') OR (state = 'denied' AND choice != 'timeout'))"
        )
        values = (session_id, turn_id, key, digest)
        found = self._store.read(lambda connection: _select(connection, where, values, limit=1))
        return found[0] if found else None

    def session_rules(self, session_id: str) -> frozenset[str]:
        """The rules that may be broken in a conversation without asking."""
        where = f"session_id = ? AND {_IN_SESSION}"
        found = self._store.read(lambda connection: _select(connection, where, (session_id,)))
        return frozenset(rule for row in found for rule in row.rules)

    def ancestors(self, session_id: str) -> list[str]:
        """The conversations that delegated to this one, the nearest first."""
        query = (
            "WITH RECURSIVE line(id, parent_id) AS (SELECT id, parent_id FROM sessions WHERE id = ? UNION "
            "SELECT s.id, s.parent_id FROM sessions s JOIN line ON s.id = line.parent_id) SELECT id FROM line"
        )
        rows = self._store.read(lambda connection: connection.execute(query, (session_id,)).fetchall())
        return [found for (found,) in rows[1:]]

    # -- for people ---------------------------------------------------------------------------------------------

    def grants(self) -> list[ApprovalRow]:
        """What is approved for the rest of some conversation, newest first."""
        return self._store.read(lambda connection: _select(connection, _IN_SESSION, ()))

    def pending(self) -> list[ApprovalRow]:
        """The questions that still wait for an answer, newest first: their turns have not ended."""
        where = "state = 'pending' AND turn_id IN (SELECT id FROM turns WHERE state = 'running')"
        return self._store.read(lambda connection: _select(connection, where, ()))

    def recent(self, limit: int) -> list[ApprovalRow]:
        """The questions answered last, newest first."""
        return self._store.read(lambda connection: _select(connection, "answered_at IS NOT NULL", (), limit=limit))

    def revoke(self, *, rule: str = "", approval_id: str = "", session_id: str = "") -> list[ApprovalRow]:
        """Take back what was approved and not used up, and open questions: all of it, or what one of these names."""

        def write(connection: sqlite3.Connection) -> list[ApprovalRow]:
            found = [
                row
                for row in _select(connection, "state IN ('pending', 'granted')", ())
                if (not rule or rule in row.rules)
                and (not approval_id or row.id == approval_id)
                and (not session_id or row.session_id == session_id)
            ]
            query = "UPDATE approvals SET state = 'revoked', answered_at = coalesce(answered_at, ?) WHERE id = ?"
            connection.executemany(query, [(time.time(), row.id) for row in found])
            return found

        return self._store.write(write)


def _select(
    connection: sqlite3.Connection, where: str, values: tuple[str, ...], *, limit: int = -1
) -> list[ApprovalRow]:
    query = f"SELECT {_COLUMNS} FROM approvals WHERE {where} ORDER BY created_at DESC, rowid DESC LIMIT ?"
    return [_row(values) for values in connection.execute(query, (*values, limit))]


def _row(values: tuple[object, ...]) -> ApprovalRow:
    named = dict(zip((field.name for field in fields(ApprovalRow)), values, strict=True))
    return ApprovalRow(**{**named, "rules": tuple(msgspec.json.decode(str(named["rules"]), type=list[str]))})  # pyright: ignore[reportArgumentType]
