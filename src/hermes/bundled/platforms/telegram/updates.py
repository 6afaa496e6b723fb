"""Updates of the Telegram Bot API: which ones are messages for us, and what they say. No I/O."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from hermes.surfaces.gateway.platforms.api import as_object, as_objects, as_size, as_text
from hermes.surfaces.gateway.platforms.receiving import ReceivedFile, ReceivedMessage

#: Most UTF-16 units of one message.
MAX_TEXT = 4096


@dataclass(frozen=True)
class Bot:
    """Who we are."""

    id: int
    username: str


def utf16_length(text: str) -> int:
    """The length of a text as Telegram counts it."""
    return len(text.encode("utf-16-le")) // 2


def read_message(update: dict[str, Any], bot: Bot, *, require_mention: bool = True) -> ReceivedMessage | None:
    """The message of an update, or ``None`` when it is not for us: an edit, a bot's, or talk in a group."""
    message = as_object(update.get("message"))
    chat, sender = as_object(message.get("chat")), as_object(message.get("from"))
    chat_id, user_id, message_id = chat.get("id"), sender.get("id"), message.get("message_id")
    if not all(isinstance(found, int) for found in (chat_id, user_id, message_id)):
        return None
    if sender.get("is_bot") or "sender_chat" in message:
        return None
    text = as_text(message.get("text")) or as_text(message.get("caption"))
    entities = message.get("entities") or message.get("caption_entities")
    is_private = chat.get("type") == "private"
    answered = as_object(message.get("reply_to_message"))
    if not is_private:
        said = _said_to(bot, text, entities)
        is_reply = as_object(answered.get("from")).get("id") == bot.id
        if said is None and require_mention and not is_reply:
            return None
        text = text if said is None else said
    files = tuple(_files(message))
    if not (text or files):
        return None
    thread = message.get("message_thread_id") if message.get("is_topic_message") else None
    name = " ".join(filter(None, (as_text(sender.get("first_name")), as_text(sender.get("last_name")))))
    return ReceivedMessage(
        chat_id=str(chat_id),
        chat_name=as_text(chat.get("title")) or name,
        is_direct=is_private,
        user_id=str(user_id),
        user_name=as_text(sender.get("username")) or name,
        message_id=str(message_id),
        text=_without_bot_name(text, bot),
        sent_at=as_size(message.get("date")),
        thread_id=str(thread) if isinstance(thread, int) else "",
        reply_to_id=str(answered["message_id"]) if isinstance(answered.get("message_id"), int) else "",
        reply_to_text=as_text(answered.get("text"))[:2000],
        files=files,
    )


def _said_to(bot: Bot, text: str, entities: object) -> str | None:
    """The text without the mention of us in it; ``None`` when there is none.

    Positions of entities count UTF-16 units.
    """
    encoded = text.encode("utf-16-le")
    for entity in as_objects(entities):
        start, length = entity.get("offset"), entity.get("length")
        if not (isinstance(start, int) and isinstance(length, int) and start >= 0 and length > 0):
            continue
        part = encoded[2 * start : 2 * (start + length)].decode("utf-16-le", "replace")
        kind = entity.get("type")
        if kind == "bot_command" and part.lower().endswith(f"@{bot.username.lower()}"):
            return text
        named = kind == "mention" and part.lower() == f"@{bot.username.lower()}"
        if named or (kind == "text_mention" and as_object(entity.get("user")).get("id") == bot.id):
            rest = encoded[: 2 * start] + encoded[2 * (start + length) :]
            return re.sub(r"^[\s,:]+", "", rest.decode("utf-16-le", "replace")).strip()
    return None


def _without_bot_name(text: str, bot: Bot) -> str:
    """``/stop@our_bot`` as ``/stop``."""
    return re.sub(rf"^(/\w+)@{re.escape(bot.username)}\b", r"\1", text, flags=re.IGNORECASE)


def _files(message: dict[str, Any]) -> Iterator[ReceivedFile]:
    sizes = as_objects(message.get("photo"))
    if sizes:
        yield _file(max(sizes, key=lambda one: as_size(one.get("file_size"))), "photo.jpg", "image/jpeg")
    for kind, name, media_type in (
        ("document", "file", "application/octet-stream"),
        ("audio", "audio.mp3", "audio/mpeg"),
        ("voice", "voice.ogg", "audio/ogg"),
        ("video", "video.mp4", "video/mp4"),
        ("sticker", "sticker.webp", "image/webp"),
    ):
        if isinstance(message.get(kind), dict):
            yield _file(as_object(message[kind]), name, media_type)


def _file(found: dict[str, Any], name: str, media_type: str) -> ReceivedFile:
    own = re.sub(r"[\x00-\x1f/\\:]", "_", as_text(found.get("file_name"))).strip(". ")[-100:]
    return ReceivedFile(
        name=own or name,
        media_type=as_text(found.get("mime_type")) or media_type,
        size=as_size(found.get("file_size")),
        place=as_text(found.get("file_id")),
    )
