"""``hermes sessions``: lists, shows, searches, exports, renames, deletes and prunes sessions."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import asdict, replace

from hermes.cli.arguments import positive_number
from hermes.cli.runs.sessions import prune
from hermes.cli.runs.sessions.transcript import event_lines, hit_lines, list_lines, markdown, transcript_lines
from hermes.cli.runs.trace.session_argument import session_named
from hermes.cli.terminal import confirm, one_line, print_data, print_note, write_private_file
from hermes.commands.text import plural
from hermes.config import hermes_home
from hermes.config.secrets import home_redactor
from hermes.errors import HermesError, JournalError
from hermes.journal.questions import Questions
from hermes.journal.sessions import SessionRow, Sessions
from hermes.journal.store.port import home_store

DEFAULT_LIMIT = 20
#: More than any journal holds.
NO_LIMIT = 1_000_000_000

_ID = "a session's id, or its beginning"
_EXAMPLES = """
An id may be shortened to a unique beginning.

examples:
  hermes sessions                                  the last sessions
  hermes sessions show 20250301_1412               one session
  hermes sessions search capital france            messages with both words
  hermes sessions search "segmentation fault"      messages with the phrase
  hermes sessions export 20250301_1412 --format markdown -o talk.md
  hermes sessions export 20250301_1412 --bundle run.bundle
  hermes sessions delete 20250301_1412 20250228
  hermes sessions prune --older-than 90d --dry-run  show what that would delete
"""


class Journal:
    """The parts of the journal that the actions use."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.store = home_store(home)
        self.sessions = Sessions(self.store)
        self.index = self.store.search_index()
        self.runner = self.store.new_runner()
        self.redactor = home_redactor(home)

    def records(self, session_id: str) -> list[dict[str, Any]]:
        """Everything recorded of a session, without secrets."""
        return self.redactor.redact_data(self.sessions.export(session_id))

    def rows(self, limit: int, *, children: bool) -> list[SessionRow]:
        """The last sessions."""
        return [self._redacted(row) for row in self.sessions.list(limit=limit, children=children)]

    def _redacted(self, row: SessionRow) -> SessionRow:
        return replace(row, title=self.redactor.redact(row.title))

    def close(self) -> None:
        self.store.close()
        self.runner.close()


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the sub-commands."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EXAMPLES
    parser.set_defaults(action=_list, limit=None, all=False, json=False)
    actions = parser.add_subparsers(metavar="ACTION")

    def add(name: str, action: Callable[[Journal, argparse.Namespace], int], summary: str) -> argparse.ArgumentParser:
        made = actions.add_parser(name, help=summary)
        made.set_defaults(action=action)
        return made

    listing = add("list", _list, "list the last sessions, newest first (the default)")
    listing.add_argument("--limit", metavar="N", type=positive_number, help=f"show at most N (default {DEFAULT_LIMIT})")
    listing.add_argument("--all", action="store_true", help="show every session, including those of child agents")
    showing = add("show", _show, "print one session with its tool calls and usage")
    showing.add_argument("id", metavar="ID", nargs="?", help=f"{_ID} (default: the last session)")
    showing.add_argument("--events", action="store_true", help="print the recorded events instead")
    searching = add("search", _search, "search messages")
    searching.add_argument(
        "--principal", metavar="NAME", default="", help="search the conversations of this caller instead of your own"
    )
    searching.add_argument("words", metavar="WORD", nargs="+", help='all must occur; "several words" are one phrase')
    searching.add_argument(
        "--limit", metavar="N", type=positive_number, help=f"show at most N (default {DEFAULT_LIMIT})"
    )
    for made in (listing, showing, searching):
        made.add_argument("--json", action="store_true", help="print one JSON document")
    exporting = add("export", _export, "write a session to a file or to stdout, secrets redacted")
    exporting.add_argument("id", metavar="ID", help=_ID)
    exporting.add_argument(
        *("--format", "-f"),
        choices=("jsonl", "markdown", "json"),
        default="jsonl",
        help="jsonl: everything, one record per line (the default); json: the same as one document; "
        "markdown: the conversation",
    )
    exporting.add_argument("-o", "--output", metavar="FILE", default="-", help="write to FILE, readable only by you")
    exporting.add_argument(
        "--bundle", metavar="FILE", help="write everything that 'hermes replay FILE' needs on another machine"
    )
    deleting = add("delete", _delete, "delete sessions, including those of their child agents")
    deleting.add_argument("ids", metavar="ID", nargs="+", help=_ID)
    deleting.add_argument("--yes", "-y", action="store_true", help="do not ask")
    prune.configure(add("prune", _prune, "delete sessions that were not used for some time"))
    renaming = add("rename", _rename, "change the title of a session")
    renaming.add_argument("id", metavar="ID", help=_ID)
    renaming.add_argument("title", metavar="TITLE", nargs="+", help="the new title")


def run(args: argparse.Namespace) -> int:
    """Run the chosen action."""
    journal = Journal(hermes_home())
    try:
        return args.action(journal, args)
    finally:
        journal.close()


# -- reading --------------------------------------------------------------------------------------------------------


