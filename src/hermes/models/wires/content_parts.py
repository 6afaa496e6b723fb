"""Parts of chat message content (text, images), for wires with another spelling of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple, cast

_NOT_IN_IDS = re.compile(r"[^a-zA-Z0-9_-]")
_LONGEST_ID = 64


class Text(NamedTuple):
    """A piece of text."""

    text: str


class Image(NamedTuple):
    """An image, by its address or as a ``data:`` URL."""

    url: str
    detail: str = "auto"


class Other(NamedTuple):
    """A part that is already in the format of the provider it is for."""

    part: dict[str, Any]


Part = Text | Image | Other


def parts_of(content: object) -> Iterator[Part]:
    """The parts of a message's content; blank text is left out, because servers refuse it."""
    if isinstance(content, str):
        content = [content]
    for part in cast("list[object]", content) if isinstance(content, list) else ():
        if isinstance(part, str):
            if part.strip():
                yield Text(part)
        elif isinstance(part, dict):
            yield from _read_part(cast("dict[str, Any]", part))


def _read_part(part: dict[str, Any]) -> Iterator[Part]:
    kind = part.get("type")
    if kind in ("text", "input_text", "output_text"):
        text = part.get("text")
        if isinstance(text, str) and text.strip():
            yield Text(text)
    elif kind == "image_url":
        image: Any = part.get("image_url")
        if isinstance(image, dict):
            fields = cast("dict[str, Any]", image)
            yield Image(str(fields.get("url") or ""), str(fields.get("detail") or "auto"))
        else:
            yield Image(str(image or ""))
    else:
        yield Other(part)


def split_data_url(url: str) -> tuple[str, str] | None:
    """The media type and the base64 text of a ``data:`` URL; ``None`` for any other address."""
    if not url.startswith("data:"):
        return None
    head, _, data = url.removeprefix("data:").partition(",")
    media_type, *flags = head.split(";")
    if "base64" in flags:
        return media_type or "image/png", data
    import base64
    from urllib.parse import unquote_to_bytes

    return media_type or "image/png", base64.b64encode(unquote_to_bytes(data)).decode()


def plain_id(call_id: str) -> str:
    """A tool call id that any server takes: the given one where it will do, else always the same one made from it."""
    if call_id and len(call_id) <= _LONGEST_ID and not _NOT_IN_IDS.search(call_id):
        return call_id
    import hashlib

    digest = hashlib.sha256(call_id.encode("utf-8", "replace")).hexdigest()[:12]
    return f"{_NOT_IN_IDS.sub('_', call_id)[:40]}_{digest}"
