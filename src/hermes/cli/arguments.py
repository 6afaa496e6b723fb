"""Argument parser of every command, and the types of arguments that several commands share."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NoReturn

from hermes.cli.terminal import print_error, terminal_width

_HIGHEST_PORT = 65_535
_UNITS = {"h": 3_600, "d": 86_400, "w": 604_800}

#: Words that people try -> names that commands have for it.
_OTHER_WORDS = {
    word: names
    for words, names in (
        (("install", "new", "create"), ("add", "new", "install")),
        (("uninstall", "delete", "remove", "rm"), ("remove", "delete", "revoke", "logout")),
        (("ls",), ("list",)),
        (("get", "view", "info"), ("show", "info", "status")),
        (("start", "launch"), ("run", "serve")),
    )
    for word in words
}

if TYPE_CHECKING:
    _SubParsersAction = argparse._SubParsersAction[argparse.ArgumentParser]  # pyright: ignore[reportPrivateUsage]
else:
    _SubParsersAction = argparse._SubParsersAction


class CommandParser(argparse.ArgumentParser):
    """An ``ArgumentParser`` that accepts only full option names, in sub-commands too."""

    def __init__(self, *args: Any, **options: Any) -> None:
        # An abbreviation that works today would mean something else once an option is added.
        options.setdefault("allow_abbrev", False)
        super().__init__(*args, **options)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The arguments; an unknown one is an error that names the option that was probably meant.

        Sub-commands are parsed by this method too, so that the error names theirs.
        """
        found, unknown = super().parse_known_args(args, namespace)
        option = next((word for word in unknown if word.startswith("-")), None)
        if option is not None:
            hint = _suggestion(option.partition("=")[0], self._option_string_actions, otherwise="")
            self.error(f"unknown option {option!r}{hint}")
        if unknown:
            self.error(f"unexpected argument: {' '.join(unknown)}")
        return found, unknown

    def add_subparsers(self, **options: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Actions whose help is a sentence: the line of the list, unless something else is given."""
        return super().add_subparsers(action=_Actions, **options)

    def error(self, message: str) -> NoReturn:
        """Print the error and where the help is, without the whole usage, and exit with 2."""
        if message.endswith(" required: ACTION"):
            actions = next(action for action in self._actions if isinstance(action, _Actions))
            message = f"an action is missing; allowed: {', '.join(actions.choices)}"
        end = "" if message.endswith("?") else "."
        print_error(f"{message}{end} See '{self.prog} --help'.")
        self.exit(2)

    def _get_formatter(self) -> argparse.HelpFormatter:
        # Made for every argument. Told no width, it imports shutil, and with it all kinds of compression, to find one.
        make: Any = self.formatter_class
        return make(prog=self.prog, width=terminal_width(80) - 2)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        choices = None if action.choices is None else [str(choice) for choice in action.choices]
        if choices is not None and value not in action.choices:  # pyright: ignore[reportOperatorIssue]
            hint = _suggestion(str(value), choices, otherwise=f"allowed: {', '.join(choices)}")
            noun = str(action.metavar or action.dest).lower()
            what = f"{action.option_strings[-1]}: unknown value" if action.option_strings else f"unknown {noun}"
            raise argparse.ArgumentError(None, f"{what} {value!r}{hint}")


class _Actions(_SubParsersAction):
    def add_parser(self, name: str, **options: Any) -> argparse.ArgumentParser:
        text = str(options.get("description") or options.get("help") or "")
        if text:
            options["description"] = f"{text[0].upper()}{text[1:]}{'' if text.endswith('.') else '.'}"
        return super().add_parser(name, **options)


def _suggestion(word: str, known: Iterable[str], *, otherwise: str) -> str:
    from hermes.errors import did_you_mean, nearest

    names = list(known)
    close = nearest(word, [*names, *_OTHER_WORDS])
    if close not in names:
        word = next((name for name in names if name in _OTHER_WORDS.get(close, ())), word)
    return did_you_mean(word, names, otherwise=otherwise)


def positive_number(text: str) -> int:
    """A whole number, 1 or more."""
    return _whole_number(text, 1)


def port_number(text: str) -> int:
    """A port of TCP; 0 is none, or any free one."""
    if not text.isdecimal() or int(text) > _HIGHEST_PORT:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port (0 to {_HIGHEST_PORT})")
    return int(text)


def count(text: str) -> int:
    """A whole number, 0 or more."""
    return _whole_number(text, 0)


def _whole_number(text: str, least: int) -> int:
    if not text.isdecimal() or int(text) < least:
        raise argparse.ArgumentTypeError(f"found {text!r}; allowed: a whole number, {least} or more")
    return int(text)


def moment(text: str) -> float:
    """A time in the past: a duration such as ``7d``, a date, or ``all`` for the beginning."""
    if text == "all":
        return 0.0
    number, unit = text[:-1], text[-1:]
    if unit in _UNITS and number.isdecimal() and len(number) < 6:
        return time.time() - int(number) * _UNITS[unit]
    from datetime import datetime

    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError, OSError):
        allowed = "a duration such as 12h, 7d or 4w, a date such as 2026-11-01, or all"
        raise argparse.ArgumentTypeError(f"found {text!r}; allowed: {allowed}") from None
