"""Escapes in a text: HTML entities, JSON and percent escapes of single characters, and characters that nobody sees.

A secret may be written with some of its characters escaped, so that no list of its encodings contains it. The text
without escapes is searched then. A text that has none is not looked at closely.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import cache
from typing import NamedTuple

_INVISIBLE = "\u00ad\u200b\u200c\u200d\u200e\u200f\u2060\u2061\u2062\u2063\u2064\ufeff"
_ENTITY = (
    r"&#(?:[xX]0{0,6}(?P<entity>[2-7][0-9a-fA-F])(?![0-9a-fA-F])"
    r"|0{0,6}(?P<number>3[2-9]|[4-9][0-9]|1[01][0-9]|12[0-6])(?![0-9]));?"
)
_JSON = r"\\u(?:00(?P<json>[2-7][0-9a-fA-F])|00[aA][dD]|20(?:0[b-fB-F]|6[0-4])|[fF][eE][fF][fF])"
_PERCENT = r"%(?P<percent>[2-7][0-9a-fA-F])"


class _Piece(NamedTuple):
    """A part of the text: as it is, or one character that was escaped."""

    at: int
    start: int
    #: Where the escape ends; 0 for a part that is as it is.
    stop: int


class Unescaped:
    """A text without its escapes, and where its parts are in the text."""

    def __init__(self, text: str, pattern: re.Pattern[str]) -> None:
        self._pieces: list[_Piece] = []
        parts: list[str] = []
        end = size = 0
        for match in pattern.finditer(text):
            parts.append(text[end : match.start()])
            self._pieces.append(_Piece(size, end, 0))
            size += match.start() - end
            if match.lastgroup is not None:
                parts.append(chr(int(match[match.lastgroup], 10 if match.lastgroup == "number" else 16)))
                self._pieces.append(_Piece(size, *match.span()))
                size += 1
            end = match.end()
        self._pieces.append(_Piece(size, end, 0))
        self.text = "".join((*parts, text[end:]))

    def span(self, start: int, stop: int) -> tuple[int, int]:
        """Where a part of ``text`` is in the original one."""
        first, last = self._piece(start), self._piece(stop - 1)
        begin = first.start if first.stop else first.start + start - first.at
        return begin, last.stop or last.start + stop - last.at

    def _piece(self, position: int) -> _Piece:
        return self._pieces[bisect_right(self._pieces, position, key=lambda piece: piece.at) - 1]


def unescape(text: str) -> Unescaped | None:
    """The text without escapes; None when it has none."""
    has_invisible = not text.isascii() and any(char in text for char in _INVISIBLE)
    # A single character is found at the speed of memory.
    present = ("&" in text and "&#" in text, "\\" in text and "\\u" in text, "%" in text, has_invisible)
    if not any(present):
        return None
    # Each kind by itself first: a pattern that begins with certain characters is fast.
    if not any(is_here and _kinds()[kind].search(text) for kind, is_here in enumerate(present)):
        return None
    return Unescaped(text, _pattern(present))


_KINDS = (_ENTITY, _JSON, _PERCENT, f"[{_INVISIBLE}]")


@cache
def _kinds() -> list[re.Pattern[str]]:
    return [re.compile(kind) for kind in _KINDS]


@cache
def _pattern(present: tuple[bool, ...]) -> re.Pattern[str]:
    """A pattern for these kinds of escapes. In JSON in JSON an escape has several backslashes."""
    kinds = (_ENTITY, r"\\{0,7}" + _JSON, *_KINDS[2:])
    return re.compile("|".join(kind for kind, is_present in zip(kinds, present, strict=True) if is_present))
