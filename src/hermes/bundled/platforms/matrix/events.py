"""Events of Matrix rooms: which ones are messages for us, and what they say. No I/O."""

from __future__ import annotations

import re
from typing import Any, cast
from urllib.parse import quote

from hermes.surfaces.gateway.platforms.api import as_object, as_size, as_text
from hermes.surfaces.gateway.platforms.receiving import ReceivedFile, ReceivedMessage

_TEXT_KINDS = ("m.text", "m.emote")
_FILE_KINDS = ("m.image", "m.file", "m.audio", "m.video")


def read_event(
    room: str, event: dict[str, Any], own_user: str, *, is_direct: bool, require_mention: bool
) -> ReceivedMessage | None:
    """The message in an event, or ``None`` when it is not for us: an edit, a redacted one, a notice, or room talk.

    An edit of a message is never a second message, and a redacted one has no content left.
    """
    content = as_object(event.get("content"))
    event_id, sender = event.get("event_id"), event.get("sender")
    if event.get("type") != "m.room.message" or not isinstance(event_id, str) or not isinstance(sender, str):
        return None
    relation = as_object(content.get("m.relates_to"))
    kind, body = content.get("msgtype"), content.get("body")
    if sender == own_user or relation.get("rel_type") == "m.replace" or not isinstance(body, str):
        return None
    file: ReceivedFile | None = None
    if kind in _FILE_KINDS:
        file = _file(content, body)
        # With a file name of its own, the body is what the sender says about the file.
        is_caption = isinstance(content.get("filename"), str) and content.get("filename") != body
        text = body if is_caption else "" if file is not None else f"[Attached, not readable here: {body[:200]}]"
    elif kind in _TEXT_KINDS:
        text = _without_quotation(body) if "m.in_reply_to" in relation else body
        text = f"* {sender} {text}" if kind == "m.emote" else text
    else:
        return None  # notices are from programs
    if not is_direct and require_mention:
        said = _said_to(own_user, text, content)
        if said is None:
            return None
        text = said
    thread = as_text(relation.get("event_id")) if relation.get("rel_type") == "m.thread" else ""
    text = text.strip()
    if not text and file is None:
        return None
    return ReceivedMessage(room, sender, text, event_id, is_direct, thread, () if file is None else (file,))


def _file(content: dict[str, Any], body: str) -> ReceivedFile | None:
    """The file of a message; ``None`` when it has none that can be fetched, such as an encrypted one."""
    found = re.fullmatch(r"mxc://([\w.:\[\]-]+)/([\w-]+)", str(content.get("url")))
    if found is None:
        return None
    info = as_object(content.get("info"))
    return ReceivedFile(
        name=as_text(content.get("filename")) or body[:200],
        media_type=as_text(info.get("mimetype")),
        size=as_size(info.get("size")),
        # The name of its server and its id there.
        place=f"/media/download/{quote(found[1], safe='')}/{quote(found[2], safe='')}",
    )


def _said_to(own_user: str, text: str, content: dict[str, Any]) -> str | None:
    """The text without our name at its beginning; ``None`` when we are not mentioned."""
    name = own_user[1:].partition(":")[0]
    found = re.match(rf"(?:{re.escape(own_user)}|@?{re.escape(name)})(?:[:,]\s*|\s+|$)", text, re.IGNORECASE)
    if found:
        return text[found.end() :]
    mentioned: object = as_object(content.get("m.mentions")).get("user_ids")
    is_mentioned = isinstance(mentioned, list) and own_user in cast("list[object]", mentioned)
    return text if is_mentioned or own_user in text else None


def _without_quotation(body: str) -> str:
    """A reply without the lines of the message that it answers, which older clients put first."""
    lines = body.split("\n")
    while lines and lines[0].startswith(">"):
        lines.pop(0)
    return "\n".join(lines).strip() or body
