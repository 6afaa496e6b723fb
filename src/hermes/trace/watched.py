"""The sessions that are being watched: what is known of each so far."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from hermes.trace.clean import Cleaner
from hermes.trace.conversation import Conversation
from hermes.trace.draft import SessionDraft, TurnDraft


class Watched:
    """Drafts by session, for whoever holds the lock."""

    def __init__(self, clean: Cleaner, clock: Callable[[], float]) -> None:
        self.clean = clean
        self.clock = clock
        self.lock = threading.RLock()
        self.sessions: dict[str, SessionDraft] = {}
        #: What each session's last request looked like.
        self.conversations: dict[str, Conversation] = {}

    def session(self, session_id: str) -> SessionDraft:
        """The draft of a session, a new one when nothing was heard of it before."""
        draft = self.sessions.get(session_id)
        if draft is None:
            draft = self.sessions[session_id] = SessionDraft(session_id, self.clock())
        return draft

    def forget(self, session_id: str) -> None:
        """Drop a session with its descendants."""
        draft = self.sessions.pop(session_id, None)
        self.conversations.pop(session_id, None)
        for child in draft.children if draft is not None else ():
            self.forget(child.id)

    def begin_turn(self, session: SessionDraft, turn_id: str, task_id: str, user_message: Any) -> TurnDraft:
        """A turn begins, or one that a process left unfinished goes on."""
        if session.turn is not None:  # its end was never told
            session.turn.close("interrupted", self.clock())
            session.end_turn()
        session.ended_at = None
        session.turn = TurnDraft(turn_id, task_id, user_message, self.clock())
        return session.turn

    def turn_of(self, session_id: str, turn_id: str) -> TurnDraft | None:
        """The turn in hand, when that is the one; a call may end after its turn, and is then too late."""
        session = self.sessions.get(session_id)
        turn = session.turn if session is not None else None
        return turn if turn is not None and turn.id == turn_id else None
