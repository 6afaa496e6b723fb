"""``hermes trace stats``: time and cost by model, tool or plugin."""

from __future__ import annotations

import argparse

from hermes.cli.arguments import moment
from hermes.cli.runs.trace.format import cost, duration, table, width
from hermes.cli.runs.trace.session_argument import open_store
from hermes.cli.terminal import cells, fitted, one_line, print_json
from hermes.trace.journal.latency import GROUPINGS, Figures, figures

_LONGEST_NAME = 50
_SHORTEST_NAME = 12


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--by", choices=GROUPINGS, default="model", help="group by (default: model)")
    since = "start, such as 12h, 7d, 4w or a date, or 'all' (default: 30d)"
    parser.add_argument("--since", type=moment, default=moment("30d"), metavar="WHEN", help=since)
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(args: argparse.Namespace) -> int:
    with open_store() as store:
        rows = figures(store, args.by, args.since)
    if args.json:
        print_json({"by": args.by, "since": args.since, "rows": rows})
    elif not rows:
        print("No data in that period. '--since all' shows everything.")
    else:
        for line in _fitting([_headings(args.by), *(_row(row, args.by) for row in rows)]):
            print(line)
    return 0


def _fitting(rows: list[tuple[str, ...]]) -> list[str]:
    """The table, with names cut to fit the width."""
    lines = table(rows)
    excess = max(map(cells, lines)) - width()
    if excess <= 0:
        return lines
    room = max(max(cells(row[0]) for row in rows) - excess, _SHORTEST_NAME)
    return table([(fitted(row[0], room), *row[1:]) for row in rows])


def _headings(grouping: str) -> tuple[str, ...]:
    if grouping == "plugin":
        return ("PLUGIN", "CALLS", "FAILED", "MEAN", "TOTAL", "COST")
    costs = ("COST",) if grouping == "model" else ()
    return (grouping.upper(), "CALLS", "FAILED", "P50", "P95", "TOTAL", *costs)


def _row(row: Figures, grouping: str) -> tuple[str, ...]:
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
