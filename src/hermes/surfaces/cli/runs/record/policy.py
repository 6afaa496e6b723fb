"""``hermes policy``: what rules or a plugin would have refused or asked about in recorded sessions."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hermes.base.config import hermes_home
from hermes.base.config.load import load_config
from hermes.base.log import discard_log
from hermes.surfaces.cli.arguments import JSON, Action, Argument, CommandSpec, flag, moment, repeatable
from hermes.surfaces.cli.report import Report
from hermes.surfaces.cli.runs.trace.session_argument import open_store, session_named
from hermes.surfaces.cli.terminal import one_line

if TYPE_CHECKING:
    from hermes.record.audit.backtest import JudgedCall

_EXAMPLES = """
examples:
  hermes policy backtest stricter.yaml                 a config.yaml with other approvals
  hermes policy backtest plugins/guard --since 7d      a plugin with a pre_tool_call hook
"""


def _backtest(args: argparse.Namespace) -> Report:
    from hermes.journal.sessions import Sessions
    from hermes.record.audit.backtest import backtest

    discard_log()
    with open_store() as store:
        ids = [session_named(store, name) for name in args.session]
        if not ids:
            ids = [row.id for row in Sessions(store).list(limit=2**31) if row.updated_at >= args.since]
        judged = backtest(store, ids, Path(args.policy).expanduser(), load_config(hermes_home()).config)
    return Report(judged, _verdict_lines(judged, len(ids), shows_all=args.all))


def _verdict_lines(judged: Sequence[JudgedCall], sessions: int, *, shows_all: bool) -> Iterator[str]:
    for call in judged:
        if shows_all or call.verdict != "allowed":
            yield f"{call.verdict:<7}  {call.session_id} turn {call.turn} {call.step}  {call.tool} {call.subject}"
            if call.reason:
                yield f"         {one_line(call.reason, 160)}"
    counts = Counter(call.verdict for call in judged)
    totals = ", ".join(f"{counts[name]} {name}" for name in ("blocked", "asked", "allowed"))
    yield f"{len(judged)} calls in {sessions} sessions: {totals}"


COMMAND = CommandSpec(
    epilog=_EXAMPLES,
    actions=(
        Action("backtest", _backtest, "judge recorded tool calls by other rules; nothing runs").takes(
            Argument("policy FILE", "a config.yaml, or the folder of a plugin"),
            repeatable("--session ID", "only this session"),
            Argument("--since TIME", "only sessions used since then (default: 7d)", type=moment, default=0.0),
            flag("--all", "list allowed calls too"),
            JSON,
        ),
    ),
)
