"""The rows of the budget table and the forms it is printed in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import msgspec

TIMES = "\u00d7"
_HEADINGS = ("what", "ours", "floor", "ratio", "budget", "result")


@dataclass(frozen=True, slots=True)
class Row:
    """One measured line. ``met`` is None when there is no budget, or when it does not apply on this machine."""

    what: str
    ours: float
    floor: float | None
    unit: str
    #: In words; empty when there is none.
    budget: str
    met: bool | None
    note: str = ""

    @property
    def ratio(self) -> float | None:
        return self.ours / self.floor if self.floor else None

    @property
    def result(self) -> str:
        if self.met is None:
            return "not applicable" if self.budget else "no budget"
        return "ok" if self.met else "MISSED"

    def cells(self) -> tuple[str, ...]:
        floor = "" if self.floor is None else _figure(self.floor, self.unit)
        ratio = "" if self.ratio is None else _figure(self.ratio, TIMES)
        return (self.what, _figure(self.ours, self.unit), floor, ratio, self.budget, self.result)


def against_floor(
    what: str, ours: float, floor: float, unit: str, limit: float, *, condition: str = "", applies: bool = True
) -> Row:
    """A row whose budget is a multiple of the floor."""
    budget = f"≤ {limit:g}{TIMES} {condition}".rstrip()
    return Row(what, ours, floor, unit, budget, ours <= limit * floor if applies else None)


def _figure(value: float, unit: str) -> str:
    """Three digits say all that a measurement can."""
    digits = 0 if value >= 100 or value == int(value) else 1 if value >= 10 else 2
    return f"{value:,.{digits}f}" + (unit if unit == TIMES else f" {unit}")


def as_text(rows: Sequence[Row]) -> str:
    """The table for a terminal, with the notes below it."""
    lines = [_HEADINGS, *(row.cells() for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(_HEADINGS))]
    table = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    table.insert(1, "  ".join("-" * width for width in widths))
    notes = [f"{row.what}: {row.note}" for row in rows if row.note]
    return "\n".join([*table, "", *notes] if notes else table)


def as_markdown(rows: Sequence[Row]) -> str:
    """The table as it stands in docs/benchmarks.md: budgets only."""
    lines = [row.cells() for row in rows if row.budget]
    return "\n".join(f"| {' | '.join(line)} |" for line in (_HEADINGS, ("---",) * len(_HEADINGS), *lines))


def as_json(rows: Sequence[Row]) -> str:
    """The rows for a program."""
    documents = [{**asdict(row), "ratio": row.ratio, "result": row.result} for row in rows]
    return msgspec.json.format(msgspec.json.encode(documents)).decode()
