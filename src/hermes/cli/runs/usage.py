"""``hermes usage``: token use and cost by day, model or session."""

from __future__ import annotations

import argparse
import contextlib

from msgspec.structs import asdict

from hermes.cli.arguments import moment
from hermes.cli.runs.trace.format import cost, fitted_table
from hermes.cli.terminal import one_line, print_json
from hermes.commands.text import plural
from hermes.config import hermes_home
from hermes.journal.store.port import home_store
from hermes.journal.usage.spending import GROUPINGS, Grouping, Used, total, usage_by

_EXAMPLES = """
examples:
  hermes usage                            by day, the last 30 days
  hermes usage --by model --since 7d
  hermes usage --by session --since 2026-11-01 --json
"""
_LONGEST_NAME = 60


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EXAMPLES
    parser.add_argument("--by", choices=GROUPINGS, default="day", help="group by (default: day)")
    since = "start, such as 12h, 7d, 4w or a date, or 'all' (default: 30d)"
    parser.add_argument("--since", type=moment, default=moment("30d"), metavar="WHEN", help=since)
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(args: argparse.Namespace) -> int:
    """Print the totals."""
    with contextlib.closing(home_store(hermes_home())) as store:
        rows = usage_by(store, args.by, args.since) if store.exists() else list[Used]()
    if args.json:
        document = {
            "by": args.by,
            "since": args.since,
            "rows": [asdict(row) for row in rows],
            "total": asdict(total(rows)),
        }
        print_json(document)
        return 0
    for line in _lines(rows, args.by):
        print(line)
    return 0


def _lines(rows: list[Used], grouping: Grouping) -> list[str]:
    if not rows:
        return ["No model calls in that period. '--since all' shows everything."]
    everything = total(rows)
    rows_and_total = [(grouping.upper(), "CALLS", "IN", "CACHED", "OUT", "COST"), *map(_row, [*rows, everything])]
    lines = fitted_table(rows_and_total)
    if everything.unpriced:
        lines += ["", f"The cost of {plural(everything.unpriced, 'call')} is unknown and not included."]
    return lines


def _row(used: Used) -> tuple[str, ...]:
    name = f"{used.name} ({used.detail})" if used.detail else used.name
    calls = f"{used.calls:,}" if not used.failed else f"{used.calls:,} ({used.failed:,} failed)"
    counts = (used.prompt_tokens, used.cached_tokens, used.output_tokens)
    return (one_line(name, _LONGEST_NAME), calls, *(f"{count:,}" for count in counts), cost(used.cost_usd))
