"""Session leases: one runner writes to a session at a time, with the epoch as a fencing token."""

from __future__ import annotations

import sqlite3
import time
from dataclasses import dataclass

from hermes.errors import LeaseLost, SessionBusy, SessionNotFound
from hermes.journal.bodies import clean_text
from hermes.journal.runner import Runner
from hermes.journal.store import Store


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """The facts about a session that are stored with its first turn."""

    id: str
    cwd: str
    platform: str = "cli"
    provider: str = ""
    model: str = ""
    parent_id: str | None = None
    parent_call: str | None = None
    #: Empty names it after its first message.
    title: str = ""
    #: The caller it belongs to; empty is the owner of the home.
    principal: str = ""


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to write to a session. ``epoch`` is the fencing token: a higher one ends the lease."""

    session_id: str
    runner: str
    epoch: int

    def last_seq(self, connection: sqlite3.Connection) -> int:
        """The number of the session's last event. Raises ``LeaseLost`` when the lease has ended."""
        row = connection.execute(
            "SELECT (SELECT max(seq) FROM events WHERE session_id = s.id) FROM sessions s "
            "WHERE s.id = ? AND s.epoch = ? AND s.runner = ?",
            (self.session_id, self.epoch, self.runner),
        ).fetchone()
        if row is None:
            raise LeaseLost(
                f"session {self.session_id} was taken over or deleted by another process; nothing more was written here"
            )
        return row[0] or 0


def create_session(connection: sqlite3.Connection, runner: Runner, session: SessionInfo, title: str) -> Lease:
    """Add a session that this runner owns."""
    now = time.time()
    values = (session.id, session.parent_id, session.parent_call, session.platform, title, session.cwd)
    values = (*values, session.provider, session.model, session.principal, runner.id)
    connection.execute(
        "INSERT INTO sessions (id, parent_id, parent_call, platform, title, cwd, provider, model, principal, runner, "
        "epoch, created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1, ?, ?)",
        (*(value and clean_text(value) for value in values), now, now),
    )
    return Lease(session.id, runner.id, 1)


def take_lease(connection: sqlite3.Connection, runner: Runner, session_id: str) -> Lease:
    """Make this runner the owner with a new fencing token, which ends earlier leases. Refused while the owner lives."""
    refuse_if_busy(connection, runner, session_id)
    epoch: int = connection.execute(
        "UPDATE sessions SET runner = ?, epoch = epoch + 1, updated_at = ? WHERE id = ? RETURNING epoch",
        (runner.id, time.time(), session_id),
    ).fetchone()[0]
    return Lease(session_id, runner.id, epoch)


def release_lease(store: Store, runner: Runner, session_id: str) -> None:
    """Release a session that this runner owns. Nothing to do for one it does not."""
    query = "UPDATE sessions SET runner = NULL WHERE id = ? AND runner = ?"
    store.write(lambda connection: connection.execute(query, (session_id, runner.id)))


def refuse_if_busy(connection: sqlite3.Connection, runner: Runner, session_id: str) -> None:
    """Raise when another living runner holds the session, or when there is no such session."""
    row = connection.execute("SELECT runner FROM sessions WHERE id = ?", (session_id,)).fetchone()
    if row is None:
        raise SessionNotFound(f"no session {session_id!r}; 'hermes sessions list' shows those there are")
    owner: str | None = row[0]
    if owner is not None and owner != runner.id and runner.is_alive(owner):
        raise SessionBusy(
            f"session {session_id} is in use by {runner.describe(owner)}; wait for it to end or start a new session"
        )
