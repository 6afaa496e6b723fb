"""Session argument of commands: an id, its beginning, or none for the last session, looked up in the journal."""

from __future__ import annotations

from contextlib import closing

from hermes.base.config import hermes_home
from hermes.base.errors import SessionNotFound, did_you_mean
from hermes.journal.sessions import Sessions
from hermes.journal.store.port import Store, home_store

#: How many sessions are searched for an id similar to an unknown one.
_SEARCHED = 1_000


def open_store() -> closing[Store]:
    """The journal of the home, for a block."""
    return closing(home_store(hermes_home()))


def session_named(store: Store, name: str | None) -> str:
    """The full id for an id or its beginning; without one, the last session."""
    sessions = Sessions(store)
    if not name:
        latest = sessions.latest()
        if latest is None:
            raise SessionNotFound("no sessions yet; start one with: hermes chat --query TEXT")
        return latest.id
    try:
        return sessions.get(name).id
    except SessionNotFound as error:
        if not str(error).startswith("no session"):
            raise
        ids = [row.id for row in sessions.list(limit=_SEARCHED, children=True)]
        hint = did_you_mean(name, ids, otherwise="", then="'hermes trace list' shows all")
        raise SessionNotFound(f"no session {name!r}{hint}") from None
