"""Payloads of hooks: sanitised by ``BoundedCopy`` and the redactor, within one size limit, and memoised by part."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import islice
from typing import Any, cast

import msgspec

from hermes.base.sanitize.bounded import BoundedCopy, SizeLimits, kind_of
from hermes.base.sanitize.keys import is_secret_key
from hermes.base.sanitize.text import Redactor, map_texts

DEFAULT_PAYLOAD_CHARS = 50_000
SMALLEST_PAYLOAD_CHARS = 1_000

_FIRST, _SECOND = SizeLimits(), SizeLimits(chars=1_000, items=50)
_PLAIN = Redactor()
#: The content by which a part is recognised. Not JSON, in which bytes and their Base64 text are the same.
_encode = msgspec.msgpack.Encoder().encode
_NOT_ENCODABLE = (TypeError, ValueError, OverflowError, RecursionError)


def payload_limit() -> int:
    """The most characters a payload may have as JSON: ``HERMES_PLUGIN_PAYLOAD_MAX_CHARS``, 50 000 by default."""
    try:
        wanted = int(os.environ.get("HERMES_PLUGIN_PAYLOAD_MAX_CHARS", DEFAULT_PAYLOAD_CHARS))
    except ValueError:
        return DEFAULT_PAYLOAD_CHARS
    return max(wanted, SMALLEST_PAYLOAD_CHARS)


class Memo:
    """Memoises sanitised parts, so that a growing conversation costs only its new messages.

    Parts are known by their content, so changing one in place is noticed. One memo serves one conversation,
    whose parts must be trees (as messages are): their whole content is read to recognise them.
    """

    def __init__(self) -> None:
        self.results: dict[tuple[bytes, int], bytes] = {}
        #: Entries used or added by the current payload.
        self.used: dict[tuple[bytes, int], bytes] = {}
        self._last: tuple[bytes, Any] = (b"", None)

    def repeated(self, value: Any, make: Callable[[Any], Any]) -> Any:
        """What ``make`` returns for plain data; made once for as long as the same data is given again."""
        try:
            content = _encode(value)
        except _NOT_ENCODABLE:
            return make(value)
        if content != self._last[0]:
            self._last = (content, make(value))
        return self._last[1]

    def forget_unused(self) -> None:
        """Keep only the entries used by the last payload."""
        self.results, self.used = self.used, {}


def sanitise(value: Any, *, max_chars: int | None = None, redactor: Redactor = _PLAIN, memo: Memo | None = None) -> Any:
    """A copy made of dicts, lists, strings, numbers, booleans and None; never raises an ``Exception``.

    What is too large is cut a second time, harder; what is then still too large becomes a preview.
    """
    limit = payload_limit() if max_chars is None else max(max_chars, SMALLEST_PAYLOAD_CHARS)
    text, fits = b"", False
    for limits in (_FIRST, _SECOND):
        if memo is not None and kind_of(value) is dict:
            text, fits = _assemble(value, limits, limit, redactor, memo)
        else:
            text, fits = _one_part(value, 0, limits, limit, redactor)
        fits = fits and (len(text) <= limit or len(text.decode()) <= limit)
        if fits:
            break
    if memo is not None:
        memo.forget_unused()
    if fits:
        return msgspec.json.decode(text)
    # Quotes and backslashes of the preview are escaped once more when it is encoded itself.
    preview = text.decode("utf-8", "ignore")[: (limit - 200) // 2]
    return {"_truncated": True, "original_type": kind_of(value).__name__[:50], "preview": preview}


def _one_part(value: Any, depth: int, limits: SizeLimits, room: int, redactor: Redactor) -> tuple[bytes, bool]:
    """A part as sanitised JSON, and whether all of it fitted."""
    copier = BoundedCopy(limits, room, redactor)
    copy = copier.copy(value, depth)
    text = msgspec.json.encode(copy)
    # One scan of the whole text is far faster than one per string, and most payloads are clean.
    if redactor.suspects(text.decode()):
        text = msgspec.json.encode(map_texts(copy, redactor.redact))
    return text, copier.room >= 0


def _assemble(
    value: dict[Any, Any], limits: SizeLimits, room: int, redactor: Redactor, memo: Memo
) -> tuple[bytes, bool]:
    """A mapping assembled from memoised parts: the items of its lists, and its other entries."""
    parts: list[bytes] = []
    for key, item in list(islice(value.items(), limits.items)):
        if type(item) is list and type(key) is str and not is_secret_key(key):
            name, _ = _one_part(key, 0, limits, room, redactor)
            items, fits = _assemble_list(cast("list[Any]", item), limits, room, redactor, memo)
            part = name + b":[" + items + b"]"
        else:
            entry, fits = _remembered({key: item}, 0, limits, room, redactor, memo)
            part = entry[1:-1]
        parts.append(part)
        room -= len(part) + 1
        if not fits or room < 0:
            return b"{" + b",".join(parts) + b"}", False
    if len(value) > limits.items:
        parts.append(b'"_truncated_items":%d' % (len(value) - limits.items))
    return b"{" + b",".join(parts) + b"}", True


def _assemble_list(
    items: list[Any], limits: SizeLimits, room: int, redactor: Redactor, memo: Memo
) -> tuple[bytes, bool]:
    parts: list[bytes] = []
    results, used, chars = memo.results, memo.used, limits.chars
    for item in items[: limits.items]:
        # Most messages of a conversation were seen before: they are found here without another call.
        try:
            key = (_encode(item), chars)
            part = results[key]
        except (KeyError, *_NOT_ENCODABLE):
            part, fits = _remembered(item, 2, limits, room, redactor, memo)
        else:
            used[key] = part
            fits = True
        parts.append(part)
        room -= len(part) + 1
        if not fits or room < 0:
            return b",".join(parts), False
    if len(items) > limits.items:
        parts.append(b'{"_truncated_items":%d}' % (len(items) - limits.items))
    return b",".join(parts), True


def _remembered(
    part: Any, depth: int, limits: SizeLimits, room: int, redactor: Redactor, memo: Memo
) -> tuple[bytes, bool]:
    try:
        key = (_encode(part), limits.chars)
    except _NOT_ENCODABLE:
        return _one_part(part, depth, limits, room, redactor)
    known = memo.results.get(key) or memo.used.get(key)
    if known is not None:
        memo.used[key] = known
        return known, True
    text, fits = _one_part(part, depth, limits, room, redactor)
    if fits:
        memo.used[key] = text
        if limits is _FIRST and _is_small(key[0], text):
            memo.used[key[0], _SECOND.chars] = text
    return text, fits


def _is_small(content: bytes, text: bytes) -> bool:
    """Whether the limits of the second pass make no difference to a part."""
    return len(content) <= _SECOND.chars and text.count(b",") < _SECOND.items
