"""``hermes trace``: lists, draws, exports, follows, sums up and verifies past runs."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import time
from pathlib import Path
from typing import Any

import msgspec

from hermes.cli.arguments import count, positive_number
from hermes.cli.runs.trace import compare, export, page, stats
from hermes.cli.runs.trace.format import NARROW, cost, event_text, table, width
from hermes.cli.runs.trace.session_argument import open_store, session_named
from hermes.cli.terminal import fitted, has_colour, one_line, plain, print_json, shows_unicode
from hermes.config import hermes_home
from hermes.config.secrets import home_redactor
from hermes.errors import HermesError
from hermes.journal.runner import Runner
from hermes.journal.sessions import Sessions
from hermes.sanitize import Redactor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hermes.trace.clean import Cleaner
    from hermes.trace.journal.overview import Overview
    from hermes.trace.journal.tail import StreamedEvent

DEFAULT_LIMIT = 20
#: More than any journal holds.
_NO_LIMIT = 1_000_000_000
_POLL_SECONDS = 0.2

_EXAMPLES = """
An id may be shortened to a unique beginning. Without one, the last session is used.

examples:
  hermes trace show                                  timeline of the last session
  hermes trace export 20250301_1412 --to atif -o run.json
  hermes trace export --to otlp | curl -sf -H 'content-type: application/json' -d @- URL
  hermes trace html -o run.html                      the timeline as one file for a browser
  hermes trace tail --follow                         new events of all sessions
  hermes trace stats --by tool --since 7d
  hermes trace verify --all                          every start has exactly one end
  hermes trace verify run.json                       a file in the format atif or atof
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the actions."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EXAMPLES
    actions = parser.add_subparsers(metavar="ACTION")
    parser.set_defaults(run_action=_list, limit=None, all=False, json=False)
    for name, declare, action, summary in (
        ("list", _configure_list, _list, "list the last sessions with their totals (the default)"),
        ("show", _configure_show, _show, "draw the timeline of a session"),
        ("export", export.configure, export.run, "write a session in a format of other tools, secrets redacted"),
        ("html", page.configure, page.run, "write the timeline of a session as one HTML file, secrets redacted"),
        ("tail", _configure_tail, _tail, "print the last events, and new ones with --follow"),
        ("stats", stats.configure, stats.run, "show time and cost by model, tool or plugin"),
        ("verify", _configure_verify, _verify, "check that a session or a file is complete"),
        ("diff", compare.configure_diff, compare.run_diff, "compare two sessions or bundles, step by step"),
        ("bisect", compare.configure_bisect, compare.run_bisect, "find the setting or plugin that changes a run"),
    ):
        made = actions.add_parser(name, help=summary)
        declare(made)
        made.set_defaults(run_action=action)


def run(args: argparse.Namespace) -> int:
    """Run the chosen action."""
    return args.run_action(args)


# -- list -----------------------------------------------------------------------------------------------------------

_HEADINGS = ("ID", "STARTED", "TURNS", "CALLS", "TOOLS", "TOKENS", "COST")


