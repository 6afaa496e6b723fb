"""Lists every setting in effect, with its key."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, cast

import msgspec

from hermes.base.config.check import NAMED_ITEMS
from hermes.base.config.messages import KeyPath


class Setting(NamedTuple):
    """One value, and whether it is what would apply without a configuration file."""

    path: KeyPath
    value: Any
    is_default: bool


def list_settings(section: msgspec.Struct, path: KeyPath = ()) -> Iterator[Setting]:
    """The settings of a section in the order in which they are declared."""
    collector = NAMED_ITEMS.get(type(section), ("",))[0]
    for declared in msgspec.structs.fields(section):
        value = getattr(section, declared.name)
        default = declared.default
        if declared.default_factory is not msgspec.NODEFAULT:
            default = declared.default_factory()
        if declared.name == collector:
            for name, item in value.items():
                yield from _list_value(item, (*path, name), msgspec.NODEFAULT)
        else:
            yield from _list_value(value, (*path, declared.name), default)


def _list_value(value: Any, path: KeyPath, default: Any) -> Iterator[Setting]:
    if isinstance(value, msgspec.Struct):
        yield from list_settings(value, path)
    elif isinstance(value, dict) and _holds_structs(cast("dict[str, Any]", value).values()):
        for name, item in cast("dict[str, Any]", value).items():
            yield from _list_value(item, (*path, name), msgspec.NODEFAULT)
    elif isinstance(value, list) and _holds_structs(cast("list[Any]", value)):
        for index, item in enumerate(cast("list[Any]", value)):
            yield from _list_value(item, (*path, index), msgspec.NODEFAULT)
    else:
        yield Setting(path, value, value == default)


def _holds_structs(values: Any) -> bool:
    items = list(values)
    return bool(items) and all(isinstance(item, (msgspec.Struct, list)) for item in items) and not _texts(items)


def _texts(items: list[Any]) -> bool:
    return any(isinstance(inner, str) for item in items if isinstance(item, list) for inner in cast("list[Any]", item))
