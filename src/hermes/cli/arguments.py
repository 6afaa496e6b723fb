"""Argument parser of every command, and the types of arguments that several commands share."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable
from typing import Any, NoReturn

from hermes.cli.terminal import print_error, terminal_width

_HIGHEST_PORT = 65_535
_UNITS = {"h": 3_600, "d": 86_400, "w": 604_800}


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
            self.error(f"unknown option {option!r}{_suggestion(option.partition('=')[0], self._option_string_actions)}")
        if unknown:
            self.error(f"unexpected argument: {' '.join(unknown)}")
        return found, unknown

    def error(self, message: str) -> NoReturn:
        """Print the error and where the help is, without the whole usage, and exit with 2."""
        end = "" if message.endswith("?") else "."
        print_error(f"{message}{end} '{self.prog} --help' shows what is allowed.")
        self.exit(2)

    def _get_formatter(self) -> argparse.HelpFormatter:
        # Made for every argument. Told no width, it imports shutil, and with it all kinds of compression, to find one.
        make: Any = self.formatter_class
        return make(prog=self.prog, width=terminal_width(80) - 2)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        choices = None if action.choices is None else [str(choice) for choice in action.choices]
        if choices is not None and value not in action.choices:  # pyright: ignore[reportOperatorIssue]
            hint = _suggestion(str(value), choices) or f"; allowed: {', '.join(choices)}"
            name = str(action.metavar or action.dest).lower()
            raise argparse.ArgumentError(None, f"unknown {name} {value!r}{hint}")


def _suggestion(word: str, known: Iterable[str]) -> str:
    from difflib import get_close_matches

    close = get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"; did you mean {close[0]!r}?" if close else ""


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
        allowed = "12h, 7d, 4w, a date such as 2026-11-01, or all"
        raise argparse.ArgumentTypeError(f"found {text!r}; allowed: {allowed}") from None
