"""``hermes trace``: lists, draws, exports, follows, sums up and verifies past runs."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import time
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from hermes.base.config import hermes_home
from hermes.base.config.secrets import home_redactor
from hermes.base.errors import HermesError
from hermes.base.sanitize import Redactor
from hermes.journal.runner import Runner
from hermes.journal.sessions import Sessions
from hermes.journal.usage.latency import GROUPINGS, Figures, figures
from hermes.surfaces.cli.arguments import (
    JSON,
    SINCE,
    Action,
    Argument,
    CommandSpec,
    count,
    flag,
    positive_number,
    repeatable,
)
from hermes.surfaces.cli.report import Report, aligned
from hermes.surfaces.cli.runs.trace.format import NARROW, cost, duration, event_text, width
from hermes.surfaces.cli.runs.trace.session_argument import open_store, session_named
from hermes.surfaces.cli.terminal import cells, fitted, has_colour, one_line, shows_unicode, write_private_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hermes.journal.history.lists import Overview
    from hermes.journal.history.tail import StreamedEvent
    from hermes.trace.records import SessionRecord

DEFAULT_LIMIT = 20
#: More than any journal holds.
_NO_LIMIT = 1_000_000_000
_POLL_SECONDS = 0.2
_LONGEST_NAME = 50
_SHORTEST_NAME = 12
#: The modules of ``hermes.trace.formats``, and the function of each: it gives one document, or lines.
FORMATS = {"atif": "document", "atof": "lines", "otlp": "export", "openinference": "export", "jsonl": "lines"}
#: Formats of spans lose the same.
_SPANS_CANNOT_HOLD = (
    "Approvals and marks as spans: they are events of the span they belong to.",
    "A session as a span: every turn is a trace of its own, and the session an attribute of its spans.",
    "Turns copied into a branch: they belong to their original session.",
    "A turn that has not ended: its span ends where the record stops.",
    "Images: only placeholders are kept.",
)

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


_HEADINGS = ("ID", "STARTED", "TURNS", "CALLS", "TOOLS", "TOKENS", "COST")


def _list(args: argparse.Namespace) -> Report:
    from hermes.journal.history.lists import overview

    limit: int = args.limit or (_NO_LIMIT if args.all else DEFAULT_LIMIT)
    with open_store() as store, contextlib.closing(store.new_runner()) as runner:
        rows = overview(store, limit=limit, children=args.all)
        redactor = home_redactor(hermes_home())
        titles = ["TITLE", *(_title(row, runner, redactor) for row in rows)]
    figures = [_HEADINGS, *map(_overview_row, rows)]
    if width() < NARROW:
        lines = aligned([(row[0], title) for row, title in zip(figures, titles, strict=True)], left=2)
    else:
        lines = [f"{line}  {title}" for line, title in zip(aligned(figures, left=2), titles, strict=True)]
    nothing = "No sessions yet. Start one with: hermes chat --query TEXT"
    return Report(rows, [fitted(line, width()) for line in lines] if rows else [nothing])


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


def _show(args: argparse.Namespace) -> Report:
    from hermes.trace.journal.session import session_record

    with open_store() as store:
        session = session_record(store, session_named(store, args.session), home_redactor(hermes_home()))
    if args.turn is not None and not 1 <= args.turn <= len(session.turns):
        raise HermesError(f"found --turn {args.turn}; the session has turns 1 to {len(session.turns)}")
    return Report(session, _chart_lines(session, args.turn), is_painted=True)


def _chart_lines(session: SessionRecord, only: int | None) -> Iterator[str]:
    from hermes.surfaces.cli.runs.trace.timeline import ChartStyle, draw, side_rows, summary, turn_rows

    # Files and pipes take every character.
    has_unicode = not sys.stdout.isatty() or shows_unicode(sys.stdout.encoding, os.environ.get("TERM"))
    style = ChartStyle(width(), has_unicode, has_colour())
    yield fitted(f"{session.id}  {one_line(session.title)}", style.width)
    yield fitted(summary(session), style.width)
    for number, turn in enumerate(session.turns, start=1):
        if only in (None, number):
            yield f"\nturn {number}"
            yield from draw(list(turn_rows(session, turn)), style)
    if session.side_calls and only is None:
        yield "\nbetween turns"
        yield from draw(side_rows(session), style)


def _export(args: argparse.Namespace) -> Report:
    module = import_module(f"hermes.trace.formats.{args.to}")
    if args.explain:
        lost = getattr(module, "CANNOT_HOLD", _SPANS_CANNOT_HOLD)
        return Report(None, [f"{args.to} cannot represent, or represents differently:", *(f"- {one}" for one in lost)])
    from hermes.trace.journal.session import session_record

    with open_store() as store:
        record = session_record(store, session_named(store, args.session), home_redactor(hermes_home()))
    made = getattr(module, FORMATS[args.to])(record)
    lines: Iterable[bytes] = made if FORMATS[args.to] == "lines" else (msgspec.json.encode(made),)
    return _written(b"\n".join(lines).decode(), args.output)


def _html(args: argparse.Namespace) -> Report:
    from hermes.surfaces.web.documents.session import session_document
    from hermes.trace.clean import Cleaner

    with open_store() as store, contextlib.closing(store.new_runner()) as runner:
        session_id = session_named(store, args.session)
        text = session_document(store, session_id, runner.is_alive, Cleaner(home_redactor(hermes_home())))
    return _written(text.removesuffix("\n"), args.output or f"{session_id}.html")


def _written(text: str, output: str) -> Report:
    if output != "-":
        write_private_file(Path(output), f"{text}\n")
    return Report(None, data=text if output == "-" else "")


def _tail(args: argparse.Namespace) -> Report:
    events = _streamed(args)
    return Report(events, map(_event_line, events), is_stream=True)


def _streamed(args: argparse.Namespace) -> Iterator[StreamedEvent]:
    """The last events without secrets, and new ones as they come."""
    from hermes.journal.history.tail import EventStream
    from hermes.trace.clean import Cleaner

    with open_store() as store:
        clean = Cleaner(home_redactor(hermes_home()))
        stream = EventStream(store, session_named(store, args.session) if args.session else None)
        events = stream.last(args.events)
        while True:
            for event in events:
                yield replace(event, body=clean.value(event.body))
            if not args.follow:
                return
            sys.stdout.flush()
            time.sleep(_POLL_SECONDS)
            events = stream.new()


def _event_line(event: StreamedEvent) -> str:
    clock = time.strftime("%H:%M:%S", time.localtime(event.at))
    name = f"{event.kind} {event.key}".strip()
    text = one_line(event_text(event.kind, event.key, event.body))
    room = width()
    start = f"{event.session_id:<22}  {name:<22}" if room >= NARROW else name
    return fitted(f"{clock}  {start}  {text}", room)


def _verify(args: argparse.Namespace) -> Report:
    files = [*((path, "atif") for path in args.atif), *((path, "atof") for path in args.atof)]
    if bool(args.session) + args.all + bool(files) != 1:
        raise HermesError("give one session or file, or --all ('hermes trace list' shows the sessions)")
    if args.session and Path(args.session).is_file():
        files = [(args.session, "")]
    found = {path: _check_file(Path(path), form) for path, form in files} if files else _check_sessions(args)
    lines = [
        line
        for name, problems in found.items()
        for line in (f"{name}: {'valid' if not problems else 'invalid'}", *(f"  {problem}" for problem in problems))
    ]
    return Report(found, lines, code=1 if any(found.values()) else 0)


def _check_sessions(args: argparse.Namespace) -> dict[str, list[Any]]:
    from hermes.journal.history.inspection import inspect_session
    from hermes.trace.verify.session import verify

    with open_store() as store:
        if args.all:
            ids = [row.id for row in Sessions(store).list(limit=2**31, children=True)]
        else:
            ids = [session_named(store, args.session)]
        return {session_id: list(verify(inspect_session(store, session_id))) for session_id in ids}


def _check_file(path: Path, form: str) -> list[Any]:
    from hermes.trace.verify.session import verify_file

    try:
        return list(verify_file(path.read_bytes(), form))
    except OSError as error:
        raise HermesError(f"{path}: cannot be read: {error.strerror}") from None


def _stats(args: argparse.Namespace) -> Report:
    with open_store() as store:
        rows = figures(store, args.by, args.since)
    times = ("MEAN", "TOTAL") if args.by == "plugin" else ("P50", "P95", "TOTAL")
    costs = () if args.by == "tool" else ("COST",)
    heads = (args.by.upper(), "CALLS", "FAILED", *times, *costs)
    lines = _fitted_names([heads, *(_figure_cells(row, args.by) for row in rows)])
    nothing = "No data in that period. '--since all' shows everything."
    return Report({"by": args.by, "since": args.since, "rows": rows}, lines if rows else [nothing])


def _fitted_names(rows: list[tuple[str, ...]]) -> list[str]:
    """The table, with names cut to fit the width."""
    lines = aligned(rows)
    excess = max(map(cells, lines)) - width()
    if excess <= 0:
        return lines
    room = max(max(cells(row[0]) for row in rows) - excess, _SHORTEST_NAME)
    return aligned([(fitted(row[0], room), *row[1:]) for row in rows])


def _figure_cells(row: Figures, grouping: str) -> tuple[str, ...]:
    name = f"{row.name} ({row.detail})" if row.detail else row.name
    start = (one_line(name, _LONGEST_NAME), f"{row.calls:,}", f"{row.failed:,}")
    if grouping == "plugin":
        # Callbacks take microseconds. Exported events are counted but not timed.
        mean = row.total / row.calls
        shown = f"{mean * 1e6:.0f} µs" if 0 < mean < 0.001 else duration(mean or None)
        return (*start, shown, duration(row.total or None), cost(row.cost_usd))
    costs = (cost(row.cost_usd),) if grouping == "model" else ()
    return (*start, duration(row.p50), duration(row.p95), duration(row.total), *costs)


_SESSION = Argument("session SESSION", "a session's id, or its beginning", nargs="?")
_COMPARED = "a session's id, its beginning, or a bundle"

COMMAND = CommandSpec(
    default="list",
    epilog=_EXAMPLES,
    actions=(
        Action("list", _list, "list the last sessions with their totals (the default)").takes(
            Argument("--limit N", f"show at most N (default {DEFAULT_LIMIT})", type=positive_number),
            flag("--all", "show every session, including those of child agents"),
            JSON,
        ),
        Action("show", _show, "draw the timeline of a session").takes(
            _SESSION,
            Argument("--turn N", "only turn N, counted from 1", type=int),
            flag("--json", "print the records as one JSON document"),
        ),
        Action("export", _export, "write a session in a format of other tools, secrets redacted").takes(
            _SESSION,
            Argument("--to", "the format (default: atif)", choices=tuple(FORMATS), default="atif"),
            Argument("-o, --output FILE", "write to FILE, readable only by you", default="-"),
            flag("--explain", "list what the format cannot represent, and export nothing"),
        ),
        Action("html", _html, "write the timeline of a session as one HTML file, secrets redacted").takes(
            _SESSION,
            Argument(
                "-o, --output FILE", "write to FILE, readable only by you (SESSION.html); - prints it", default=""
            ),
        ),
        Action("tail", _tail, "print the last events, and new ones with --follow").takes(
            Argument("session SESSION", "only this session (default: all)", nargs="?"),
            flag("-f, --follow", "keep printing new events, of any process"),
            Argument("-n, --events N", "events to start with (default: 20)", type=count, default=20),
            flag("--json", "print one JSON object per line"),
        ),
        Action("stats", _stats, "show time and cost by model, tool or plugin").takes(
            Argument("--by", "group by (default: model)", choices=GROUPINGS, default="model"), SINCE, JSON
        ),
        Action("verify", _verify, "check that a session or a file is complete").takes(
            Argument("session SESSION", "a session's id, its beginning, or a file", nargs="?"),
            flag("--all", "check every session"),
            repeatable("--atif FILE", "check an ATIF document"),
            repeatable("--atof FILE", "check an ATOF stream"),
            flag("--json", "print the problems as one JSON document"),
        ),
        Action(
            "diff",
            "runs.trace.compare:run_diff",
            "compare two sessions or bundles, step by step",
            epilog="Exit codes: 0 the same, 1 different.",
        ).takes(
            Argument("before A", _COMPARED),
            Argument("after B", _COMPARED),
            flag("--strict", "compare versions, plugins and their decisions too"),
            JSON,
            Argument("--html FILE", "write a report that a browser shows"),
        ),
        Action(
            "bisect",
            "runs.trace.compare:run_bisect",
            "find the setting or plugin that changes a run",
            epilog="Exit codes: 0 a setting or plugin was found, 1 none changes the run.",
        ).takes(
            Argument("before A", f"{_COMPARED}, or a config.yaml"),
            Argument("after B", f"{_COMPARED}, or a config.yaml"),
            Argument("--run SESSION", "the run to replay (default: A)"),
        ),
    ),
)
