"""``hermes usage``: token use and cost by day, model or session."""

from __future__ import annotations

import argparse
import contextlib

from msgspec.structs import asdict

from hermes.base.config import hermes_home
from hermes.journal.store.port import home_store
from hermes.journal.usage.spending import GROUPINGS, Used, total, usage_by
from hermes.surfaces.cli.arguments import JSON, SINCE, Argument, CommandSpec
from hermes.surfaces.cli.report import Report, table
from hermes.surfaces.cli.runs.trace.format import cost
from hermes.surfaces.cli.terminal import one_line
from hermes.surfaces.commands.text import plural

_EXAMPLES = """
examples:
  hermes usage                            by day, the last 30 days
  hermes usage --by model --since 7d
  hermes usage --by session --since 2026-11-01 --json
"""
_LONGEST_NAME = 60


def _usage(args: argparse.Namespace) -> Report:
    with contextlib.closing(home_store(hermes_home())) as store:
        rows = usage_by(store, args.by, args.since) if store.exists() else list[Used]()
    everything = total(rows)
    document = {
        "by": args.by,
        "since": args.since,
        "rows": [asdict(row) for row in rows],
        "total": asdict(everything),
    }
    lines = table(
        [(args.by.upper(), "CALLS", "IN", "CACHED", "OUT", "COST"), *map(_usage_cells, [*rows, everything])], 1
    )
    if everything.unpriced:
        lines += ["", f"The cost of {plural(everything.unpriced, 'call')} is unknown and not included."]
    return Report(document, lines if rows else ["No model calls in that period. '--since all' shows everything."])


def _usage_cells(used: Used) -> tuple[str, ...]:
    name = f"{used.name} ({used.detail})" if used.detail else used.name
    calls = f"{used.calls:,}" if not used.failed else f"{used.calls:,} ({used.failed:,} failed)"
    counts = (used.prompt_tokens, used.cached_tokens, used.output_tokens)
    return (one_line(name, _LONGEST_NAME), calls, *(f"{count:,}" for count in counts), cost(used.cost_usd))


COMMAND = CommandSpec(
    run=_usage,
    arguments=(
        Argument("--by", "group by (default: day)", choices=GROUPINGS, default="day"),
        SINCE,
        JSON,
    ),
    epilog=_EXAMPLES,
)
