"""The JSON of request bodies. A conversation sends most of its messages again, and they are encoded only once."""

from __future__ import annotations

from itertools import accumulate, compress, count
from operator import ne
from typing import Any, cast

import msgspec

from hermes.base.sanitize.surrogates import encodable

#: The fields that hold the conversation.
CONVERSATIONS = ("messages", "input")


class BodyEncoder(msgspec.Struct):
    """Encodes the request bodies of one turn: what a body begins with like the one before it is copied from there.

    The first body is encoded as a whole, because many turns have no other. Messages are compared with those of the
    last body. One that was changed in place looks the same, so requests that plugins were given need an encoder each.
    """

    _has_begun: bool = False
    #: The last body, its messages, where their text starts in it, and where each of them ends.
    _body: bytes = b""
    _items: list[Any] = []
    _start: int = 0
    _ends: list[int] = []

    def encode(self, body: dict[str, Any]) -> bytes:
        """The body as JSON. Raises what ``msgspec`` raises for data that cannot be written."""
        name = next(reversed(body), "")
        items: Any = body.get(name)
        if not self._has_begun or name not in CONVERSATIONS or not isinstance(items, list) or not items:
            self._has_begun = True
            return encode(body)
        try:
            return self._encode(msgspec.json.encode({**body, name: []}), cast("list[Any]", items))
        except UnicodeEncodeError:
            return encode(body)

    def _encode(self, frame: bytes, items: list[Any]) -> bytes:
        """The body from its frame, which has an empty list at the end, and the messages in that list."""
        known = self._known(items)
        new = [msgspec.json.encode(item) for item in items[known:]]
        old_end = self._ends[known - 1] if known else 0
        old = [memoryview(self._body)[self._start : self._start + old_end]] if known else []
        self._body = b"".join((frame[:-2], b",".join((*old, *new)), frame[-2:]))
        self._items, self._start = items, len(frame) - 2
        ends = accumulate((len(text) + 1 for text in new), initial=old_end if known else -1)
        self._ends[known:] = list(ends)[1:]
        return self._body

    def _known(self, items: list[Any]) -> int:
        """How many messages are those that the last body begins with."""
        before = self._items
        if items[: len(before)] == before:
            return len(before)
        return next(compress(count(), map(ne, before, items)), min(len(before), len(items)))


def encode(body: dict[str, Any]) -> bytes:
    """A body as JSON. Raises what ``msgspec`` raises for data that cannot be written."""
    try:
        return msgspec.json.encode(body)
    except UnicodeEncodeError:
        return msgspec.json.encode(encodable(msgspec.to_builtins(body)))
