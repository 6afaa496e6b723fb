"""``hermes trace show``: draws what a session did, when, and for how long."""

from __future__ import annotations

import argparse
import os
import sys

from hermes.cli.text.terminal import fitted, one_line, shows_unicode
from hermes.cli.trace.desk import guard, open_store, print_json, session_named, width
from hermes.errors import HermesError


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("session", nargs="?", metavar="SESSION", help="the session's id, or the beginning of it")
    parser.add_argument("--turn", metavar="N", type=int, help="only the turn of this number, from 1")
    parser.add_argument("--json", action="store_true", help="print the records as one JSON document")


def run(args: argparse.Namespace) -> int:
    from hermes.cli.trace.rows import side_rows, summary, turn_rows
    from hermes.cli.trace.waterfall import Style, draw
    from hermes.trace.journal.session import session_record

    with open_store() as store:
        session = session_record(store, session_named(store, args.session), guard())
    if args.json:
        print_json(session)
        return 0
    turns = list(enumerate(session.turns, start=1))
    if args.turn is not None:
        turns = [(number, turn) for number, turn in turns if number == args.turn]
        if not turns:
            raise HermesError(f"found --turn {args.turn}; the session has turns 1 to {len(session.turns)}")
    style = Style(width(), _has_unicode(), _has_colour())
    print(fitted(f"{session.id}  {one_line(session.title)}", style.width))
    print(fitted(summary(session), style.width))
    for number, turn in turns:
        print(f"\nturn {number}")
        for line in draw(list(turn_rows(session, turn)), style):
            print(line)
    if session.side_calls and args.turn is None:
        print("\nbetween turns")
        for line in draw(side_rows(session), style):
            print(line)
    return 0


def _has_unicode() -> bool:
    # What is read by a program, or kept in a file, has every sign.
    return not sys.stdout.isatty() or shows_unicode(sys.stdout.encoding, os.environ.get("TERM"))


def _has_colour() -> bool:
    is_plain = "NO_COLOR" in os.environ or os.environ.get("TERM", "dumb") == "dumb"
    return sys.stdout.isatty() and not is_plain
