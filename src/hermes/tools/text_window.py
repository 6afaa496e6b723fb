"""A window of lines cut out of a stream of bytes, without holding the stream."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(slots=True)
class Window:
    """Lines ``first`` to ``first + len(lines) - 1`` of a text that has ``total_lines`` lines and ``size`` bytes."""

    first: int
    lines: list[bytes]
    total_lines: int
    size: int
    #: The last line of the window ends with a line break.
    ended: bool
    #: Some line was longer than the longest kept.
    cut: bool


def cut_window(chunks: Iterable[bytes], first: int, count: int, longest: int, budget: int) -> Window:
    """Lines ``first`` (from 1) to ``first + count - 1``; the rest is only counted.

    Of each line at most ``longest`` bytes are kept, and no further line is taken once ``budget`` bytes are.
    """
    lines: list[bytes] = []
    open_line: bytes | None = None  # the beginning of a line whose end is not in sight yet
    newlines = size = kept = 0
    cut = False
    last_byte = b"\n"
    for chunk in chunks:
        size += len(chunk)
        last_byte = chunk[-1:]
        if len(lines) >= count or kept >= budget:
            newlines += chunk.count(b"\n")
            continue
        skip = first - 1 - newlines
        if skip > 0:
            here = chunk.count(b"\n")
            if here < skip:
                newlines += here
                continue
            chunk = chunk.split(b"\n", skip)[-1]
            newlines += skip
        pieces = chunk.split(b"\n", count - len(lines))
        rest = pieces.pop()
        if open_line is None and kept + len(chunk) < budget and _all_short(chunk, pieces, longest):
            # Nothing is too long or too much: a small file takes this way.
            lines += pieces
            newlines += len(pieces)
            kept += len(chunk)
            pieces = []
        for taken, piece in enumerate(pieces):
            if kept >= budget:
                rest = b"\n".join((*pieces[taken:], rest))
                break
            line = piece if open_line is None else open_line + piece
            cut = cut or len(line) > longest
            open_line = None
            lines.append(line[:longest])
            kept += min(len(line), longest) + 1
            newlines += 1
        if len(lines) >= count or kept >= budget:
            newlines += rest.count(b"\n")
        elif rest:
            open_line = rest if open_line is None else open_line + rest
            cut = cut or len(open_line) > longest
            open_line = open_line[:longest]
    if open_line is not None:
        lines.append(open_line)
    total = newlines + (last_byte != b"\n")
    return Window(first, lines, total, size, open_line is None, cut)


def _all_short(chunk: bytes, pieces: list[bytes], longest: int) -> bool:
    return len(chunk) <= longest or max(map(len, pieces), default=0) <= longest
