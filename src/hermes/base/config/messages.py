"""Messages about settings: the value found, the values allowed, and suggestions for unknown keys."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from hermes.base.config.environment import holds_secret_or_address
from hermes.base.config.schema.sections import Config
from hermes.base.errors import nearest

#: The way to a value: keys of mappings and indexes of lists.
KeyPath = tuple[str | int, ...]

_LONGEST_SHOWN = 60


def dotted(path: KeyPath) -> str:
    """``("hooks", "pre_tool_call", 0, "command")`` as ``hooks.pre_tool_call[0].command``."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".")


def describe(value: Any, path: KeyPath) -> str:
    """What was found, without giving away what may be a secret."""
    match value:
        case None:
            return "nothing"
        case bool():
            return "true" if value else "false"
        case list():
            return "a list"
        case dict():
            return "a mapping"
        case _ if any(holds_secret_or_address(str(part)) for part in path):
            return "a text" if isinstance(value, str) else "a number (a text of digits needs quotes)"
        case str():
            return f"the text {value[:_LONGEST_SHOWN]!r}"
        case int() | float():
            return f"the number {value!r:.{_LONGEST_SHOWN}}"
        case _:
            return f"a {type(value).__name__}"


def allowed_values(kind: Any) -> str:
    """The values a setting takes, as text."""
    return _describe_type(msgspec.inspect.type_info(kind))


def _describe_type(info: Any) -> str:
    match info:
        case msgspec.inspect.Metadata():
            return _describe_type(info.type)
        case msgspec.inspect.BoolType():
            return "true or false"
        case msgspec.inspect.IntType() | msgspec.inspect.FloatType():
            whole = isinstance(info, msgspec.inspect.IntType)
            return ("a whole number" if whole else "a number") + _bounds(info)
        case msgspec.inspect.StrType():
            return "a text that is not empty" if info.min_length else "a text"
        case msgspec.inspect.LiteralType():
            return "one of " + ", ".join(str(value) or "''" for value in info.values)
        case msgspec.inspect.ListType():
            return f"a list (each item: {_describe_type(info.item_type)})"
        case msgspec.inspect.UnionType():
            return " or ".join(_describe_type(choice) for choice in info.types)
        case _:
            return "a mapping of key: value lines"


def _bounds(info: msgspec.inspect.IntType | msgspec.inspect.FloatType) -> str:
    text = ""
    if info.ge is not None:
        text += f", {info.ge:g} or more"
    if info.gt is not None:
        text += f", more than {info.gt:g}"
    if info.le is not None:
        text += f", at most {info.le:g}"
    return text


def suggestion(name: str, path: KeyPath, siblings: Iterable[str]) -> str:
    """The likely correction of an unknown key; empty when there is none."""
    close = nearest(name, siblings)
    if close:
        return f"did you mean {dotted((*path, close))}?"
    elsewhere = _sections_with(name)
    return f"did you mean {elsewhere[0]}.{name}?" if elsewhere else ""


def _sections_with(name: str) -> list[str]:
    defaults = Config()
    sections = {key: getattr(defaults, key) for key in Config.__struct_fields__}
    return [key for key, section in sections.items() if name in getattr(section, "__struct_fields__", ())]
