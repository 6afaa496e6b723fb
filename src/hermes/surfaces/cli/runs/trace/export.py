"""``hermes trace export`` and ``html``: a past session in a format of other tools, or as a page."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path

import msgspec

from hermes.base.config import hermes_home
from hermes.base.config.secrets import home_redactor
from hermes.surfaces.cli.runs.trace.session_argument import open_store, session_named
from hermes.surfaces.cli.terminal import print_data, print_lines, write_private_file
from hermes.trace.records import SessionRecord


def run_export(args: argparse.Namespace) -> None:
    """Write a session in a format of other tools."""
    if args.explain:
        print_lines([f"{args.to} cannot represent, or represents differently:"])
        print_lines(f"- {line}" for line in explanation(args.to))
        return
    from hermes.trace.journal.session import session_record

    with open_store() as store:
        record = session_record(store, session_named(store, args.session), home_redactor(hermes_home()))
    _write(b"".join(line + b"\n" for line in _lines(args.to, record)).decode(), args.output)


def run_html(args: argparse.Namespace) -> None:
    """Write the timeline of a session as one HTML file."""
    from hermes.surfaces.web.documents.export import session_document
    from hermes.trace.clean import Cleaner

    with open_store() as store, contextlib.closing(store.new_runner()) as runner:
        session_id = session_named(store, args.session)
        text = session_document(store, session_id, runner.is_alive, Cleaner(home_redactor(hermes_home())))
    _write(text, args.output or f"{session_id}.html")


def _write(text: str, output: str) -> None:
    if output == "-":
        print_data(text, end="")
    else:
        write_private_file(Path(output), text)


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


#: The function of each module in ``hermes.trace.formats``: gives one document, or lines.
_FUNCTIONS = {"atif": "document", "atof": "lines", "otlp": "export", "openinference": "export", "jsonl": "lines"}


def _lines(form: str, record: SessionRecord) -> Iterable[bytes]:
    made = getattr(import_module(f"hermes.trace.formats.{form}"), _FUNCTIONS[form])(record)
    return made if _FUNCTIONS[form] == "lines" else (msgspec.json.encode(made),)
