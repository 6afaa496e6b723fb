"""Content blocks of an editor's prompt as a user message."""

from __future__ import annotations

import base64
import binascii
from typing import Any, cast
from urllib.parse import unquote, urlsplit

from hermes.agent.images.attachments import MAX_IMAGE_BYTES, image_type
from hermes.surfaces.acp.wire import INVALID_PARAMS, RpcError, fields_of

Message = str | list[dict[str, Any]]


def user_message(blocks: object) -> Message:
    """The text of the blocks, or text and images. ``RpcError`` for what cannot be sent."""
    if not isinstance(blocks, list) or not blocks:
        raise RpcError(INVALID_PARAMS, "prompt is not a list of content blocks")
    texts: list[str] = []
    images: list[dict[str, Any]] = []
    for block in cast("list[Any]", blocks):
        if not isinstance(block, dict):
            raise RpcError(INVALID_PARAMS, "a content block is not an object")
        fields = cast("dict[str, Any]", block)
        if fields.get("type") == "image":
            images.append(_image(fields))
        else:
            texts.append(_text(fields))
    text = "\n\n".join(filter(None, texts)).strip() if len(texts) > 1 else "".join(texts)
    if not text.strip() and not images:
        raise RpcError(INVALID_PARAMS, "the prompt is empty")
    return [{"type": "text", "text": text}, *images] if images else text


def _text(block: dict[str, Any]) -> str:
    kind = block.get("type")
    if kind == "text":
        return str(block.get("text") or "")
    if kind == "resource_link":
        return f"[{block.get('name') or 'file'}]({_place(str(block.get('uri') or ''))})"
    if kind == "resource":
        resource = fields_of(block.get("resource"))
        place, text = _place(str(resource.get("uri") or "")), resource.get("text")
        if not isinstance(text, str):
            return f"[{place}] (a binary file)"
        return f'<file path="{place}">\n{text}\n</file>'
    raise RpcError(INVALID_PARAMS, f"content of type {kind!r} is not supported; text, images and files are")


def _place(uri: str) -> str:
    """A path for a file of this machine, so that tools can open it."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        raise RpcError(INVALID_PARAMS, f"the uri {uri[:200]!r} is not valid") from None
    return unquote(parts.path) if parts.scheme == "file" else uri


def _image(block: dict[str, Any]) -> dict[str, Any]:
    try:
        data = base64.b64decode(str(block.get("data") or ""), validate=True)
    except (binascii.Error, ValueError):
        raise RpcError(INVALID_PARAMS, "the data of an image is not base64") from None
    kind = image_type(data)
    if kind is None or len(data) > MAX_IMAGE_BYTES:
        raise RpcError(INVALID_PARAMS, f"an image must be PNG, JPEG, GIF or WebP of at most {MAX_IMAGE_BYTES:,} bytes")
    return {"type": "image_url", "image_url": {"url": f"data:{kind};base64,{base64.b64encode(data).decode()}"}}
