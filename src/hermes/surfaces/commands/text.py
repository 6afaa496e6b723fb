"""Text helpers for answers of commands: columns, counts, times, costs."""

from __future__ import annotations

import time
from collections.abc import Sequence

from hermes.base.errors import HermesError

_TITLE_LENGTH = 48


#: The least room in which the last cell of a row is wrapped beside the others.
_NARROWEST = 16


def columns(rows: Sequence[Sequence[str]], indent: str = "  ", *, width: int | None = None) -> list[str]:
    """Rows as lines with their cells in columns; the last cell takes the room that is left.

    With a width, the last cell is wrapped in its column; a table that is still too wide is shown as records.
    """
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    start = len(indent) + sum(size + 2 for size in widths[:-1])
    if width is not None and start + min(widths[-1], _NARROWEST) > width:
        has_heads = all(cell.isupper() for cell in rows[0])
        heads = [f"{head.lower()}: " for head in rows[0]] if has_heads else [""] * len(rows[0])
        return [line for row in rows[has_heads:] for line in _record(row, heads, indent, width)]
    lines: list[str] = []
    for row in rows:
        cells = [cell.ljust(size) for cell, size in zip(row[:-1], widths[:-1], strict=True)]
        last = [row[-1]] if width is None else wrapped(row[-1], width - start) or [""]
        lines.append((indent + "  ".join([*cells, last[0]])).rstrip())
        lines += [" " * start + line for line in last[1:]]
    return lines


def _record(row: Sequence[str], heads: Sequence[str], indent: str, width: int) -> list[str]:
    """A row as a paragraph: its first line sticks out."""
    words = "  ".join(f"{head}{cell.strip()}" for head, cell in zip(heads, row, strict=True) if cell.strip())
    first, *rest = wrapped(words, max(width - len(indent) - 2, 10)) or [""]
    return [indent + first, *(f"{indent}  {line}" for line in rest)]


def wrapped(text: str, width: int) -> list[str]:
    """The text in lines of at most ``width`` characters, broken at blanks where there are some."""
    if len(text) <= width:
        return [text] if text else []
    import textwrap

    return textwrap.wrap(text, max(width, 1), break_on_hyphens=False)


def shortened(text: str, limit: int = _TITLE_LENGTH) -> str:
    """The text on one line, cut to the limit."""
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def ago(then: float) -> str:
    """How long ago something was."""
    seconds = time.time() - then
    return f"{duration(seconds)} ago" if seconds >= 60 else "just now"


def duration(seconds: float) -> str:
    """A duration in whole units: ``12 s``, ``3 min``, ``2 h``."""
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size:.0f} {unit}"
    return f"{seconds:.0f} s"


def dollars(cost: float | None) -> str:
    """A cost in US dollars; empty when it is unknown."""
    return "" if cost is None else f"${cost:.4f}"


def plural(count: int, noun: str) -> str:
    """``1 turn``, ``2 turns``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def positive(text: str, what: str, default: int) -> int:
    """The number a person gave, or the default when they gave none."""
    if not text:
        return default
    if not text.isdecimal() or not 1 <= int(text) <= 1_000_000:
        raise HermesError(f"{what} takes a whole number from 1 on, not {text!r}")
    return int(text)
