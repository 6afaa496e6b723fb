"""Draws rows as a waterfall: what it was, a bar where it lies in its turn, how long it took, how it went."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from hermes.cli.text.terminal import cells, fitted
from hermes.cli.trace.desk import NARROW, duration
from hermes.cli.trace.rows import Kind, Row

_SHARE_OF_LABEL = 0.36
_SHARE_OF_BAR = 0.24
_DURATION_WIDTH = 8

_COLOURS: dict[Kind, str] = {
    "turn": "1",
    "model": "36",
    "attempt": "36",
    "tool": "32",
    "approval": "33",
    "child": "35",
    "side": "34",
    "mark": "2",
}
_FAILED = "31"


@dataclass(frozen=True, slots=True)
class Style:
    """How wide, and with which signs."""

    width: int
    unicode: bool
    colour: bool


def draw(rows: list[Row], style: Style) -> Iterator[str]:
    """One turn, a line for each row. The first row sets the scale."""
    scale = _Scale(rows)
    bar_width = int(style.width * _SHARE_OF_BAR)
    is_narrow = style.width < NARROW
    # Without room for how it went, what it was gets that too.
    label_width = style.width - bar_width - _DURATION_WIDTH - 4 if is_narrow else int(style.width * _SHARE_OF_LABEL)
    for row in rows:
        name = "" if row.kind == "turn" else f"{row.kind} "
        label = fitted("  " * row.depth + name + row.label, label_width)
        label += " " * (label_width - cells(label))
        bar = scale.bar(row, bar_width, style.unicode)
        took = duration(None if row.ended_at is None else row.ended_at - row.started_at)
        start = f"{label}  {bar}  {'' if row.kind == 'mark' else took:>{_DURATION_WIDTH}}  "
        detail = "" if is_narrow else fitted(row.detail, max(style.width - cells(start), 8))
        if style.colour:
            colour = _FAILED if row.failed else _COLOURS[row.kind]
            yield f"\x1b[{colour}m{label}  {bar}\x1b[0m{start[len(label) + len(bar) + 2 :]}{detail}".rstrip()
        else:
            yield f"{start}{detail}".rstrip()


class _Scale:
    """From moments to columns."""

    def __init__(self, rows: list[Row]) -> None:
        self._start = min(row.started_at for row in rows)
        self._end = max(row.ended_at or row.started_at for row in rows)

    def bar(self, row: Row, columns: int, unicode: bool) -> str:
        """Where the row lies; whatever little it took shows."""
        whole = max(self._end - self._start, 1e-6)
        first = min(int((row.started_at - self._start) / whole * columns), columns - 1)
        ended_at = self._end if row.ended_at is None else row.ended_at
        stop = min(math.ceil((ended_at - self._start) / whole * columns), columns)
        if row.kind == "mark":
            return (" " * first + ("◆" if unicode else "*")).ljust(columns)
        sign = ("▒" if unicode else "=") if row.kind in ("turn", "child", "approval") else ("█" if unicode else "#")
        return (" " * first + sign * max(stop - first, 1)).ljust(columns)
