"""The chat that a conversation is in, as the gateway has recorded it."""

from __future__ import annotations

from msgspec import Struct, json

from hermes.journal.store.port import Store


class _MessageSource(Struct):
    chat_id: str = ""
    thread_id: str | None = None


_source = json.Decoder(_MessageSource)


def chat_of_session(store: Store, session_id: str) -> str:
    """The destination of answers to the chat of a session, such as ``irc:#ops``; empty when it has none."""
    query = "SELECT platform, source FROM gateway_chats WHERE session_id = ? ORDER BY last_at DESC LIMIT 1"
    row = store.read(lambda connection: connection.execute(query, (session_id,)).fetchone())
    if row is None:
        return ""
    source = _source.decode(row[1])
    return f"{row[0]}:{source.chat_id}{f':{source.thread_id}' if source.thread_id else ''}"
