"""``hermes trace verify``: checks sessions on record, and files of trace formats."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import msgspec

from hermes.cli.text.terminal import plain
from hermes.cli.trace.desk import open_store, session_named
from hermes.errors import HermesError
from hermes.journal.sessions import Sessions

Found = dict[str, list[Any]]


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("session", nargs="?", help="the session's id, the beginning of it, or a file")
    parser.add_argument("--all", action="store_true", help="check every session")
    parser.add_argument("--atif", metavar="FILE", action="append", default=[], help="check an ATIF document")
    parser.add_argument("--atof", metavar="FILE", action="append", default=[], help="check an ATOF stream")
    parser.add_argument("--json", action="store_true", help="print the findings as one JSON document")


def run(args: argparse.Namespace) -> int:
    files = [*((path, "atif") for path in args.atif), *((path, "atof") for path in args.atof)]
    if bool(args.session) + args.all + bool(files) != 1:
        raise HermesError("name one session or file, or give --all ('hermes trace list' shows the sessions there are)")
    if args.session and Path(args.session).is_file():
        files = [(args.session, "")]
    found = {path: _check_file(Path(path), form) for path, form in files} if files else _check_sessions(args)
    if args.json:
        print(msgspec.json.encode(found).decode())
    else:
        for name, problems in found.items():
            print(f"{name}: {'whole' if not problems else 'not whole'}")
            for problem in problems:
                print(f"  {plain(str(problem))}")
    return 1 if any(found.values()) else 0


def _check_sessions(args: argparse.Namespace) -> Found:
    from hermes.trace.verify.session import verify

    with open_store() as store:
        sessions = Sessions(store)
        ids = (
            [row.id for row in sessions.list(limit=2**31, children=True)]
            if args.all
            else [session_named(store, args.session)]
        )
        return {session_id: list(verify(sessions.export(session_id))) for session_id in ids}


def _check_file(path: Path, form: str) -> list[str]:
    from hermes.trace.verify.session import verify_file

    try:
        return verify_file(path.read_bytes(), form)
    except OSError as error:
        raise HermesError(f"{path}: cannot be read: {error.strerror}; give the name of a file") from None
