"""``hermes trace stats``: time and cost by model, tool or plugin."""

from __future__ import annotations

import argparse

from hermes.cli.report import Report, aligned
from hermes.cli.runs.trace.format import cost, duration, width
from hermes.cli.runs.trace.session_argument import open_store
from hermes.cli.terminal import cells, fitted, one_line
from hermes.journal.usage.latency import Figures, figures

_LONGEST_NAME = 50
_SHORTEST_NAME = 12


def run_stats(args: argparse.Namespace) -> Report:
    """Time and cost of past calls."""
    with open_store() as store:
        rows = figures(store, args.by, args.since)
    lines = _fitting([_headings(args.by), *(_figure_cells(row, args.by) for row in rows)])
    nothing = "No data in that period. '--since all' shows everything."
    return Report({"by": args.by, "since": args.since, "rows": rows}, lines if rows else [nothing])


def _fitting(rows: list[tuple[str, ...]]) -> list[str]:
    """The table, with names cut to fit the width."""
    lines = aligned(rows)
    excess = max(map(cells, lines)) - width()
    if excess <= 0:
        return lines
    room = max(max(cells(row[0]) for row in rows) - excess, _SHORTEST_NAME)
    return aligned([(fitted(row[0], room), *row[1:]) for row in rows])


def _headings(grouping: str) -> tuple[str, ...]:
    if grouping == "plugin":
        return ("PLUGIN", "CALLS", "FAILED", "MEAN", "TOTAL", "COST")
    costs = ("COST",) if grouping == "model" else ()
    return (grouping.upper(), "CALLS", "FAILED", "P50", "P95", "TOTAL", *costs)


def _figure_cells(row: Figures, grouping: str) -> tuple[str, ...]:
    name = f"{row.name} ({row.detail})" if row.detail else row.name
    start = (one_line(name, _LONGEST_NAME), f"{row.calls:,}", f"{row.failed:,}")
    if grouping == "plugin":
        # Exported events are counted but not timed.
        return (*start, _short(row.total / row.calls), duration(row.total or None), cost(row.cost_usd))
    costs = (cost(row.cost_usd),) if grouping == "model" else ()
    return (*start, duration(row.p50), duration(row.p95), duration(row.total), *costs)


def _short(seconds: float) -> str:
    """A duration; callbacks take microseconds."""
    return f"{seconds * 1e6:.0f} µs" if 0 < seconds < 0.001 else duration(seconds or None)
