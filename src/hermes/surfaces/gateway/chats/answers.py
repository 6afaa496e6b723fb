"""Messages as the agent gets them, and its results as the messages that a chat gets."""

from __future__ import annotations

import base64
import logging
from pathlib import Path
from typing import Any

from hermes.agent.events import TurnResult
from hermes.agent.images.attachments import image_type
from hermes.base.sanitize import Redactor
from hermes.service.dispatch.port import TurnRequest
from hermes.surfaces.gateway.access import workspace_path
from hermes.surfaces.gateway.adapter import MessageEvent, PlatformEntry, split_text
from hermes.surfaces.gateway.chats.questions import outgoing
from hermes.surfaces.gateway.chats.work import ChatServices, ChatWork
from hermes.surfaces.gateway.store.attachments import NOT_STORED
from hermes.surfaces.gateway.store.inbox import ChatRow
from hermes.surfaces.gateway.store.outbox import OutgoingMessage
from hermes.tools.files.checkpoints.states import read_content

log = logging.getLogger("hermes.gateway")

_TAKEN_UP_TOO_OFTEN = "the turn was taken up "
_MAX_IMAGE_BYTES = 10_000_000
_MAX_QUOTE_CHARS = 1_000


def turn_message(event: MessageEvent, workspace: Path = Path()) -> str | list[dict[str, Any]]:
    """The message for the model: its text, its images, and where its files are in the workspace, if it has any."""
    text = event.text
    if event.reply_to_text:
        quoted = event.reply_to_text[:_MAX_QUOTE_CHARS].replace("\n", "\n> ")
        text = f"> {quoted}\n\n{text}"
    images: list[dict[str, Any]] = []
    lines: list[str] = []
    for number, place in enumerate(event.media_urls):
        media_type = event.media_types[number] if number < len(event.media_types) else ""
        path = Path(place)
        is_stored = path.is_relative_to(workspace)
        image = _image(path, is_stored=is_stored) if media_type.startswith("image/") else None
        if image is not None:
            images.append(image)
        kind = "image" if image is not None else "file"
        lines.append(f"[attached {kind}: {path.relative_to(workspace) if is_stored else path.name}]")
    lines += [f"[attached file that was not stored: {note}]" for note in event.metadata.get(NOT_STORED, ())]
    if lines:
        text = "\n".join([*filter(None, [text and f"{text}\n"]), *lines])
    return [{"type": "text", "text": text}, *images] if images else text


def _image(path: Path, *, is_stored: bool) -> dict[str, Any] | None:
    try:
        if is_stored:  # the user's own tools may have put a link in its place
            content = read_content(str(path), _MAX_IMAGE_BYTES)
        else:
            content = None if path.stat().st_size > _MAX_IMAGE_BYTES else path.read_bytes()
    except OSError as error:
        log.warning("an image of a message cannot be read: %s", error)
        return None
    media_type = image_type(content or b"")  # what a sender says of it may be wrong
    if content is None or media_type is None:
        return None
    data = base64.b64encode(content).decode()
    return {"type": "image_url", "image_url": {"url": f"data:{media_type};base64,{data}"}}


def turn_context(event: MessageEvent, entry: PlatformEntry | None, ambient: str) -> str:
    """The note for the model in this turn, beside the message."""
    hint = "" if entry is None else entry.platform_hint
    return "\n\n".join(filter(None, (hint, event.channel_prompt, event.channel_context, ambient)))


def turn_request(services: ChatServices, row: ChatRow, work: ChatWork, ambient: str) -> TurnRequest:
    """The turn that answers a message. Blocks: it reads images."""
    event, sender = work.event, work.sender
    cwd = workspace_path(services.host, row.principal)
    return TurnRequest(
        session_id=row.session_id,
        message=turn_message(event, cwd.resolve()) if event.media_urls else turn_message(event),
        request_key=work.message.request_key,
        # Tools of plugins know the task as the session, by which they find the chat again.
        task_id=row.session_id,
        platform=row.platform,
        cwd=str(cwd),
        principal=row.principal,
        context=turn_context(event, services.entries.get(row.platform), ambient),
        extra={"sender_id": sender.user_id, "role": sender.role},
        is_stored=True,
    )


def is_dead_letter(result: TurnResult) -> bool:
    """Whether a turn was given up because it ended its process every time."""
    return result.status == "failed" and (result.error or "").startswith(_TAKEN_UP_TOO_OFTEN)


def answer_messages(work: ChatWork, text: str, redactor: Redactor, limit: int) -> list[OutgoingMessage]:
    """The answer as messages that are not too long for the platform."""
    text = redactor.redact(text)
    if not text.strip():
        return []
    key, reply_to = work.message.request_key, work.event.message_id or ""
    pieces = split_text(text, limit)
    return [
        outgoing(f"{key}:{number}", work.source, piece, reply_to=reply_to if number == 0 else "")
        for number, piece in enumerate(pieces)
    ]


def answer_text(work: ChatWork, result: TurnResult) -> str:
    """The text for a chat. A turn that was interrupted says nothing."""
    if result.status == "interrupted":
        return ""
    if result.status == "incomplete" and result.error:
        return f"{result.answer}\n\n({result.error})"
    if result.status in ("completed", "incomplete"):
        return result.answer
    if work.event.internal:  # read by others than its sender, such as the route of a webhook
        return f"What {work.sender.name} sent could not be answered ({result.error_type or 'error'}); see: hermes logs"
    if is_dead_letter(result):
        return "This message could not be answered and is not tried again. Please send it in other words."
    if work.sender.role == "owner":
        return f"That did not work: {result.error or 'unknown error'}"
    # Only the class leaves: the text of an error may hold anything.
    return f"That did not work ({result.error_type or 'error'}). Please try again later."
