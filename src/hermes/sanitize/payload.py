"""Turns any object into a copy that is safe to hand out: JSON-ready, without secrets, and of bounded size."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from enum import Enum
from itertools import islice
from typing import Any, NamedTuple, cast

import msgspec

from hermes.sanitize.keys import REDACTED, is_secret_key
from hermes.sanitize.text import Redactor

DEFAULT_PAYLOAD_CHARS = 50_000
SMALLEST_PAYLOAD_CHARS = 1_000
#: Integers outside this range are no JSON numbers that every reader can take.
_SMALLEST_INT, _LARGEST_INT = -(2**63), 2**64 - 1


class Limits(NamedTuple):
    """How much of a value is kept."""

    chars: int = 8_000
    items: int = 200
    depth: int = 8


_FIRST_PASS = Limits()
_SECOND_PASS = Limits(chars=1_000, items=50)
_PLAIN = Redactor()


def payload_limit() -> int:
    """The most characters a payload may have as JSON: ``HERMES_PLUGIN_PAYLOAD_MAX_CHARS``, 50 000 by default."""
    try:
        wanted = int(os.environ.get("HERMES_PLUGIN_PAYLOAD_MAX_CHARS", DEFAULT_PAYLOAD_CHARS))
    except ValueError:
        return DEFAULT_PAYLOAD_CHARS
    return max(wanted, SMALLEST_PAYLOAD_CHARS)


def sanitise(value: Any, *, max_chars: int | None = None, redactor: Redactor = _PLAIN) -> Any:
    """A copy made of dicts, lists, strings, numbers, booleans and None; never raises an ``Exception``.

    What is too large is cut a second time, harder; what is then still too large becomes a preview.
    """
    limit = payload_limit() if max_chars is None else max(max_chars, SMALLEST_PAYLOAD_CHARS)
    for limits in (_FIRST_PASS, _SECOND_PASS):
        copier = _Copier(limits, limit, redactor)
        copy = copier.copy(value, 0)
        text = msgspec.json.encode(copy)
        if copier.room >= 0 and (len(text) <= limit or len(text.decode("utf-8")) <= limit):
            return copy
    # Quotes and backslashes of the preview are escaped once more when it is encoded itself.
    preview = text.decode("utf-8")[: (limit - 200) // 2]
    return {"_truncated": True, "original_type": type(value).__name__[:50], "preview": preview}


class _Copier:
    """One walk over a value. It stops copying when there is no room left, however large the value is."""

    __slots__ = ("_limits", "_open", "_redactor", "room")

    def __init__(self, limits: Limits, room: int, redactor: Redactor) -> None:
        self._limits = limits
        self._redactor = redactor
        #: Ids of the values around the one in hand: meeting one of them again is a cycle.
        self._open: set[int] = set()
        self.room = room

    def copy(self, value: Any, depth: int) -> Any:
        kind = cast("type[object]", type(value))
        self.room -= 2
        if kind is str:
            return self._text(value)
        if value is None or kind is bool:
            return value
        if kind is int and _SMALLEST_INT <= value <= _LARGEST_INT:
            return value
        if kind is float and math.isfinite(value):
            return value
        if depth > self._limits.depth:
            return f"<{kind.__name__} depth limit>"
        if id(value) in self._open:
            return "<cycle>"
        self._open.add(id(value))
        try:
            return self._compound(value, kind, depth)
        except Exception:
            # Someone else's object misbehaves; its type is all that can be told about it.
            return self._text(f"<{kind.__name__}>")
        finally:
            self._open.discard(id(value))

    def _compound(self, value: Any, kind: type[object], depth: int) -> Any:
        if kind is dict:
            return self._mapping(value, depth)
        if kind is list or kind is tuple:
            return self._sequence(value, depth)
        if isinstance(value, (bytes, bytearray)):
            return f"<{len(value)} bytes>"
        if isinstance(value, memoryview):
            return f"<{cast('memoryview[int]', value).nbytes} bytes>"
        if isinstance(value, Mapping):
            return self._mapping(cast("Mapping[Any, Any]", value), depth)
        if isinstance(value, (Sequence, Set)) and not isinstance(value, str):
            return self._sequence(cast("Collection[Any]", value), depth)
        plain = _plain(value)
        if type(plain) is dict:
            return self._mapping(cast("dict[str, Any]", plain), depth)
        if type(plain) is list:
            return self._sequence(cast("list[Any]", plain), depth)
        return self._text(plain) if type(plain) is str else self.copy(plain, depth + 1)

    def _text(self, text: str) -> str:
        limit = self._limits.chars
        if len(text) <= limit:
            kept = self._redactor.redact(text)
        else:
            # A secret that the cut would divide must be seen whole, so a little more is looked at.
            margin = max(4_096, self._redactor.longest)
            kept = self._redactor.redact(text[: limit + margin])[:limit]
            kept += f"...[truncated {len(text) - limit} chars]"
        self.room -= len(kept)
        # Only a lone surrogate cannot be encoded; it becomes a question mark.
        return kept if kept.isascii() else kept.encode("utf-8", "replace").decode("utf-8")

    def _mapping(self, value: Mapping[Any, Any], depth: int) -> dict[str, Any]:
        copy: dict[str, Any] = {}
        taken = 0
        for key, item in list(islice(value.items(), self._limits.items)):
            if self.room < 0:
                break
            name = self._text(_key_text(key))
            copy[name] = REDACTED if _hides(item) and is_secret_key(_key_text(key)) else self.copy(item, depth + 1)
            taken += 1
        if len(value) > taken:
            copy["_truncated_items"] = len(value) - taken
        return copy

    def _sequence(self, value: Collection[Any], depth: int) -> list[Any]:
        copy: list[Any] = []
        for item in list(islice(value, self._limits.items)):
            if self.room < 0:
                break
            copy.append(self.copy(item, depth + 1))
        if len(value) > len(copy):
            copy.append({"_truncated_items": len(value) - len(copy)})
        return copy


def _hides(item: Any) -> bool:
    """Whether there is anything to hide: nothing, a yes or a no gives no secret away."""
    return bool(item) if type(item) is str else item is not None and type(item) is not bool


def _key_text(key: Any) -> str:
    try:
        return key if type(key) is str else str(key)
    except Exception:
        return f"<{type(key).__name__}>"


def _plain(value: Any) -> Any:
    """An object as data: what it dumps itself to, its public fields, a number, or its text."""
    kind = cast("type[object]", type(value))
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, type) or callable(value):
        return str(value)
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return _dumped(dump)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, int) or hasattr(kind, "__index__"):
        number = int(value)
        return number if _SMALLEST_INT <= number <= _LARGEST_INT else str(number)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(float(value))
    fields = getattr(kind, "__struct_fields__", None) or getattr(kind, "__dataclass_fields__", None)
    if fields is not None:
        return {name: getattr(value, name, None) for name in fields}
    if isinstance(value, BaseException):
        return f"{type(value).__name__}: {value}"
    if hasattr(value, "isoformat"):
        return value.isoformat()
    public = {name: item for name, item in getattr(value, "__dict__", {}).items() if not name.startswith("_")}
    return public or str(value)


def _dumped(dump: Callable[..., Any]) -> Any:
    try:
        data = dump(mode="json")
    except TypeError:
        data = dump()
    return cast("Any", data) if isinstance(data, (dict, list)) else str(data)
