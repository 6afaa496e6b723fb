"""Which conversation a request belongs to: the caller and its context, never the context alone."""

from __future__ import annotations

import asyncio
import sqlite3
from collections import OrderedDict
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial

from a2a.server.context import ServerCallContext

from hermes.a2a.server.store.database import Database
from hermes.agent.session import Session
from hermes.errors import SessionNotFound
from hermes.host import Host
from hermes.scope import Interrupt

#: Conversations kept in memory between their turns; the others are read from the journal when they go on.
_MOST_OPEN = 500

#: Where the state of a call says that its context was made for it.
_IS_NEW = "hermes.new_context"

Context = tuple[str, str]


def mark_new_context(call: ServerCallContext, *, is_new: bool) -> None:
    """Say whether the context was made for this call."""
    call.state[_IS_NEW] = is_new


def is_new_context(call: ServerCallContext) -> bool:
    """Whether nobody can have used the context before."""
    return bool(call.state.get(_IS_NEW))


class Conversations:
    """The sessions of callers' contexts. One turn at a time in each."""

    def __init__(self, host: Host, database: Database) -> None:
        self._host = host
        self._database = database
        self._locks: dict[Context, tuple[asyncio.Lock, int]] = {}
        self._open: OrderedDict[Context, Session] = OrderedDict()

    @asynccontextmanager
    async def turn(self, context: Context) -> AsyncGenerator[None]:
        """The right to work in a conversation; others wait in the order in which they came."""
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

    async def known(self, context: Context, *, is_new: bool = False) -> str | None:
        """The id of the session that a context had last."""
        session = self._open.get(context)
        if session is not None or is_new:
            return None if session is None else session.id
        query = "SELECT session_id FROM contexts WHERE owner = ? AND context_id = ?"
        found = await self._database.run(lambda connection: connection.execute(query, context).fetchone())
        return None if found is None else found[0]

    def keep(self, context: Context, session: Session, known: str | None) -> None:
        """Remember the session of a context, and let go of those that nobody has used for long."""
        self._open[context] = session
        self._open.move_to_end(context)
        if session.id != known:
            row = (*context, session.id)

            def write(connection: sqlite3.Connection) -> None:
                connection.execute("INSERT OR REPLACE INTO contexts VALUES (?, ?, ?)", row)

            self._database.run_soon(("context", *context), write)
        if len(self._open) > _MOST_OPEN:
            self._close_idle()

    def _close_idle(self) -> None:
        idle = [known for known in self._open if known not in self._locks]
        for old in idle[: len(self._open) - _MOST_OPEN]:
            self._host.workers.submit(partial(self._open.pop(old).close, "idle"))

    def open(self, session_id: str | None, *, goes_on: bool) -> Session:
        """The session with that id, or a new one. To be called on a thread that may wait.

        Unless the turn in hand ``goes_on``, one that a server left behind when it ended is closed, not repeated: its
        task is over.
        """
        host = self._host
        if session_id is None:
            return host.new_session()
        session = host.open_sessions.get(session_id)
        if session is not None:
            return session
        try:
            session = host.resume_session(session_id)
        except SessionNotFound:
            return host.new_session()
        if not goes_on:
            abandon_turn(host, session)
        return session


def abandon_turn(host: Host, session: Session) -> None:
    """Close the turn that a session has open, as interrupted. Nothing of it runs again."""
    last = host.sessions.last_turn(session.id)
    if last is not None and last["state"] == "running":
        interrupt = Interrupt()
        interrupt.cancel("its task is over")
        session.finish_open_turn(interrupt=interrupt)
