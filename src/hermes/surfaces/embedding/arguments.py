"""Checks of what a program gives to the API, made before anything runs: what was found, and what is allowed."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast

from hermes.base.errors import did_you_mean
from hermes.base.scope import Interrupt

_SETTINGS = 'settings as in config.yaml, such as {"agent": {"max_turns": 20}}, or a hermes.Config'
_LONGEST_SHOWN = 40
#: What is allowed for the arguments that are a list.
_LISTS = {"tools": "functions", "toolsets": "names", "plugins": "plugins", "images": "paths"}


def _refusal(name: str, value: object, allowed: str) -> TypeError:
    return TypeError(f"{name}: found {_found(name, value)}; allowed: {allowed}")


def _found(name: str, value: object) -> str:
    """A description of the value that does not show a key."""
    match value:
        case None | bool():
            return str(value)
        case type():
            return f"the class {value.__name__}"
        case str():
            return f"the text {value[:_LONGEST_SHOWN]!r}"
        case int() | float() if not name.endswith("key"):
            return f"the number {value!r:.{_LONGEST_SHOWN}}"
        case _:
            return f"an object of type {type(value).__name__}"


def check_texts(**texts: object) -> None:
    for name, value in texts.items():
        if not isinstance(value, str):
            raise _refusal(name, value, "a text")


def check_paths(**paths: object) -> None:
    for name, value in paths.items():
        if value is not None and not isinstance(value, str | os.PathLike):
            raise _refusal(name, value, "a text or a pathlib.Path")


def check_functions(**functions: object) -> None:
    for name, value in functions.items():
        if value is not None and not callable(value):
            raise _refusal(name, value, "a function")


def check_settings(value: object) -> None:
    """``value`` is what was given as ``config``."""
    from hermes.base.config.schema.sections import Config

    if value is not None and not isinstance(value, Mapping | Config):
        hint = "; home names the folder with a config.yaml" if isinstance(value, str | Path) else ""
        raise _refusal("config", value, _SETTINGS + hint)


def checked_list(name: str, values: object) -> list[Any]:
    """The values as a list. A text is no list of its letters, and a lone function or path no list either."""
    if isinstance(values, str):
        raise TypeError(f"{name} must be a list of {_LISTS[name]}, such as [{values!r}]")
    if not isinstance(values, Iterable) or isinstance(values, bytes | Mapping):
        raise _refusal(name, cast("object", values), f"a list of {_LISTS[name]}")
    found = list(cast("Iterable[Any]", values))
    for value in found if name == "toolsets" else ():
        if not isinstance(value, str):
            raise _refusal(name, value, "names, each a text")
    return found


def check_max_turns(value: object) -> None:
    allowed = "a whole number, 1 or more"
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int):
        raise _refusal("max_turns", value, allowed)
    if value < 1:
        raise ValueError(f"max_turns: found the number {value}; allowed: {allowed}")


def checked_interrupt(value: object) -> Interrupt:
    """The interrupt that was given, or a new one."""
    if value is None:
        return Interrupt()
    if not isinstance(value, Interrupt):
        raise _refusal("interrupt", value, "a hermes.Interrupt, whose cancel() stops the turn")
    return value


def check_listener(value: object) -> None:
    """``value`` is what was given as ``on_event``."""
    if not callable(value) or inspect.iscoroutinefunction(value):
        found = "a coroutine function" if callable(value) else "no function"
        raise TypeError(f"on_event: found {found}; allowed: a plain function that takes an event")


def check_options(method: str, options: Mapping[str, object], known: Iterable[str]) -> None:
    """Refuse options that do not exist, and ``on_event`` where the events are iterated over."""
    for name in options:
        if name in known:
            continue
        if name == "on_event":
            raise TypeError(f"{method}() takes no on_event: iterate over its events, or use run() or arun()")
        names = sorted(known)
        hint = did_you_mean(name, names)
        raise TypeError(f"{method}() has no option {name!r} (options: {', '.join(names)}){hint}")
