"""Text made safe to print: what a model or a file says must not drive the terminal, nor run over its edge."""

from __future__ import annotations

import re

_ESCAPE_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
#: Turns the sign before it into a picture, which is two cells wide.
_PICTURE = "\ufe0f"


def plain(text: str) -> str:
    """The text without escape sequences, control characters and direction overrides; newlines and tabs stay."""
    text = _CONTROL.sub("", _ESCAPE_SEQUENCE.sub("", text))
    return text.encode("utf-8", "replace").decode("utf-8")


def one_line(text: str, limit: int = 500) -> str:
    """The text on one line, plain and cut to a readable length."""
    line = " ".join(plain(text).split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def cells(text: str) -> int:
    """How many columns of a terminal the text takes. What terminals disagree about counts as wide."""
    return len(text) if text.isascii() else sum(map(_cells_of, text))


def fitted(line: str, room: int, ellipsis: str = "…") -> str:
    """The line, cut to as many columns as there is room for."""
    if len(line) <= room and line.isascii():
        return line
    room_when_cut = room - cells(ellipsis)
    if room_when_cut < 0:
        ellipsis, room_when_cut = "", room
    used, end = 0, 0  # end: as much as fits with the sign that something was cut off
    for position, character in enumerate(line):
        used += _cells_of(character)
        if used > room:
            return f"{line[:end]}{ellipsis}"
        if used <= room_when_cut:
            end = position + 1
    return line


def short_duration(seconds: float) -> str:
    """A duration in few characters."""
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def shows_unicode(encoding: str | None, term: str | None) -> bool:
    """Whether a terminal of this kind and encoding has more signs than those of ASCII."""
    return (encoding or "").lower().replace("_", "-") in ("utf-8", "utf8") and term != "dumb"


def _cells_of(character: str) -> int:
    if character.isascii():
        return 1
    from unicodedata import category, east_asian_width

    if character == _PICTURE:
        return 1
    if category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if east_asian_width(character) in "WF" else 1
