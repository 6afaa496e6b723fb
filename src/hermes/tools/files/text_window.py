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
    lines: list[bytes] = []
    #: The beginning of an incomplete line.
    begun: bytes | None = None
    newlines = size = kept = 0
    cut, last_byte = False, b"\n"
    for chunk in chunks:
        size += len(chunk)
        last_byte = chunk[-1:]
        skipped = min(max(first - 1 - newlines, 0), chunk.count(b"\n"))
        newlines += skipped
        if newlines < first - 1:
            continue
        rest = chunk.split(b"\n", skipped)[-1]
        if len(lines) < count and kept < budget:
            *pieces, rest = rest.split(b"\n", count - len(lines))
            for taken, piece in enumerate(pieces):
                if kept >= budget:
                    rest = b"\n".join((*pieces[taken:], rest))
                    break
                line, begun = (begun or b"") + piece, None
                cut |= len(line) > longest
                lines.append(line[:longest])
                newlines += 1
                kept += min(len(line), longest) + 1
        if len(lines) >= count or kept >= budget:
            newlines += rest.count(b"\n")
        elif rest:
            line = (begun or b"") + rest
            cut |= len(line) > longest
            begun = line[:longest]
    total = newlines + (last_byte != b"\n")
    return TextWindow(first, lines if begun is None else [*lines, begun], total, size, begun is None, cut)
