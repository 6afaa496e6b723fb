"""Session leases: one runner writes to a session at a time, with the epoch as a fencing token."""

from __future__ import annotations

import msgspec

from hermes.base.errors import LeaseLost, SessionBusy, SessionNotFound
from hermes.journal.bodies import clean_text
from hermes.journal.runner import Runner
from hermes.journal.store.connection import JournalConnection, now
from hermes.journal.store.port import Store

_ADVANCE = (
    "UPDATE sessions SET head_seq = head_seq + ? WHERE id = ? AND epoch = ? AND runner = ? RETURNING head_seq - ?, "
    "(SELECT e.chain FROM events e WHERE e.session_id = sessions.id AND e.seq = sessions.head_seq - ?)"
)
#: Only when it is free, or from the owner that was found.
_TAKE = (
    "UPDATE sessions SET runner = ?, epoch = epoch + 1, updated_at = ?, provider = CASE model WHEN '' THEN ? "
    "ELSE provider END, model = CASE model WHEN '' THEN ? ELSE model END WHERE id = ? AND coalesce(runner, '') "
    "IN ('', ?) RETURNING epoch, head_seq"
)


class SessionInfo(msgspec.Struct, frozen=True):
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
    #: The permission mode that the user chose for it, if any.
    mode: str = ""


class Lease(msgspec.Struct, frozen=True):
    """The right to write to a session. ``epoch`` is the fencing token: a higher one ends the lease."""

    session_id: str
    runner: str
    epoch: int
    #: The number of the last event of the session when the lease was taken.
    head_seq: int = 0

    def advance(self, connection: JournalConnection, count: int) -> tuple[int, bytes | None]:
        """Reserve the numbers of the next events: the last one that is taken, and the chain of that event.

        One statement checks the fencing token and counts on. Raises ``LeaseLost`` when the lease has ended.
        """
        rows = connection.execute(_ADVANCE, (count, self.session_id, self.epoch, self.runner, count, count)).fetchall()
        if not rows:
            raise LeaseLost(
                f"session {self.session_id} was taken over or deleted by another process; nothing more was written here"
            )
        return rows[0]


def is_stored(connection: JournalConnection, session_id: str) -> bool:
    """Whether a session is there."""
    return connection.execute("SELECT 1 FROM sessions WHERE id = ?", (session_id,)).fetchone() is not None


def create_session(connection: JournalConnection, runner: Runner | None, session: SessionInfo, title: str) -> Lease:
    """Add a session that this runner owns; None leaves it to the first one that takes it."""
    at = now(connection)
    values = (session.id, session.parent_id, session.parent_call, session.platform, title, session.cwd)
    values = (*values, session.provider, session.model, session.principal, session.mode, runner and runner.id)
    connection.execute(
        "INSERT INTO sessions (id, parent_id, parent_call, platform, title, cwd, provider, model, principal, mode, "
        "runner, epoch, created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1, ?, ?)",
        (*(value and clean_text(value) for value in values), at, at),
    )
    return Lease(session.id, runner.id if runner else "", 1)


def take_lease(
    connection: JournalConnection, runner: Runner, session_id: str, endpoint: tuple[str, str] = ("", "")
) -> Lease:
    """Make this runner the owner with a new fencing token, which ends earlier leases. Refused while the owner lives.

    ``endpoint`` is the provider and the model, for a session that has none recorded.
    """
    owner = runner.id
    while True:
        values = (runner.id, now(connection), *endpoint, session_id, owner)
        rows: list[tuple[int, int]] = connection.execute(_TAKE, values).fetchall()
        if rows:
            return Lease(session_id, runner.id, *rows[0])
        # Where several write at a time, another process may take it again after the owner was asked for.
        owner = refuse_if_busy(connection, runner, session_id)


def release_lease(store: Store, runner: Runner, session_id: str) -> None:
    """Release a session that this runner owns. Nothing to do for one it does not."""
    # Nothing is lost without a sync: a runner that is gone holds nothing.
    store.write_soon(lambda connection: release(connection, runner, session_id))


def release(connection: JournalConnection, runner: Runner, session_id: str) -> None:
    """The same inside a transaction that is open."""
    connection.execute("UPDATE sessions SET runner = NULL WHERE id = ? AND runner = ?", (session_id, runner.id))


def refuse_if_busy(connection: JournalConnection, runner: Runner, session_id: str) -> str:
    """The id of the owner, which may be empty. Raises when it is another living runner, or without such a session."""
    row = connection.execute("SELECT runner FROM sessions WHERE id = ?", (session_id,)).fetchone()
    if row is None:
        raise SessionNotFound(f"no session {session_id!r}; 'hermes sessions list' shows those there are")
    owner: str | None = row[0]
    if owner is not None and owner != runner.id and runner.is_alive(owner):
        raise SessionBusy(
            f"session {session_id} is in use by {runner.describe(owner)}; wait for it to end or start a new session"
        )
    return owner or ""
