"""Events of Slack: which ones are messages for us, and what they say. No I/O."""

from __future__ import annotations

import hashlib
import hmac
import html
import re
from collections.abc import Mapping
from typing import Any

from hermes.surfaces.gateway.platforms.api import as_object, as_objects, as_size, as_text
from hermes.surfaces.gateway.platforms.receiving import ReceivedFile, ReceivedMessage

#: Most characters of one message in Markdown.
MAX_TEXT = 12_000
#: How far the time stamp of a request may be from ours, in seconds.
_TOLERANCE = 300.0

_LINK = re.compile(r"<([^<>|]+)(?:\|([^<>]*))?>")


def read_event(payload: dict[str, Any], own_user: str, *, reply_in_thread: bool = True) -> ReceivedMessage | None:
    """The message in an event, or ``None`` when it is not for us: an edit, a bot's, or talk in a channel.

    A mention in a channel arrives twice, as ``message`` and as ``app_mention``; only the latter counts.
    """
    event = as_object(payload.get("event"))
    kind, channel, user, ts = (as_text(event.get(name)) for name in ("type", "channel", "user", "ts"))
    is_direct = kind == "message" and event.get("channel_type") == "im"
    if not (is_direct or kind == "app_mention") or not (channel and user and ts):
        return None
    if event.get("bot_id") or user == own_user or event.get("subtype") not in (None, "file_share", "thread_broadcast"):
        return None
    text = plain_text(as_text(event.get("text")), own_user)
    files = tuple(map(_file, as_objects(event.get("files"))))
    if not text and not files:
        return None
    thread = as_text(event.get("thread_ts")) or ("" if is_direct or not reply_in_thread else ts)
    team = as_text(payload.get("team_id"))
    return ReceivedMessage(channel, user, as_command(text), ts, is_direct, thread, files, scope_id=team)


def _file(found: dict[str, Any]) -> ReceivedFile:
    return ReceivedFile(
        name=as_text(found.get("name")) or "file",
        media_type=as_text(found.get("mimetype")),
        size=as_size(found.get("size")),
        place=as_text(found.get("url_private_download")) or as_text(found.get("url_private")),
    )


def read_slash_command(payload: dict[str, Any]) -> ReceivedMessage | None:
    """A slash command of the app as a message: ``/hermes stop`` is ``/stop``."""
    channel, user, trigger = (as_text(payload.get(name)) for name in ("channel_id", "user_id", "trigger_id"))
    if not (channel and user and trigger):
        return None
    text = as_text(payload.get("text")).strip() or "help"
    is_direct = channel.startswith("D")
    text = text if text.startswith("/") else f"/{text}"
    return ReceivedMessage(channel, user, text, trigger, is_direct, scope_id=as_text(payload.get("team_id")))


def as_command(text: str) -> str:
    """``!stop`` as ``/stop``: Slack keeps what begins with a slash to itself."""
    return f"/{text[1:]}" if re.match(r"![a-z]", text) else text


def plain_text(text: str, own_user: str) -> str:
    """The text of a message without a mention of us, with links and names as people write them."""

    def shown(found: re.Match[str]) -> str:
        target, label = found[1], found[2]
        if target == f"@{own_user}":
            return ""
        if target.startswith(("@", "#")):
            return f"{target[0]}{label or target[1:]}"
        if target.startswith("!"):
            return f"@{label or target[1:].partition('^')[0]}"
        return target if not label or label == target else f"{label} ({target})"

    return html.unescape(_LINK.sub(shown, text)).strip()


def is_signed(secret: str, headers: Mapping[str, str], body: bytes, now: float) -> bool:
    """Whether Slack signed a request, not long ago."""
    sent_at = headers.get("x-slack-request-timestamp", "")
    if not (sent_at.isdecimal() and sent_at.isascii() and len(sent_at) <= 12) or abs(now - int(sent_at)) > _TOLERANCE:
        return False
    expected = hmac.new(secret.encode(), f"v0:{sent_at}:".encode() + body, hashlib.sha256).hexdigest()
    return hmac.compare_digest(f"v0={expected}".encode(), headers.get("x-slack-signature", "").encode())
