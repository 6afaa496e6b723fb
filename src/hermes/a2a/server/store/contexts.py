"""Sessions of contexts: each context of a caller is one session of the agent, with one turn at a time."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections import OrderedDict
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from hermes.a2a.server.store.database import Database
from hermes.host import Host
from hermes.http_server.principals import Principal, Principals, workspace_of

#: Contexts whose session is kept in memory; that of others is read.
_MOST_KNOWN = 10_000

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
        self._lock = threading.Lock()
        self._locks: dict[ContextKey, tuple[asyncio.Lock, int]] = {}
        self._known: OrderedDict[ContextKey, str] = OrderedDict()

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
        known = self._known.get(context)
        if known is not None or is_new:
            return known
        query = "SELECT session_id FROM contexts WHERE owner = ? AND context_id = ?"
        found = await self._database.run(lambda connection: connection.execute(query, context).fetchone())
        if found is None:
            return None
        self._remember(context, found[0])
        return found[0]

    async def find(self, session_id: str) -> ContextKey | None:
        """The context that a session belongs to."""
        query = "SELECT owner, context_id FROM contexts WHERE session_id = ?"
        return await self._database.run(lambda connection: connection.execute(query, (session_id,)).fetchone())

    def store(self, context: ContextKey, session_id: str) -> None:
        """Store the session of a context, before its first message is accepted. Blocking."""
        row = (*context, session_id)

        def write(connection: sqlite3.Connection) -> None:
            connection.execute("INSERT OR REPLACE INTO contexts VALUES (?, ?, ?)", row)

        self._database.transact(write)
        self._remember(context, session_id)

    def _remember(self, context: ContextKey, session_id: str) -> None:
        with self._lock:
            self._known[context] = session_id
            self._known.move_to_end(context)
            if len(self._known) > _MOST_KNOWN:
                self._known.popitem(last=False)

    def workspace(self, principal: Principal) -> Path:
        """The folder that a caller works in: that of the configuration, or its own below the home."""
        return workspace_of(principal, self._host.home, self._host.cwd)

    def _adopt(self) -> None:
        """Give the sessions of older versions, which had no principal, to their callers."""
        query = "SELECT owner, session_id FROM contexts"
        owners = self._database.transact(lambda connection: connection.execute(query).fetchall())
        if self._host.sessions.assign({session_id: owner for owner, session_id in owners}):
            self._host.search.discard()  # it has them as the owner's