def _list(journal: Journal, args: argparse.Namespace) -> int:
    limit: int = args.limit or (NO_LIMIT if args.all else DEFAULT_LIMIT)
    rows = journal.rows(limit + 1, children=args.all)
    shown = rows[:limit]
    if args.json:
        _print_json([asdict(row) for row in shown])
    elif not rows:
        _print("No sessions yet. Start one with: hermes chat --query TEXT")
    else:
        deferred = {question.session_id for question in Questions(journal.store).pending() if question.deadline}
        _print(*list_lines(shown, journal.runner, deferred))
        if len(rows) > limit:
            print(f"({limit} shown; use --limit N or --all for more)", file=sys.stderr)
    return 0


def _show(journal: Journal, args: argparse.Namespace) -> int:
    records = journal.records(args.id or session_named(journal.store, None))
    if args.json:
        wanted = records if args.events else [record for record in records if record["record"] != "event"]
        _print_json(_document(wanted))
    elif args.events:
        _print(*event_lines(records))
    else:
        _print(*transcript_lines(records, journal.runner))
    return 0


def _search(journal: Journal, args: argparse.Namespace) -> int:
    # The shell has removed the quotes of a phrase; an argument with a space was one.
    query = " ".join(f'"{word}"' if " " in word.strip() and '"' not in word else word for word in args.words)
    found = journal.index.search(query, limit=args.limit or DEFAULT_LIMIT, principal=args.principal)
    redact = journal.redactor.redact
    hits = [replace(hit, title=redact(hit.title), snippet=redact(hit.snippet)) for hit in found]
    if args.json:
        _print_json([asdict(hit) for hit in hits])
    elif not hits:
        _print(f"No message matches {one_line(query, 60)}.")
    else:
        _print(*hit_lines(hits))
    return 0


def _export(journal: Journal, args: argparse.Namespace) -> int:
    if args.bundle:
        from hermes.record.bundle import write_bundle

        write_private_file(Path(args.bundle), write_bundle(journal.store, args.id))
        return 0
    records = journal.records(args.id)
    if args.format == "markdown":
        text = markdown(records)
    elif args.format == "json":
        text = _encode(_document(records), indent=2)
    else:
        text = "\n".join(map(_encode, records))
    if args.output == "-":
        print_data(text)
    else:
        write_private_file(Path(args.output), text + "\n")
    return 0


# -- changing -------------------------------------------------------------------------------------------------------


def _delete(journal: Journal, args: argparse.Namespace) -> int:
    chosen = {row.id: row for row in map(journal.sessions.get, args.ids)}
    if not args.yes:
        if not sys.stdin.isatty():
            raise HermesError("not a terminal: use --yes to delete without confirmation")
        _print(*list_lines(list(chosen.values()), journal.runner))
        if not confirm(f"Delete {plural(len(chosen), 'session')}, including child agents?"):
            print("Nothing was deleted.")
            return 1
    deleted: list[str] = []
    try:
        for session_id in chosen:
            # A child agent's session is deleted with its parent.
            if session_id not in deleted:
                deleted += journal.sessions.delete(session_id, journal.runner)
    finally:
        if deleted:
            print(f"Deleted {plural(len(deleted), 'session')}.")
            _forget_elsewhere(journal, deleted)
    return 0


def _prune(journal: Journal, args: argparse.Namespace) -> int:
    code, deleted = prune.prune(journal, args)
    if deleted:
        _forget_elsewhere(journal, deleted)
    return code


def _forget_elsewhere(journal: Journal, deleted: list[str]) -> None:
    """Remove deleted sessions from the search index, and their checkpoints."""
    try:
        journal.index.forget(deleted)
    except JournalError as error:
        print_note(f"Warning: the search index still contains them: {one_line(str(error))}")
    from hermes.checkpoints.store import CheckpointError, delete_checkpoints_of

    try:
        delete_checkpoints_of(journal.home, deleted)
    except CheckpointError as error:
        print_note(f"Warning: their checkpoints are still there: {one_line(str(error))}")


def _rename(journal: Journal, args: argparse.Namespace) -> int:
    title = one_line(" ".join(args.title), 200)
    if not title:
        raise HermesError("the title is empty")
    journal.sessions.rename(args.id, title)
    return 0


# -- output ---------------------------------------------------------------------------------------------------------


def _document(records: list[dict[str, Any]]) -> dict[str, Any]:
    """The records of an export by kind, in one object."""
    document: dict[str, Any] = {"session": {}, "turns": [], "model_calls": [], "messages": [], "events": []}
    for record in records:
        kind = record["record"]
        rest = {name: value for name, value in record.items() if name != "record"}
        if kind == "session":
            document["session"] = rest
        else:
            document[f"{kind}s"].append(rest)
    if not document["events"]:
        del document["events"]
    return document


def _encode(value: object, indent: int = 0) -> str:
    text = msgspec.json.encode(value)
    return (msgspec.json.format(text, indent=indent) if indent else text).decode()


def _print_json(value: object) -> None:
    print_data(_encode(value, indent=2))


def _print(*lines: str) -> None:
    for line in lines:
        print(line)
