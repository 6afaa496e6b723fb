"""Bounded copy: one walk that makes plain JSON data of any object, cuts what is long and hides values of secret keys.

Secrets inside texts are found by the redactor; ``payload.py`` uses both.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from enum import Enum
from itertools import islice
from typing import Any, NamedTuple, cast

from hermes.base.sanitize.keys import REDACTED, is_secret_key
from hermes.base.sanitize.surrogates import encodable
from hermes.base.sanitize.text import Redactor

#: Integers outside this range are not safe as JSON numbers.
_SMALLEST_INT, _LARGEST_INT = -(2**63), 2**64 - 1


#: The type of a value; an alias, because the type checker cannot follow ``type(Any)``.
kind_of = cast("Callable[[Any], type[object]]", type)


class SizeLimits(NamedTuple):
    """Size limits of a copy."""

    chars: int = 8_000
    items: int = 200
    depth: int = 8


class BoundedCopy:
    """One traversal of a value. It stops at the size limit."""

    __slots__ = ("_limits", "_open", "_redactor", "room")

    def __init__(self, limits: SizeLimits, room: int, redactor: Redactor) -> None:
        self._limits = limits
        self._redactor = redactor
        #: Ids of the enclosing values, to detect cycles.
        self._open: set[int] = set()
        #: Characters that may still be added, roughly; negative when something did not fit.
        self.room = room

    def copy(self, value: Any, depth: int) -> Any:
        kind = kind_of(value)
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
            # A foreign object raises; only its type is known.
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
        plain = as_data(value)
        if type(plain) is dict:
            return self._mapping(cast("dict[str, Any]", plain), depth)
        if type(plain) is list:
            return self._sequence(cast("list[Any]", plain), depth)
        return self._text(plain) if type(plain) is str else self.copy(plain, depth + 1)

    def _mapping(self, value: Mapping[Any, Any], depth: int) -> dict[str, Any]:
        copy: dict[str, Any] = {}
        taken = 0
        for key, item in list(islice(value.items(), self._limits.items)):
            if self.room < 0:
                break
            # Fast path: most keys are short names and most values short texts.
            name = key if type(key) is str and len(key) < 100 and key.isascii() else self._text(_key_text(key))
            if is_secret_key(name) and _can_be_secret(item):
                copy[name] = REDACTED
            elif type(item) is str and len(item) < 1_000 and item.isascii():
                copy[name] = item
                self.room -= len(item)
            else:
                copy[name] = self.copy(item, depth + 1)
            self.room -= len(name) + 4
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

    def _text(self, text: str) -> str:
        if len(text) > self._limits.chars:
            text = self._cut(text)
        self.room -= len(text)
        if not text.isascii():
            try:
                text.encode()
            except UnicodeEncodeError:
                text = encodable(text)
        return text

    def _cut(self, text: str) -> str:
        """The start of a long text. The cut moves before a secret that it would divide."""
        limit = self._limits.chars
        end = self._redactor.start_of_secret_at(text, limit)
        return f"{text[:end]}...[truncated {len(text) - end} chars]"


def _can_be_secret(item: Any) -> bool:
    """None and booleans are not secrets."""
    return bool(item) if type(item) is str else item is not None and type(item) is not bool


def _key_text(key: Any) -> str:
    try:
        return key if type(key) is str else str(key)
    except Exception:
        return f"<{type(key).__name__}>"


def as_data(value: Any) -> Any:
    """An object as data: its own dump, its public fields, a number, or its text."""
    kind = kind_of(value)
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
        return f"{kind.__name__}: {value}"
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
