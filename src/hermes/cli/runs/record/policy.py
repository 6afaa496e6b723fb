"""``hermes policy``: what rules or a plugin would have refused or asked about in recorded sessions."""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path

from hermes.cli.arguments import moment
from hermes.cli.runs.trace.session_argument import open_store, session_named
from hermes.cli.terminal import one_line, plain, print_json
from hermes.config import hermes_home
from hermes.config.load import load_config
from hermes.log import discard_log

_EXAMPLES = """
examples:
  hermes policy backtest stricter.yaml                 a config.yaml with other approvals
  hermes policy backtest plugins/guard --since 7d      a plugin with a pre_tool_call hook
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the actions."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EXAMPLES
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    summary = "judge recorded tool calls by other rules; nothing runs"
    testing = actions.add_parser("backtest", help=summary, description=f"{summary[0].upper()}{summary[1:]}.")
    testing.add_argument("policy", metavar="FILE", help="a config.yaml, or the folder of a plugin")
    testing.add_argument("--session", metavar="ID", action="append", default=[], help="only this session")
    testing.add_argument(
        "--since", metavar="TIME", type=moment, default=0.0, help="only sessions used since then (default: 7d)"
    )
    testing.add_argument("--all", action="store_true", help="list allowed calls too")
    testing.add_argument("--json", action="store_true", help="print one JSON document")
    testing.set_defaults(run_action=_backtest)


def run(args: argparse.Namespace) -> int:
    """Run the chosen action."""
    return args.run_action(args)


def _backtest(args: argparse.Namespace) -> int:
    from hermes.journal.sessions import Sessions
    from hermes.record.audit.backtest import backtest

    discard_log()
    with open_store() as store:
        ids = [session_named(store, name) for name in args.session]
        if not ids:
            ids = [row.id for row in Sessions(store).list(limit=2**31) if row.updated_at >= args.since]
        judged = backtest(store, ids, Path(args.policy).expanduser(), load_config(hermes_home()).config)
    if args.json:
        print_json(judged)
        return 0
    counts = Counter(call.verdict for call in judged)
    for call in judged:
        if args.all or call.verdict != "allowed":
            where = f"{call.session_id} turn {call.turn} {call.step}"
            print(f"{call.verdict:<7}  {where}  {plain(call.tool)} {plain(call.subject)}")
            if call.reason:
                print(f"         {one_line(plain(call.reason), 160)}")
    names = ("blocked", "asked", "allowed")
    print(f"{len(judged)} calls in {len(ids)} sessions: " + ", ".join(f"{counts[name]} {name}" for name in names))
    return 0
