"""Messages of clients: their parts as text and images, instructions apart, and the conversation in order."""

from __future__ import annotations

import base64
import binascii
import hashlib
import logging
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

from hermes.agent.images.attachments import MAX_IMAGE_BYTES, image_type, with_images
from hermes.surfaces.openai_api.errors import invalid

log = logging.getLogger("hermes.api")

_TEXT_PARTS = ("text", "input_text", "output_text", "refusal")
_IMAGE_PARTS = ("image_url", "input_image")
#: Items of a response's input that repeat what the server knows.
_KNOWN_ITEMS = ("reasoning", "item_reference", "function_call", "function_call_output")
_ROLES = ("system", "developer", "user", "assistant", "tool", "function")
_FETCH_SECONDS = 20.0
_MAX_IMAGES = 20


class ClientMessage(NamedTuple):
    """One message of a conversation, of the user or of the assistant. Images are URLs."""

    role: str
    text: str
    images: tuple[str, ...] = ()

    def digest(self, before: bytes) -> bytes:
        """The fingerprint of a conversation that had the fingerprint ``before`` and continues with this message."""
        found = hashlib.sha256(before)
        for piece in (self.role, self.text.strip(), *self.images):
            data = piece.encode("utf-8", "replace")
            found.update(b"%d:" % len(data))
            found.update(data)
        return found.digest()


class ClientConversation(NamedTuple):
    """A conversation as a client sent it: what came before, the message to answer, and instructions."""

    history: list[ClientMessage]
    message: ClientMessage
    instructions: str

    def fingerprints(self) -> list[str]:
        """The fingerprints of the conversation after each message, the one to answer included."""
        current, found = b"", list[str]()
        for message in (*self.history, self.message):
            current = message.digest(current)
            found.append(current.hex())
        return found


def read_conversation(items: Sequence[dict[str, Any]], where: str) -> ClientConversation:
    """The messages of a request. ``where`` is the name of their field."""
    if not items:
        raise invalid(f"{where}: is empty; send at least one message", where)
    instructions: list[str] = []
    messages: list[ClientMessage] = []
    for number, item in enumerate(items):
        place = f"{where}[{number}]"
        role: object = item.get("role")
        if item.get("type") in _KNOWN_ITEMS:
            continue
        if role not in _ROLES:
            raise invalid(f"{place}.role: found {role!r}; allowed: {', '.join(_ROLES[:4])}", f"{place}.role")
        if role in ("tool", "function"):
            continue  # results of tools, which the journal has
        text, images = _read_content(item.get("content"), f"{place}.content")
        if role in ("system", "developer"):
            instructions.append(text)
        else:
            _append(messages, ClientMessage(cast("str", role), text, images))
    if not messages or messages[-1].role != "user":
        raise invalid(f"{where}: the last message must be one of the user", where)
    *history, message = messages
    if not message.text.strip() and not message.images:
        raise invalid(f"{where}: the last message is empty; say something", where)
    return ClientConversation(history, message, "\n\n".join(filter(None, instructions)))


def read_input(given: str | list[dict[str, Any]], instructions: str | None) -> ClientConversation:
    """The ``input`` of a request, a text or messages, with the ``instructions`` beside it."""
    items = [{"role": "user", "content": given}] if isinstance(given, str) else given
    conversation = read_conversation(items, "input")
    both = "\n\n".join(filter(None, (instructions, conversation.instructions)))
    return conversation._replace(instructions=both)


def _append(messages: list[ClientMessage], message: ClientMessage) -> None:
    """Add a message; messages of the same role in a row are one."""
    if messages and messages[-1].role == message.role:
        last = messages.pop()
        text = "\n\n".join(filter(None, (last.text, message.text)))
        message = ClientMessage(message.role, text, last.images + message.images)
    messages.append(message)


def _read_content(content: object, place: str) -> tuple[str, tuple[str, ...]]:
    if content is None:
        return "", ()
    if isinstance(content, str):
        return content, ()
    if not isinstance(content, list):
        raise invalid(f"{place}: found {type(content).__name__}; send a text or a list of parts", place)
    texts: list[str] = []
    images: list[str] = []
    for number, part in enumerate(cast("list[object]", content)):
        where = f"{place}[{number}]"
        if not isinstance(part, dict):
            raise invalid(f"{where}: a part is an object with a type", where)
        fields = cast("dict[str, object]", part)
        kind = fields.get("type")
        if kind in _TEXT_PARTS:
            text = fields.get("text", fields.get("refusal"))
            if not isinstance(text, str):
                raise invalid(f"{where}.text: found {type(text).__name__}; send a text", f"{where}.text")
            texts.append(text)
        elif kind in _IMAGE_PARTS:
            images.append(_image_url(fields.get("image_url"), where))
        else:
            raise invalid(f"{where}.type: found {kind!r}; allowed: text and image_url", f"{where}.type")
    if len(images) > _MAX_IMAGES:
        raise invalid(f"{place}: has {len(images)} images; at most {_MAX_IMAGES} are allowed", place)
    return "\n".join(texts), tuple(images)


def _image_url(value: object, where: str) -> str:
    url = cast("dict[str, object]", value).get("url") if isinstance(value, dict) else value
    if not isinstance(url, str) or not url.startswith(("data:image/", "https://", "http://")):
        raise invalid(f"{where}.image_url: send a data: URL with an image, or an http(s) URL", f"{where}.image_url")
    return url


def user_content(message: ClientMessage, *, allow_private: bool) -> str | list[dict[str, Any]]:
    """The content of a user message for the model. Blocking: images may have to be fetched."""
    parts = [
        {"type": "image_url", "image_url": {"url": _image_data(url, allow_private=allow_private)}}
        for url in message.images
    ]
    if parts and not message.text.strip():
        return parts
    return with_images(message.text, parts)


def _image_data(url: str, *, allow_private: bool) -> str:
    """An image as a data URL, checked by its content."""
    if url.startswith("data:"):
        header, _, encoded = url.partition(",")
        try:
            data = base64.b64decode(encoded, validate=True) if header.endswith(";base64") else b""
        except (binascii.Error, ValueError):
            data = b""
    else:
        data = _fetch(url, allow_private=allow_private)
    kind = image_type(data)
    if kind is None:
        raise invalid("image_url: is not a PNG, JPEG, GIF or WebP image", "image_url")
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def _fetch(url: str, *, allow_private: bool) -> bytes:
    from hermes.base.http.fetch import fetch  # few messages name an address

    try:
        return fetch(url, max_bytes=MAX_IMAGE_BYTES, timeout=_FETCH_SECONDS, allow_private=allow_private).data
    except (OSError, ValueError) as error:
        log.warning("an image of a message could not be fetched: %s", error)
        # The reason is only logged: it would show a caller what is in the private network (SSRF).
        raise invalid("image_url: the image cannot be fetched from its address", "image_url") from None
