"""The gateway's sessions as hooks and adapters see them, under the names that published plugins use."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from hermes.surfaces.gateway.adapter import SessionSource
from hermes.surfaces.gateway.store.inbox import ChatRow, Inbox

#: Messages of a chat that are kept for its next turn.
_MAX_AMBIENT = 50


class ChatSession(msgspec.Struct, frozen=True):
    """The session of a conversation."""

    session_key: str
    session_id: str


class SessionStore:
    """Finds the sessions of conversations, and keeps what was said to others for the next turn."""

    def __init__(self, inbox: Inbox, open_chat: Callable[[SessionSource], ChatRow]) -> None:
        """``open_chat`` gives the conversation that a source belongs to, with a session."""
        self._inbox = inbox
        self._open_chat = open_chat
        self._ambient: dict[str, deque[str]] = {}

    def get_or_create_session(self, source: SessionSource, **_: Any) -> ChatSession:
        """The session of the conversation that a source belongs to."""
        row = self._open_chat(source)
        return ChatSession(row.key, row.session_id)

    def peek_session_id(self, session_key: str) -> str | None:
        """The id of the session of a conversation, if it has one."""
        row = self._inbox.chat(session_key)
        return None if row is None else row.session_id

    def append_to_transcript(self, session_id: str, message: Mapping[str, Any], **_: Any) -> None:
        """Add a message that is not answered. The model sees it with the next turn of the session."""
        content = message.get("content")
        if isinstance(content, str) and content.strip():
            self._ambient.setdefault(session_id, deque(maxlen=_MAX_AMBIENT)).append(content)

    def take_ambient(self, session_id: str) -> str:
        """What was added since the last turn."""
        said = self._ambient.pop(session_id, None)
        return "Said in this chat since the last answer:\n" + "\n".join(said) if said else ""

    def update_session(self, session_key: str, **_: Any) -> None:
        """Accepted; a conversation is stored with every message."""

    def _ensure_loaded(self) -> None:
        """Accepted; conversations are read when they are needed."""

    @property
    def _entries(self) -> Mapping[str, ChatSession]:
        return {row.key: ChatSession(row.key, row.session_id) for row in self._inbox.chats()}