def _configure_list(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--limit", metavar="N", type=positive_number, help=f"show at most N (default {DEFAULT_LIMIT})")
    parser.add_argument("--all", action="store_true", help="show every session, including those of child agents")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def _list(args: argparse.Namespace) -> int:
    from hermes.trace.journal.overview import overview

    limit: int = args.limit or (_NO_LIMIT if args.all else DEFAULT_LIMIT)
    with open_store() as store, contextlib.closing(store.new_runner()) as runner:
        rows = overview(store, limit=limit, children=args.all)
        redactor = home_redactor(hermes_home())
        titles = ["TITLE", *(_title(row, runner, redactor) for row in rows)]
    if args.json:
        print_json(rows)
    elif not rows:
        print("No sessions yet. Start one with: hermes chat --query TEXT")
    else:
        figures = [_HEADINGS, *map(_overview_row, rows)]
        if width() < NARROW:
            lines = table([(row[0], title) for row, title in zip(figures, titles, strict=True)], left=2)
        else:
            lines = [f"{line}  {title}" for line, title in zip(table(figures, left=2), titles, strict=True)]
        for line in lines:
            print(fitted(line, width()))
    return 0


def _overview_row(row: Overview) -> tuple[str, ...]:
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
    """The title, with the state in front unless the session is completed."""
    is_cut_off = row.state == "running" and not (row.runner and runner.is_alive(row.runner))
    state = "cut off" if is_cut_off else row.state
    note = "" if state == "completed" else f"[{state}] "
    title = one_line(redactor.redact(row.title), 60) or "(no title)"
    return f"{note}{'> ' if row.parent_id else ''}{title}"


# -- show -----------------------------------------------------------------------------------------------------------


def _configure_show(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("session", nargs="?", metavar="SESSION", help="a session's id, or its beginning")
    parser.add_argument("--turn", metavar="N", type=int, help="only turn N, counted from 1")
    parser.add_argument("--json", action="store_true", help="print the records as one JSON document")


def _show(args: argparse.Namespace) -> int:
    from hermes.cli.runs.trace.timeline import ChartStyle, draw, side_rows, summary, turn_rows
    from hermes.trace.journal.session import session_record

    with open_store() as store:
        session = session_record(store, session_named(store, args.session), home_redactor(hermes_home()))
    if args.json:
        print_json(session)
        return 0
    turns = list(enumerate(session.turns, start=1))
    if args.turn is not None:
        turns = [(number, turn) for number, turn in turns if number == args.turn]
        if not turns:
            raise HermesError(f"found --turn {args.turn}; the session has turns 1 to {len(session.turns)}")
    style = ChartStyle(width(), _has_unicode(), has_colour())
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
    # Files and pipes take every character.
    return not sys.stdout.isatty() or shows_unicode(sys.stdout.encoding, os.environ.get("TERM"))


# -- tail -----------------------------------------------------------------------------------------------------------


def _configure_tail(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("session", nargs="?", metavar="SESSION", help="only this session (default: all)")
    parser.add_argument("-f", "--follow", action="store_true", help="keep printing new events, of any process")
    parser.add_argument(
        "-n", "--events", type=count, default=20, metavar="N", help="events to start with (default: 20)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")


def _tail(args: argparse.Namespace) -> int:
    from hermes.trace.clean import Cleaner
    from hermes.trace.journal.tail import EventStream

    with open_store() as store:
        clean = Cleaner(home_redactor(hermes_home()))
        stream = EventStream(store, session_named(store, args.session) if args.session else None)
        for event in stream.last(args.events):
            _print_event(event, clean, args.json)
        while args.follow:
            sys.stdout.flush()
            time.sleep(_POLL_SECONDS)
            for event in stream.new():
                _print_event(event, clean, args.json)
    return 0


def _print_event(event: StreamedEvent, clean: Cleaner, as_json: bool) -> None:
    body: Any = clean.value(event.body)
    if as_json:
        fields = {name: getattr(event, name) for name in event.__struct_fields__}
        print(msgspec.json.encode({**fields, "body": body}).decode())
        return
    clock = time.strftime("%H:%M:%S", time.localtime(event.at))
    name = f"{event.kind} {event.key}".strip()
    text = one_line(event_text(event.kind, event.key, body))
    room = width()
    start = f"{event.session_id:<22}  {name:<22}" if room >= NARROW else name
    print(fitted(f"{clock}  {start}  {text}", room))


# -- verify ---------------------------------------------------------------------------------------------------------


def _configure_verify(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("session", nargs="?", metavar="SESSION", help="a session's id, its beginning, or a file")
    parser.add_argument("--all", action="store_true", help="check every session")
    parser.add_argument("--atif", metavar="FILE", action="append", default=[], help="check an ATIF document")
    parser.add_argument("--atof", metavar="FILE", action="append", default=[], help="check an ATOF stream")
    parser.add_argument("--json", action="store_true", help="print the problems as one JSON document")


def _verify(args: argparse.Namespace) -> int:
    files = [*((path, "atif") for path in args.atif), *((path, "atof") for path in args.atof)]
    if bool(args.session) + args.all + bool(files) != 1:
        raise HermesError("give one session or file, or --all ('hermes trace list' shows the sessions)")
    if args.session and Path(args.session).is_file():
        files = [(args.session, "")]
    found = {path: _check_file(Path(path), form) for path, form in files} if files else _check_sessions(args)
    if args.json:
        print(msgspec.json.encode(found).decode())
    else:
        for name, problems in found.items():
            print(f"{name}: {'valid' if not problems else 'invalid'}")
            for problem in problems:
                print(f"  {plain(str(problem))}")
    return 1 if any(found.values()) else 0


def _check_sessions(args: argparse.Namespace) -> dict[str, list[Any]]:
    from hermes.journal.history.inspection import inspect_session
    from hermes.trace.verify.session import verify

    with open_store() as store:
        sessions = Sessions(store)
        ids = (
            [row.id for row in sessions.list(limit=2**31, children=True)]
            if args.all
            else [session_named(store, args.session)]
        )
        return {session_id: list(verify(inspect_session(store, session_id))) for session_id in ids}


def _check_file(path: Path, form: str) -> list[Any]:
    from hermes.trace.verify.session import verify_file

    try:
        return list(verify_file(path.read_bytes(), form))
    except OSError as error:
        raise HermesError(f"{path}: cannot be read: {error.strerror}") from None
