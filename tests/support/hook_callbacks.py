"""Small callbacks that the tests of hooks and middleware register."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def answer(value: Any = None) -> Callable[..., Any]:
    """A callback that takes anything and returns ``value``."""

    def callback(**_fields: Any) -> Any:
        return value

    return callback


def note(seen: list[Any], *names: str) -> Callable[..., None]:
    """A callback that keeps one field, several, or all it was given."""

    def callback(**fields: Any) -> None:
        if not names:
            seen.append(fields)
        elif len(names) == 1:
            seen.append(fields[names[0]])
        else:
            seen.append(tuple(fields[name] for name in names))

    return callback


def mark(seen: list[Any], value: Any) -> Callable[..., None]:
    """A callback that takes anything and notes that it was called."""

    def callback(**_fields: Any) -> None:
        seen.append(value)

    return callback
