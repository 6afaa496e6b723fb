"""``hermes trace export``: a past session in a format of other tools, whatever was enabled when it ran."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from hermes.cli.text.terminal import plain
from hermes.cli.trace.desk import guard, open_store, session_named
from hermes.errors import HermesError
from hermes.trace.records import SessionRecord

Lines = Iterable[bytes]


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("session", nargs="?", metavar="SESSION", help="the session's id, or the beginning of it")
    parser.add_argument("--to", choices=tuple(_FORMATS), default="atif", help="the format (atif)")
    parser.add_argument("-o", "--output", metavar="FILE", default="-", help="replace FILE; it is private to you")
    parser.add_argument("--explain", action="store_true", help="say what the format cannot hold, and export nothing")


def run(args: argparse.Namespace) -> int:
    if args.explain:
        print(f"{args.to} cannot hold, or holds elsewhere:")
        for line in explanation(args.to):
            print(f"- {line}")
        return 0
    from hermes.trace.journal.session import session_record

    with open_store() as store:
        record = session_record(store, session_named(store, args.session), guard())
    text = b"".join(line + b"\n" for line in _FORMATS[args.to](record))
    if args.output == "-":
        # A program gets what was recorded; a terminal nothing that could drive it.
        sys.stdout.write(plain(text.decode()) if sys.stdout.isatty() else text.decode())
    else:
        _write(Path(args.output), text.decode())
        print(f"wrote {args.output}", file=sys.stderr)
    return 0


def explanation(form: str) -> tuple[str, ...]:
    """What gets lost or moved on the way into a format."""
    from hermes.trace.formats import atif, atof, jsonl

    return {"atif": atif.CANNOT_HOLD, "atof": atof.CANNOT_HOLD, "jsonl": jsonl.CANNOT_HOLD}.get(form, _SPANS)


_SPANS = (
    "Moments that are no spans: approvals and marks are events of the span they belong to.",
    "A session as a span: every turn is a trace of its own, and the session an attribute of its spans.",
    "Turns that a branch took over: they belong to the session where they happened.",
    "A turn that is not over: its span ends where the record stops.",
    "Images: their place is kept, their bytes are not.",
)


def _write(path: Path, text: str) -> None:
    from hermes.config.files import write_atomically

    if path.exists() and not path.is_file():
        raise HermesError(f"{path} is not a file; give the name of one")
    write_atomically(path, text)
    path.chmod(0o600)


# -- formats: each is imported only when it is asked for --------------------------------------------------------------


def _atif(record: SessionRecord) -> Lines:
    from hermes.trace.formats.atif import document

    return (msgspec.json.encode(document(record)),)


def _atof(record: SessionRecord) -> Lines:
    from hermes.trace.formats.atof import lines

    return lines(record)


def _otlp(record: SessionRecord) -> Lines:
    from hermes.trace.formats.otlp import export

    return (msgspec.json.encode(export(record)),)


def _openinference(record: SessionRecord) -> Lines:
    from hermes.trace.formats.openinference import export

    return (msgspec.json.encode(export(record)),)


def _jsonl(record: SessionRecord) -> Lines:
    from hermes.trace.formats.jsonl import lines

    return lines(record)


_FORMATS: dict[str, Callable[[SessionRecord], Lines]] = {
    "atif": _atif,
    "atof": _atof,
    "otlp": _otlp,
    "openinference": _openinference,
    "jsonl": _jsonl,
}
