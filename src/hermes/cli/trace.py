"""``hermes trace``: look at past runs."""

from __future__ import annotations

import argparse
import contextlib

import msgspec

from hermes.cli.terminal_text import plain
from hermes.config import hermes_home
from hermes.errors import HermesError
from hermes.journal.sessions import Sessions
from hermes.journal.store import Store
from hermes.trace.verify import verify


def configure(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    check = commands.add_parser("verify", help="check that a session is whole: every start has its one end")
    check.add_argument("session", nargs="?", help="the session's id, or the beginning of it")
    check.add_argument("--all", action="store_true", help="check every session")
    check.add_argument("--json", action="store_true", help="print the findings as one JSON document")


def run(args: argparse.Namespace) -> int:
    if bool(args.session) == args.all:
        raise HermesError("name one session, or give --all ('hermes sessions list' shows those there are)")
    with contextlib.closing(Store(hermes_home() / "state.db")) as store:
        sessions = Sessions(store)
        ids = (
            [row.id for row in sessions.list(limit=2**31, children=True)]
            if args.all
            else [sessions.get(args.session).id]
        )
        found = {session_id: verify(sessions.export(session_id)) for session_id in ids}
    if args.json:
        print(msgspec.json.encode(found).decode())
    else:
        for session_id, problems in found.items():
            print(f"{session_id}: {'whole' if not problems else 'not whole'}")
            for problem in problems:
                print(f"  {plain(str(problem))}")
    return 1 if any(found.values()) else 0
