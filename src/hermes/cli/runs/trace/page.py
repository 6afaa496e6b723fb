"""``hermes trace html``: the timeline of a session as one HTML file."""

from __future__ import annotations

import argparse
import contextlib
from pathlib import Path

from hermes.cli.runs.trace.session_argument import open_store, session_named
from hermes.cli.terminal import print_data, write_private_file
from hermes.config import hermes_home
from hermes.config.secrets import home_redactor


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("session", nargs="?", metavar="SESSION", help="a session's id, or its beginning")
    output = "write to FILE, readable only by you (SESSION.html); - prints it"
    parser.add_argument("-o", "--output", metavar="FILE", default="", help=output)


def run(args: argparse.Namespace) -> int:
    """Write the file."""
    from hermes.trace.clean import Cleaner
    from hermes.web.documents.export import session_document

    home = hermes_home()
    with open_store() as store, contextlib.closing(store.new_runner()) as runner:
        session_id = session_named(store, args.session)
        text = session_document(store, session_id, runner.is_alive, Cleaner(home_redactor(home)))
    if args.output == "-":
        print_data(text, end="")
    else:
        write_private_file(Path(args.output or f"{session_id}.html"), text)
    return 0
