"""Sessions of contexts: each context of a caller is one session of the agent, with one turn at a time."""

from __future__ import annotations

import asyncio
import sqlite3
from collections import OrderedDict
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from hermes.a2a.server.store.database import Database
from hermes.agent.session import Session
from hermes.errors import SessionNotFound
from hermes.host import Host
from hermes.http_server.principals import Principal, Principals, workspace_of

#: Sessions kept in memory between turns; others are read from the journal when they continue.
_MAX_OPEN = 500

#: Why the turn of a task that has ended is given up.
TASK_ENDED = "its task has ended"

#: A conversation: the owner and the context id, never the context id alone.
ContextKey = tuple[str, str]


class ContextSessions:
    """The sessions of all contexts, stored in ``a2a.db``; a lock for each context that has a turn."""

    def __init__(self, host: Host, database: Database, principals: Principals) -> None:
        self._host = host
        self._database = database
        self._principals = principals
        for principal in principals:
            self.workspace(principal)  # a wrong setting is reported at the start
        self._adopt()
        self._locks: dict[ContextKey, tuple[asyncio.Lock, int]] = {}
        self._open: OrderedDict[ContextKey, Session] = OrderedDict()

    @asynccontextmanager
    async def turn(self, context: ContextKey) -> AsyncGenerator[None]:
        """The lock of a context; others wait in the order in which they came."""
        lock, users = self._locks.get(context) or (asyncio.Lock(), 0)
        self._locks[context] = (lock, users + 1)
        try:
            async with lock:
                yield
        finally:
            lock, users = self._locks[context]
            if users == 1:
                del self._locks[context]
            else:
                self._locks[context] = (lock, users - 1)

    async def session_id(self, context: ContextKey, *, is_new: bool = False) -> str | None:
        """The id of the session of a context, if it has one."""
        session = self._open.get(context)
        if session is not None or is_new:
            return None if session is None else session.id
        query = "SELECT session_id FROM contexts WHERE owner = ? AND context_id = ?"
        found = await self._database.run(lambda connection: connection.execute(query, context).fetchone())
        return None if found is None else found[0]

    async def find(self, session_id: str) -> ContextKey | None:
        """The context that a session belongs to."""
        query = "SELECT owner, context_id FROM contexts WHERE session_id = ?"
        return await self._database.run(lambda connection: connection.execute(query, (session_id,)).fetchone())

    def store(self, context: ContextKey, session_id: str) -> None:
        """Store the session of a context, before its first message is accepted. Blocking."""
        row = (*context, session_id)

        def write(connection: sqlite3.Connection) -> None:
            connection.execute("INSERT OR REPLACE INTO contexts VALUES (?, ?, ?)", row)

        self._database.run_on_thread(write)

    def keep(self, context: ContextKey, session: Session) -> None:
        """Keep the session of a context open for its next turn, and free the memory of those not used for long."""
        self._open[context] = session
        self._open.move_to_end(context)
        if len(self._open) > _MAX_OPEN:
            self._unload_idle()

    def _unload_idle(self) -> None:
        idle = [known for known in self._open if known not in self._locks]
        for old in idle[: len(self._open) - _MAX_OPEN]:
            self._open.pop(old).unload()

    def workspace(self, principal: Principal) -> Path:
        """The folder that a caller works in: that of the configuration, or its own below the home."""
        return workspace_of(principal, self._host.home, self._host.cwd)

    def _adopt(self) -> None:
        """Give the sessions of older versions, which had no principal, to their callers."""
        query = "SELECT owner, session_id FROM contexts"
        owners = self._database.run_now(lambda connection: connection.execute(query).fetchall())
        if self._host.sessions.assign({session_id: owner for owner, session_id in owners}):
            self._host.search.discard()  # it has them as the owner's

    def open(self, session_id: str | None, owner: str, *, resumes: bool) -> Session:
        """The session with that id, or a new one of the caller, in its workspace. Blocking.

        An unfinished turn is closed, not repeated, because its task has ended; unless ``resumes`` says that it will be
        continued.
        """
        host, workspace = self._host, self.workspace(self._principals.named(owner))
        if session_id is None:
            return host.new_session(principal=owner, cwd=workspace)
        session = host.open_sessions.get(session_id)
        if session is not None:
            return session
        try:
            session = host.resume_session(session_id, cwd=workspace)
        except SessionNotFound:
            return host.new_session(principal=owner, cwd=workspace)
        if not resumes:
            session.abandon_open_turn(TASK_ENDED)
        return session
