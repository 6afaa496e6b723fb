"""Argument parser of every command, and the types of arguments that several commands share."""

from __future__ import annotations

import argparse
import time
from typing import Any

_UNITS = {"h": 3_600, "d": 86_400, "w": 604_800}


class CommandParser(argparse.ArgumentParser):
    """An ``ArgumentParser`` that accepts only full option names, in sub-commands too."""

    def __init__(self, *args: Any, **options: Any) -> None:
        # An abbreviation that works today would mean something else once an option is added.
        options.setdefault("allow_abbrev", False)
        super().__init__(*args, **options)


def positive_number(text: str) -> int:
    """A whole number, 1 or more."""
    return _whole_number(text, 1)


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
