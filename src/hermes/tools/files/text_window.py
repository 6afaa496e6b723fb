"""A window of lines from a byte stream, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(slots=True)
class TextWindow:
    """Lines ``first`` to ``first + len(lines) - 1`` of a text that has ``total_lines`` lines and ``size`` bytes."""

    first: int
    lines: list[bytes]
    total_lines: int
    size: int
    #: The last line of the window ends with a line break.
    ended: bool
    #: Some line was longer than the longest kept.
    cut: bool


def cut_window(chunks: Iterable[bytes], first: int, count: int, longest: int, budget: int) -> TextWindow:
    """Lines ``first`` (from 1) to ``first + count - 1``; the rest is only counted.

    Of each line at most ``longest`` bytes are kept, and no further line is taken once ``budget`` bytes are.
    """
    cutter = _Cutter(first, count, longest, budget)
    for chunk in chunks:
        cutter.feed(chunk)
    return cutter.window()


class _Cutter:
    """The window while the bytes arrive."""

    def __init__(self, first: int, count: int, longest: int, budget: int) -> None:
        self._first = first
        self._count = count
        self._longest = longest
        self._budget = budget
        self._lines: list[bytes] = []
        #: The beginning of an incomplete line.
        self._open: bytes | None = None
        self._newlines = self._size = self._kept = 0
        self._cut = False
        self._last_byte = b"\n"

    def feed(self, chunk: bytes) -> None:
        self._size += len(chunk)
        self._last_byte = chunk[-1:]
        skip = self._first - 1 - self._newlines
        if skip > 0:
            here = chunk.count(b"\n")
            if here < skip:
                self._newlines += here
                return
            chunk = chunk.split(b"\n", skip)[-1]
            self._newlines += skip
        rest = self._take_lines(chunk)
        if self._full():
            self._newlines += rest.count(b"\n")
        elif rest:
            line = rest if self._open is None else self._open + rest
            self._cut = self._cut or len(line) > self._longest
            self._open = line[: self._longest]

    def window(self) -> TextWindow:
        ended = self._open is None
        lines = self._lines if self._open is None else [*self._lines, self._open]
        total = self._newlines + (self._last_byte != b"\n")
        return TextWindow(self._first, lines, total, self._size, ended, self._cut)

    def _full(self) -> bool:
        return len(self._lines) >= self._count or self._kept >= self._budget

    def _take_lines(self, chunk: bytes) -> bytes:
        """Add the complete lines that fit; returns the rest of the chunk."""
        if self._full():
            return chunk
        *pieces, rest = chunk.split(b"\n", self._count - len(self._lines))
        if self._open is None and self._kept + len(chunk) < self._budget and self._all_short(chunk, pieces):
            self._lines += pieces  # fast path for small files
            self._newlines += len(pieces)
            self._kept += len(chunk)
            return rest
        for taken, piece in enumerate(pieces):
            if self._kept >= self._budget:
                return b"\n".join((*pieces[taken:], rest))
            line = piece if self._open is None else self._open + piece
            self._cut = self._cut or len(line) > self._longest
            self._open = None
            self._lines.append(line[: self._longest])
            self._newlines += 1
            self._kept += min(len(line), self._longest) + 1
        return rest

    def _all_short(self, chunk: bytes, pieces: list[bytes]) -> bool:
        return len(chunk) <= self._longest or max(map(len, pieces), default=0) <= self._longest
