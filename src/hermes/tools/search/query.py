"""Search query and its results per file, for both engines, with limits on time and matches."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hermes.base.scope import Interrupt

if TYPE_CHECKING:
    from hermes.tools.terminal.supervisor import ProcessSupervisor

#: Characters of a matching line that are shown.
LINE_SHOWN = 500

#: Time limit; a search then returns what it has found.
MAX_SECONDS = 60.0

#: Limit on matches; the search then stops.
MAX_MATCHES = 10_000

_POSIX_CLASSES = {
    "[:alpha:]": "a-zA-Z",
    "[:digit:]": "0-9",
    "[:alnum:]": "a-zA-Z0-9",
    "[:upper:]": "A-Z",
    "[:lower:]": "a-z",
    "[:space:]": r"\s",
    "[:blank:]": r" \t",
    "[:punct:]": r"!-/:-@\[-`{-~",
    "[:xdigit:]": "0-9A-Fa-f",
    "[:word:]": r"\w",
}

_POSIX_CLASS = re.compile(r"\[:[a-z]+:\]")


class SearchStopped(Exception):
    """A limit was reached; the results so far are valid."""


@dataclass(slots=True)
class FileHits:
    """The matches in one file: how many, and its lines as (number, is a match, text) with their context."""

    path: str
    count: int = 0
    lines: list[tuple[int, bool, str]] = field(default_factory=list[tuple[int, bool, str]])

    def add(self, number: int, is_match: bool, text: str) -> None:
        """Add a line; only the first matches are kept, the rest are counted."""
        self.count += is_match
        if self.count <= MAX_MATCHES:
            text = text.rstrip("\r")
            shown = text if len(text) <= LINE_SHOWN else text[:LINE_SHOWN] + "…"
            self.lines.append((number, is_match, shown))


@dataclass(slots=True)
class Query:
    """A search for ``pattern`` in the files below ``root`` that ``wanted`` accepts (relative paths)."""

    pattern: str
    root: str
    interrupt: Interrupt
    file_glob: str | None = None
    wanted: Callable[[str], bool] | None = None
    context: int = 0
    #: Only counts are needed, so lines are not kept.
    counts_only: bool = False
    #: Protected files that were left out.
    refused: list[str] = field(default_factory=list[str])
    #: Ends what was started for the search when Hermes is gone.
    supervisor: ProcessSupervisor | None = None
    deadline: float = field(default_factory=lambda: time.monotonic() + MAX_SECONDS)

    def check(self) -> None:
        """Raise when the search must end."""
        self.interrupt.check()
        if time.monotonic() > self.deadline:
            raise SearchStopped(f"the search was stopped after {MAX_SECONDS:g} s")


def python_pattern(pattern: str) -> str:
    """``pattern`` for Python's ``re``: POSIX classes spelled out, other brackets inside a set taken literally.

    Python would warn about such brackets because their meaning may change one day.
    """
    parts: list[str] = []
    at, in_set = 0, False
    while at < len(pattern):
        size = 1
        piece = pattern[at]
        if piece == "\\":
            size = 2
            piece = pattern[at : at + 2]
        elif not in_set and piece == "[":
            in_set = True
            size = 2 if pattern[at + 1 : at + 2] == "^" else 1
            size += pattern[at + size : at + size + 1] == "]"  # a leading bracket is an ordinary member
            piece = pattern[at : at + size].replace("]", "\\]")
        elif in_set and (posix := _POSIX_CLASS.match(pattern, at)) and posix[0] in _POSIX_CLASSES:
            size = len(posix[0])
            piece = _POSIX_CLASSES[posix[0]]
        elif in_set and (piece in "[&~|" or (piece == "-" and pattern[at - 1] == "-")):
            piece = "\\" + piece
        elif piece == "]":
            in_set = False
        parts.append(piece)
        at += size
    return "".join(parts)
