"""``hermes trace export``: a past session in a format of other tools."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from hermes.cli.terminal import print_data, write_private_file
from hermes.cli.trace.format import home_redactor, open_store, session_named
from hermes.trace.records import SessionRecord

Lines = Iterable[bytes]


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("session", nargs="?", metavar="SESSION", help="a session's id, or its beginning")
    parser.add_argument("--to", choices=tuple(_FORMATS), default="atif", help="the format (atif)")
    parser.add_argument("-o", "--output", metavar="FILE", default="-", help="write to FILE, readable only by you")
    parser.add_argument(
        "--explain", action="store_true", help="list what the format cannot represent, and export nothing"
    )


def run(args: argparse.Namespace) -> int:
    if args.explain:
        print(f"{args.to} cannot represent, or represents differently:")
        for line in explanation(args.to):
            print(f"- {line}")
        return 0
    from hermes.trace.journal.session import session_record

    with open_store() as store:
        record = session_record(store, session_named(store, args.session), home_redactor())
    text = b"".join(line + b"\n" for line in _FORMATS[args.to](record))
    if args.output == "-":
        print_data(text.decode(), end="")
    else:
        write_private_file(Path(args.output), text.decode())
    return 0


def explanation(form: str) -> tuple[str, ...]:
    """What is lost or moved in a format."""
    from hermes.trace.formats import atif, atof, jsonl

    return {"atif": atif.CANNOT_HOLD, "atof": atof.CANNOT_HOLD, "jsonl": jsonl.CANNOT_HOLD}.get(form, _SPANS)


_SPANS = (
    "Approvals and marks as spans: they are events of the span they belong to.",
    "A session as a span: every turn is a trace of its own, and the session an attribute of its spans.",
    "Turns copied into a branch: they belong to their original session.",
    "A turn that has not ended: its span ends where the record stops.",
    "Images: only placeholders are kept.",
)


# -- formats, imported when used --------------------------------------------------------------------------------------


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
