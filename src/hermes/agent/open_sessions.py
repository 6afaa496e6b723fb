"""The conversations that are open in this process, by id."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hermes.agent.session import Session


class OpenSessions:
    """What tools and plugins find the conversation of a call in."""

    def __init__(self) -> None:
        self._sessions: dict[str, Session] = {}

    def keep(self, session: Session) -> Session:
        """Add a conversation; those that were closed since are forgotten."""
        # Copied first: children come and go on other threads.
        for key, known in list(self._sessions.items()):
            if known.closed:
                self._sessions.pop(key, None)
        self._sessions[session.id] = session
        return session

    def get(self, session_id: str) -> Session | None:
        """The conversation with that id, if it is open."""
        session = self._sessions.get(session_id)
        return None if session is None or session.closed else session

    def forget(self, session_id: str) -> None:
        """Drop one conversation; no harm when it is not there."""
        self._sessions.pop(session_id, None)

    def clear(self) -> None:
        """Forget them all."""
        self._sessions.clear()

    def __iter__(self) -> Iterator[Session]:
        return iter(list(self._sessions.values()))

    def __len__(self) -> int:
        return len(self._sessions)
