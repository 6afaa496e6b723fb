"""Text helpers for answers of commands: columns, counts, times, costs."""

from __future__ import annotations

import time
from collections.abc import Sequence

from hermes.errors import HermesError

_TITLE_LENGTH = 48


def columns(rows: Sequence[Sequence[str]], indent: str = "  ") -> list[str]:
    """Rows as lines with their cells in columns; the last cell takes the room that is left."""
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    return [
        (indent + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))).rstrip()
        for row in rows
    ]


def shortened(text: str, limit: int = _TITLE_LENGTH) -> str:
    """The text on one line, cut to the limit."""
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def ago(then: float) -> str:
    """How long ago something was."""
    seconds = max(time.time() - then, 0)
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size:.0f} {unit} ago"
    return "just now"


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
