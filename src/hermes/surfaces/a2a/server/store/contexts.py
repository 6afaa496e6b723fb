"""Sessions of contexts: each context of a caller is one session of the agent, with one turn at a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from hermes.base.http_server.principals import Principal, Principals, workspace_of
from hermes.base.scope import new_session_id
from hermes.host import Host
from hermes.journal.store.connection import JournalConnection

#: A conversation: the owner and the context id, never the context id alone.
ContextKey = tuple[str, str]


_STORE = (
    "INSERT INTO a2a_contexts (owner, context_id, session_id) VALUES (?, ?, ?) "
    "ON CONFLICT (owner, context_id) DO UPDATE SET owner = excluded.owner RETURNING session_id"
)


def store_context(connection: JournalConnection, context: ContextKey) -> str:
    """The session of a context, inside a transaction; a new one when it has none yet."""
    return connection.execute(_STORE, (*context, new_session_id())).fetchall()[0][0]


class ContextSessions:
    """The sessions of all contexts, which are stored with their first task; a lock for each that has a turn here."""

    def __init__(self, host: Host, principals: Principals) -> None:
        self._host = host
        for principal in principals:
            self.workspace(principal)  # a wrong setting is reported at the start
        #: Each as long as it is used.
        self._locks: WeakValueDictionary[ContextKey, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def turn(self, context: ContextKey) -> AsyncGenerator[None]:
        """The lock of a context; others wait in the order in which they came."""
        lock = self._locks.setdefault(context, asyncio.Lock())
        async with lock:
            yield

    async def session_id(self, context: ContextKey) -> str | None:
        """The id of the session of a context, if it has one."""
        found = await self._find("SELECT session_id FROM a2a_contexts WHERE owner = ? AND context_id = ?", context)
        return None if found is None else found[0]

    async def begin(self, context: ContextKey) -> str:
        """Store a session for a context that may have none; the id of its session."""
        store = self._host.store
        return await self._host.workers.run(
            lambda: store.write_soon(lambda connection: store_context(connection, context))
        )

    async def find(self, session_id: str) -> ContextKey | None:
        """The context that a session belongs to."""
        return await self._find("SELECT owner, context_id FROM a2a_contexts WHERE session_id = ?", (session_id,))

    async def _find(self, query: str, values: tuple[str, ...]) -> Any:
        store = self._host.store
        return await self._host.workers.run(
            lambda: store.read(lambda connection: connection.execute(query, values).fetchone())
        )

    def workspace(self, principal: Principal) -> Path:
        """The folder that a caller works in: that of the configuration, or its own below the home."""
        return workspace_of(principal, self._host.home, self._host.cwd)
