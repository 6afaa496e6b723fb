"""Users that the owner let in, and the pairing codes with which others ask for it."""

from __future__ import annotations

import hashlib
import hmac
import math
import os
import secrets
import time
from typing import Any, Literal

import msgspec

from hermes.base.errors import HermesError
from hermes.journal.bodies import clean_text
from hermes.journal.store.connection import JournalConnection
from hermes.journal.store.port import Store

Role = Literal["user", "approver", "owner"]

#: Letters and digits that cannot be taken for one another.
CODE_ALPHABET = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"
CODE_LENGTH = 8
CODE_SECONDS = 3_600.0
#: Users of a platform that may wait for the owner at the same time. A further one takes the place of the user who
#: waits longest, so that no one can keep others out.
MAX_PENDING = 10
#: Seconds between two codes for one user, and those in which a user's place cannot be taken.
REQUEST_SECONDS = 600.0
#: Wrong codes after which approving is locked, and for how long.
MAX_FAILURES = 5
LOCKOUT_SECONDS = 3_600.0


class GatewayUser(msgspec.Struct, frozen=True):
    """A user of a platform that the owner let in."""

    platform: str
    user_id: str
    name: str
    role: Role
    approved_at: float


class PairingRequest(msgspec.Struct, frozen=True):
    """A user that asked to be let in. Of the code only a digest is kept."""

    platform: str
    user_id: str
    name: str
    chat_id: str
    requested_at: float


class GatewayUsers:
    """The users and pairing codes of one journal. Every call blocks; thread-safe."""

    def __init__(self, store: Store) -> None:
        self._store = store
        #: When each user asked for the first time within an hour: asking again makes no one newer.
        self._first_asked: dict[tuple[str, str], float] = {}

    def all(self) -> list[GatewayUser]:
        query = "SELECT platform, user_id, name, role, approved_at FROM gateway_users ORDER BY platform, user_id"
        return [GatewayUser(*row) for row in self._store.read(lambda c: c.execute(query).fetchall())]

    def pending(self) -> list[PairingRequest]:
        """The requests whose code is still valid, the oldest first."""
        query = (
            "SELECT platform, user_id, name, chat_id, requested_at FROM gateway_pairings WHERE requested_at > ? "
            "ORDER BY requested_at"
        )
        since = time.time() - CODE_SECONDS
        return [PairingRequest(*row) for row in self._store.read(lambda c: c.execute(query, (since,)).fetchall())]

    def request(self, platform: str, user_id: str, name: str, chat_id: str) -> str | None:
        """A new code for a user; None when one was given lately, or when too many asked within the last minutes.

        A code is valid for an hour, but only the first ten minutes of it are sure: then a newcomer may take the place.
        """
        code = "".join(secrets.choice(CODE_ALPHABET) for _ in range(CODE_LENGTH))
        salt = os.urandom(16).hex()
        now = time.time()
        first_asked = {one: at for one, at in self._first_asked.items() if at > now - CODE_SECONDS}

        def write(connection: JournalConnection) -> bool:
            connection.execute("DELETE FROM gateway_pairings WHERE requested_at <= ?", (now - CODE_SECONDS,))
            query = "SELECT user_id, requested_at FROM gateway_pairings WHERE platform = ?"
            waiting: dict[str, float] = dict(connection.execute(query, (platform,)).fetchall())
            own = waiting.pop(user_id, None)
            if own is not None and own > now - REQUEST_SECONDS:
                return False
            leaving = [user_id]
            if len(waiting) >= MAX_PENDING:
                since = {one: min(at, first_asked.get((platform, one), at)) for one, at in waiting.items()}
                oldest = min(since, key=lambda one: since[one])
                if since[oldest] > now - REQUEST_SECONDS:
                    return False
                leaving.append(oldest)
            for one in leaving:
                connection.execute("DELETE FROM gateway_pairings WHERE platform = ? AND user_id = ?", (platform, one))
            connection.execute(
                "INSERT INTO gateway_pairings (platform, user_id, name, chat_id, salt, digest, requested_at) "
                "VALUES (?, ?, ?, ?, ?, ?, ?)",
                (platform, user_id, clean_text(name), chat_id, salt, _digest(salt, code), now),
            )
            return True

        if not self._store.write(write):
            return None
        self._first_asked = {(platform, user_id): now, **first_asked}
        return code

    def approve(self, code: str, role: Role = "user") -> GatewayUser:
        """Let in the user that has this code. Raises ``HermesError`` for a wrong one, and after too many of them."""
        wanted = code.strip().upper().replace("-", "").replace(" ", "")
        now = time.time()

        def write(connection: JournalConnection) -> GatewayUser | str:
            failures, since = connection.execute(
                "SELECT coalesce(max(failures), 0), coalesce(max(since), 0.0) FROM gateway_lockouts"
            ).fetchone()
            if failures >= MAX_FAILURES and now - since < LOCKOUT_SECONDS:
                minutes = math.ceil((since + LOCKOUT_SECONDS - now) / 60)
                return f"{failures} wrong codes were tried; approving is locked for {minutes} more minutes"
            found = None
            query = "SELECT platform, user_id, name, salt, digest FROM gateway_pairings WHERE requested_at > ?"
            for platform, user_id, name, salt, digest in connection.execute(query, (now - CODE_SECONDS,)).fetchall():
                if hmac.compare_digest(_digest(salt, wanted), digest):
                    found = GatewayUser(platform, user_id, name, role, now)
            connection.execute("DELETE FROM gateway_lockouts")
            if found is None:
                counted = failures + 1 if now - since < LOCKOUT_SECONDS else 1
                connection.execute("INSERT INTO gateway_lockouts (failures, since) VALUES (?, ?)", (counted, now))
                return (
                    "no request has this code, or it is older than an hour; 'hermes gateway pair list' shows who asked"
                )
            connection.execute(
                "DELETE FROM gateway_pairings WHERE platform = ? AND user_id = ?", (found.platform, found.user_id)
            )
            _write_user(connection, found)
            return found

        result = self._store.write(write)
        if isinstance(result, str):
            raise HermesError(result)
        return result

    def add(self, platform: str, user_id: str, role: Role, name: str = "") -> GatewayUser:
        """Let in a user without a code, or change the role of one."""
        user = GatewayUser(platform, user_id, clean_text(name), role, time.time())
        self._store.write(lambda connection: _write_user(connection, user))
        return user

    def revoke(self, platform: str, user_id: str) -> bool:
        """Let a user in no longer; False when there is no such user."""

        def write(connection: JournalConnection) -> bool:
            change = "DELETE FROM gateway_users WHERE platform = ? AND user_id = ?"
            return connection.execute(change, (platform, user_id)).rowcount > 0

        return self._store.write(write)


def _write_user(connection: JournalConnection, user: GatewayUser) -> None:
    values: tuple[Any, ...] = (user.platform, user.user_id, user.name, user.role, user.approved_at)
    connection.execute(
        "INSERT INTO gateway_users (platform, user_id, name, role, approved_at) VALUES (?, ?, ?, ?, ?) "
        "ON CONFLICT (platform, user_id) DO UPDATE SET role = excluded.role, approved_at = excluded.approved_at",
        values,
    )


def _digest(salt: str, code: str) -> str:
    return hashlib.sha256(f"{salt}{code}".encode()).hexdigest()
