"""Answers of callbacks as plain data, so that no method of a plugin's own class runs in the turn."""

from __future__ import annotations

from typing import Any, cast

_ATOMS = frozenset({type(None), bool, int, float, str, bytes})
#: How a value of a subclass becomes one of the plain type, without calling anything that the subclass defines.
_PLAIN: tuple[tuple[type, Any], ...] = (
    (str, str.__str__),
    (int, int.__int__),
    (float, float.__float__),
    (bytes, bytes.__bytes__),
)


def plain(value: Any, *, keep_objects: bool = False) -> Any:
    """The value made of plain dictionaries, lists, texts and numbers.

    Other objects become None, or stay as they are with ``keep_objects``.
    """
    kind: Any = type(value)  # pyright: ignore[reportUnknownVariableType]
    if kind in _ATOMS:
        return value
    if issubclass(kind, dict):
        # The view reads what is stored; iterating a subclass would call its methods.
        items = dict[Any, Any].items(value)
        return {_key(name): plain(item, keep_objects=keep_objects) for name, item in items}
    if issubclass(kind, list):
        return [plain(item, keep_objects=keep_objects) for item in list[Any].__iter__(value)]
    if issubclass(kind, tuple):
        return tuple([plain(item, keep_objects=keep_objects) for item in tuple[Any, ...].__iter__(value)])
    for base, convert in _PLAIN:
        if issubclass(kind, base):
            return convert(value)
    return value if keep_objects else None


def _key(name: Any) -> Any:
    kind: Any = type(name)  # pyright: ignore[reportUnknownVariableType]
    if kind in _ATOMS or kind is tuple:
        return name
    if issubclass(kind, str):
        return str.__str__(cast("str", name))
    return repr(kind)
