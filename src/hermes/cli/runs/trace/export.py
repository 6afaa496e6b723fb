"""``hermes trace export``: a past session in a format of other tools."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path

import msgspec

from hermes.cli.runs.trace.session_argument import open_store, session_named
from hermes.cli.terminal import print_data, write_private_file
from hermes.config import hermes_home
from hermes.config.secrets import home_redactor
from hermes.trace.records import SessionRecord


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("session", nargs="?", metavar="SESSION", help="a session's id, or its beginning")
    parser.add_argument("--to", choices=tuple(_FORMATS), default="atif", help="the format (default: atif)")
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
        record = session_record(store, session_named(store, args.session), home_redactor(hermes_home()))
    text = b"".join(line + b"\n" for line in _lines(args.to, record))
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


#: Format -> its function in ``hermes.trace.formats``: gives one document, or lines.
_FORMATS = {
    "atif": "document",
    "atof": "lines",
    "otlp": "export",
    "openinference": "export",
    "jsonl": "lines",
}


def _lines(form: str, record: SessionRecord) -> Iterable[bytes]:
    made = getattr(import_module(f"hermes.trace.formats.{form}"), _FORMATS[form])(record)
    return made if _FORMATS[form] == "lines" else (msgspec.json.encode(made),)
