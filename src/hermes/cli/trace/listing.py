"""``hermes trace list``: the sessions used last, with what they did and took."""

from __future__ import annotations

import argparse
import contextlib
import time

from hermes.cli.text.terminal import fitted, one_line
from hermes.cli.trace.desk import NARROW, cost, guard, open_store, print_json, table, width
from hermes.config import hermes_home
from hermes.journal.runner import Runner
from hermes.sanitize import Redactor
from hermes.trace.journal.overview import Overview, overview

DEFAULT_LIMIT = 20
#: More than anybody has, for those who want them all.
_NO_LIMIT = 1_000_000_000


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--limit", metavar="N", type=_positive, help=f"show at most N (default {DEFAULT_LIMIT})")
    parser.add_argument("--all", action="store_true", help="show every session, those of sub-agents too")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(args: argparse.Namespace) -> int:
    limit: int = args.limit or (_NO_LIMIT if args.all else DEFAULT_LIMIT)
    with open_store() as store:
        rows = overview(store, limit=limit, children=args.all)
    if args.json:
        print_json(rows)
    elif not rows:
        print("No session is on record yet. Start one with: hermes chat --query TEXT")
    else:
        with contextlib.closing(Runner(hermes_home() / "runners")) as runner:
            redactor = guard()
            titles = ["TITLE", *(_title(row, runner, redactor) for row in rows)]
        figures = [_HEADINGS, *map(_row, rows)]
        if width() < NARROW:
            lines = table([(row[0], title) for row, title in zip(figures, titles, strict=True)], left=2)
        else:
            lines = [f"{line}  {title}" for line, title in zip(table(figures, left=2), titles, strict=True)]
        for line in lines:
            print(fitted(line, width()))
    return 0


_HEADINGS = ("ID", "STARTED", "TURNS", "CALLS", "TOOLS", "TOKENS", "COST")


def _row(row: Overview) -> tuple[str, ...]:
    calls = f"{row.model_calls:,}" + (f" ({row.failed_calls:,} failed)" if row.failed_calls else "")
    return (
        row.id,
        time.strftime("%Y-%m-%d %H:%M", time.localtime(row.started_at)),
        f"{row.turns:,}",
        calls,
        f"{row.tool_calls:,}",
        f"{row.tokens:,}",
        cost(row.cost_usd),
    )


def _title(row: Overview, runner: Runner, redactor: Redactor) -> str:
    """What it is about, with how it stands when that is worth a word."""
    is_cut_off = row.state == "running" and not (row.runner and runner.is_alive(row.runner))
    state = "cut off" if is_cut_off else row.state
    note = "" if state == "completed" else f"[{state}] "
    title = one_line(redactor.redact(row.title), 60) or "(no title)"
    return f"{note}{'> ' if row.parent_id else ''}{title}"


def _positive(text: str) -> int:
    number = int(text) if text.isdecimal() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number from 1 on, found {text!r}")
    return number
