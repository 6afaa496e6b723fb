"""``hermes trace tail``: what was recorded last in a session, or in all of them, and what is added to it."""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

import msgspec

from hermes.cli.text.terminal import fitted, one_line
from hermes.cli.trace.desk import NARROW, guard, open_store, session_named, width
from hermes.cli.trace.words import event_words
from hermes.trace.clean import Cleaner
from hermes.trace.journal.tail import EventStream, StreamedEvent

_POLL_SECONDS = 0.2


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("session", nargs="?", metavar="SESSION", help="only this one (all sessions)")
    parser.add_argument("-f", "--follow", action="store_true", help="go on printing what is added, by any process")
    parser.add_argument("-n", "--events", type=_count, default=20, metavar="N", help="events to start with (20)")
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")


def run(args: argparse.Namespace) -> int:
    with open_store() as store:
        clean = Cleaner(guard())
        stream = EventStream(store, session_named(store, args.session) if args.session else None)
        for event in stream.last(args.events):
            _print(event, clean, args.json)
        while args.follow:
            sys.stdout.flush()
            time.sleep(_POLL_SECONDS)
            for event in stream.new():
                _print(event, clean, args.json)
    return 0


def _print(event: StreamedEvent, clean: Cleaner, as_json: bool) -> None:
    body: Any = clean.value(event.body)
    if as_json:
        fields = {name: getattr(event, name) for name in event.__struct_fields__}
        print(msgspec.json.encode({**fields, "body": body}).decode())
        return
    clock = time.strftime("%H:%M:%S", time.localtime(event.at))
    name = f"{event.kind} {event.key}".strip()
    words = one_line(event_words(event.kind, event.key, body))
    room = width()
    where = f"{event.session_id:<22}  {name:<22}" if room >= NARROW else name
    print(fitted(f"{clock}  {where}  {words}", room))


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"found {text!r}; allowed: a whole number, 0 or more")
    return int(text)
