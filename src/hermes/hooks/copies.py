"""Copies of the runtime's containers, lent to callbacks so that what they change stays theirs."""

from __future__ import annotations

from threading import Lock
from typing import Any, cast

from hermes.base.errors import Interrupted
from hermes.contract.response import Record
from hermes.hooks.answers import plain

#: How many conversations a memo remembers. Each costs the skeleton of its messages, never their text.
_REMEMBERED = 16


_NONE: dict[str, Any] = {}
ATOMS = frozenset({str, int, float, bool, type(None)})


def is_flat(value: Any) -> bool:
    """Whether a value is a dictionary without containers in it, so that a plain copy isolates it."""
    if type(value) is not dict:
        return False
    for item in cast("dict[str, Any]", value).values():  # noqa: SIM110  (a generator costs more than a usual call)
        if type(item) not in ATOMS:
            return False
    return True


def isolate(value: Any) -> Any:
    """A copy of plain data down to its leaves. Anything that is not a plain container is shared."""
    if is_flat(value):
        return value.copy()
    try:
        return _copy(value)
    except RecursionError:
        # Deeper than any message: the outermost level at least is the callback's own.
        return cast("Any", value).copy() if isinstance(value, dict | list) else value


def _copy(value: Any) -> Any:
    kind: Any = type(value)  # pyright: ignore[reportUnknownVariableType]
    if kind is dict:
        copy = value.copy()
        for name, item in value.items():
            if type(item) not in ATOMS:
                copy[name] = _copy(item)
        return copy
    if kind is list:
        return [item if type(item) in ATOMS else _copy(item) for item in value] if value else []
    if kind is tuple:
        return tuple([_copy(item) for item in value])
    if kind is set:
        return set(value)
    if kind is Record:
        record = Record()
        record.__dict__.update({name: _copy(item) for name, item in value.__dict__.items()})
        return record
    # A subclass of a plain type has methods of its own, which must not run in the turn.
    return plain(value, keep_objects=True) if issubclass(kind, dict | list | str | tuple) else value


def same(left: object, right: object) -> bool:
    """Whether two values are equal; values that cannot be compared are not."""
    try:
        return bool(left == right)
    except BaseException as error:  # of a method that a plugin has written
        if isinstance(error, KeyboardInterrupt | Interrupted):
            raise
        return False


def renew(value: Any, old: Any) -> Any:
    """Like ``isolate``, but takes over the parts of an earlier copy that still equal the value.

    A conversation only grows at its end, so comparing it with the copy made for the last event (which costs
    a tenth of copying) leaves only the new messages to copy. A copy that a callback changed is not equal any
    more, and is made again.
    """
    try:
        return _renew(value, old)
    except RecursionError:
        return isolate(value)


def _renew(value: Any, old: Any) -> Any:
    kind: Any = type(value)  # pyright: ignore[reportUnknownVariableType]
    if kind is not type(old):
        return isolate(value)
    if kind is dict:
        return {name: item if type(item) in ATOMS else _renew(item, old.get(name)) for name, item in value.items()}
    if kind is list:
        kept = len(old)
        if same(old, value if kept == len(value) else value[:kept]):
            return old + [isolate(item) for item in value[kept:]]
    return isolate(value)


class CopyMemo:
    """The last copy one callback was given for each conversation. No two callbacks share one."""

    __slots__ = ("_copies", "_lock")

    def __init__(self) -> None:
        self._copies: dict[object, dict[str, Any]] = {}
        self._lock = Lock()

    def recall(self, conversation: object) -> dict[str, Any]:
        return self._copies.get(conversation, _NONE)

    def keep(self, conversation: object, copy: dict[str, Any]) -> None:
        if not conversation:
            return
        with self._lock:
            self._copies.pop(conversation, None)
            self._copies[conversation] = copy
            while len(self._copies) > _REMEMBERED:
                del self._copies[next(iter(self._copies))]
