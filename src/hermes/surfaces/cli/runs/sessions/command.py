"""``hermes sessions``: lists, shows, searches, exports, renames, deletes and prunes sessions."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import asdict, replace

from hermes.base.config import hermes_home
from hermes.base.config.secrets import home_redactor
from hermes.base.errors import HermesError, JournalError, SessionBusy
from hermes.journal.questions import Questions
from hermes.journal.sessions import SessionRow, Sessions
from hermes.journal.store.port import home_store
from hermes.surfaces.cli.arguments import JSON, Action, Argument, CommandSpec, flag, moment, positive_number
from hermes.surfaces.cli.report import Report
from hermes.surfaces.cli.runs.sessions.transcript import event_lines, hit_lines, list_lines, markdown, transcript_lines
from hermes.surfaces.cli.runs.trace.session_argument import session_named
from hermes.surfaces.cli.terminal import confirm, one_line, print_data, print_lines, warn, write_private_file
from hermes.surfaces.commands.text import plural

DEFAULT_LIMIT = 20
#: How many sessions are listed before they are pruned.
_MOST_LISTED = 20
#: More than any journal holds.
NO_LIMIT = 1_000_000_000

_ID = "a session's id, or its beginning"
_NONE_YET = "No sessions yet. Start one with: hermes chat --query TEXT"
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
        """The last sessions, without secrets."""
        found = self.sessions.list(limit=limit, children=children)
        return [replace(row, title=self.redactor.redact(row.title)) for row in found]

    def close(self) -> None:
        self.store.close()
        self.runner.close()


def _list(args: argparse.Namespace, journal: Journal) -> Report:
    limit: int = args.limit or (NO_LIMIT if args.all else DEFAULT_LIMIT)
    rows = journal.rows(limit + 1, children=args.all)
    shown = rows[:limit]

    def lines() -> Iterator[str]:
        deferred = {question.session_id for question in Questions(journal.store).pending() if question.deadline}
        yield from list_lines(shown, journal.runner, deferred)

    return Report(
        [asdict(row) for row in shown],
        lines() if rows else [_NONE_YET],
        notes=[f"({limit} shown; use --limit N or --all for more)"] if len(rows) > limit else [],
    )


def _show(args: argparse.Namespace, journal: Journal) -> Report:
    records = journal.records(args.id or session_named(journal.store, None))
    wanted = records if args.events else [record for record in records if record["record"] != "event"]
    lines = event_lines(records) if args.events else transcript_lines(records, journal.runner)
    return Report(_document(wanted), lines)


def _search(args: argparse.Namespace, journal: Journal) -> Report:
    # The shell has removed the quotes of a phrase; an argument with a space was one.
    query = " ".join(f'"{word}"' if " " in word.strip() and '"' not in word else word for word in args.words)
    found = journal.index.search(query, limit=args.limit or DEFAULT_LIMIT, principal=args.principal)
    redact = journal.redactor.redact
    hits = [replace(hit, title=redact(hit.title), snippet=redact(hit.snippet)) for hit in found]
    nothing = f"No message matches {one_line(query, 60)}."
    return Report([asdict(hit) for hit in hits], hit_lines(hits) if hits else [nothing])


def _export(args: argparse.Namespace, journal: Journal) -> None:
    if args.bundle:
        from hermes.record.bundle import write_bundle

        write_private_file(Path(args.bundle), write_bundle(journal.store, args.id))
        return
    records = journal.records(args.id)
    if args.format == "markdown":
        text = markdown(records)
    elif args.format == "json":
        text = msgspec.json.format(msgspec.json.encode(_document(records))).decode()
    else:
        text = b"\n".join(map(msgspec.json.encode, records)).decode()
    if args.output == "-":
        print_data(text)
    else:
        write_private_file(Path(args.output), text + "\n")


def _delete(args: argparse.Namespace, journal: Journal) -> int:
    chosen = list({row.id: row for row in map(journal.sessions.get, args.ids)}.values())
    if not args.yes and not sys.stdin.isatty():
        raise HermesError("not a terminal: use --yes to delete without confirmation")
    if not args.yes:
        print_lines(list_lines(chosen, journal.runner))
    return _delete_all(args, journal, chosen, keeps_busy=False)


def _prune(args: argparse.Namespace, journal: Journal) -> int:
    chosen = _unused(args, journal)
    if not chosen:
        print("Nothing to delete.")
        return 0
    if args.dry_run or not args.yes:
        print_lines(list_lines(chosen[:_MOST_LISTED], journal.runner))
        if len(chosen) > _MOST_LISTED:
            print(f"… and {len(chosen) - _MOST_LISTED} more")
    if args.dry_run:
        print(f"{plural(len(chosen), 'session')} would be deleted, including child agents.")
        return 0
    if not args.yes and not sys.stdin.isatty():
        raise HermesError("not a terminal: use --yes to delete without confirmation, or --dry-run to only look")
    return _delete_all(args, journal, chosen, keeps_busy=True)


def _unused(args: argparse.Namespace, journal: Journal) -> list[SessionRow]:
    """The sessions that were not used for long enough; says which of them are kept."""
    old = journal.sessions.last_used_before(args.older_than)
    in_use = [row for row in old if row.runner is not None and journal.runner.is_alive(row.runner)]
    unfinished = [row for row in old if row not in in_use and journal.sessions.has_open_turn(row.id)]
    if in_use:
        print(f"Kept: {plural(len(in_use), 'session')} in use.")
    if unfinished and not args.unfinished:
        print(f"Kept: {plural(len(unfinished), 'session')} with an unfinished turn (--unfinished deletes them too).")
    kept = in_use if args.unfinished else [*in_use, *unfinished]
    return [row for row in old if row not in kept]


def _delete_all(args: argparse.Namespace, journal: Journal, rows: list[SessionRow], *, keeps_busy: bool) -> int:
    """Delete the sessions, after a question unless it is answered already. One in use is kept, or an error."""
    if not args.yes and not confirm(f"Delete {plural(len(rows), 'session')}, including child agents?"):
        print("Nothing was deleted.")
        return 1
    deleted: list[str] = []
    try:
        for row in rows:
            if row.id in deleted:
                continue  # a child agent's session is deleted with its parent
            try:
                deleted += journal.sessions.delete(row.id, journal.runner)
            except SessionBusy as error:
                if not keeps_busy:
                    raise
                print(f"Kept: {error}")
    finally:
        if deleted or keeps_busy:
            print(f"Deleted {plural(len(deleted), 'session')}.")
        if deleted:
            _forget_elsewhere(journal, deleted)
    return 0


def _forget_elsewhere(journal: Journal, deleted: list[str]) -> None:
    """Remove deleted sessions from the search index, and their checkpoints."""
    from hermes.tools.files.checkpoints.store import CheckpointError, delete_checkpoints_of

    try:
        journal.index.forget(deleted)
    except JournalError as error:
        warn(f"the search index still contains them: {one_line(str(error))}")
    try:
        delete_checkpoints_of(journal.home, deleted)
    except CheckpointError as error:
        warn(f"their checkpoints are still there: {one_line(str(error))}")


def _rename(args: argparse.Namespace, journal: Journal) -> None:
    title = one_line(" ".join(args.title), 200)
    if not title:
        raise HermesError("the title is empty")
    journal.sessions.rename(args.id, title)


def _document(records: list[dict[str, Any]]) -> dict[str, Any]:
    """The records of an export by kind, in one object."""
    document: dict[str, Any] = {"session": {}, "turns": [], "model_calls": [], "messages": []}
    for record in records:
        rest = {name: value for name, value in record.items() if name != "record"}
        if record["record"] == "session":
            document["session"] = rest
        else:
            document.setdefault(f"{record['record']}s", []).append(rest)
    return document


_LIMIT = Argument("--limit N", f"show at most N (default {DEFAULT_LIMIT})", type=positive_number)
_YES = flag("--yes, -y", "do not ask")

COMMAND = CommandSpec(
    default="list",
    opened=lambda _args: contextlib.closing(Journal(hermes_home())),
    epilog=_EXAMPLES,
    actions=(
        Action("list", _list, "list the last sessions, newest first (the default)").takes(
            _LIMIT, flag("--all", "show every session, including those of child agents"), JSON
        ),
        Action("show", _show, "print one session with its tool calls and usage").takes(
            Argument("id ID", f"{_ID} (default: the last session)", nargs="?"),
            flag("--events", "print the recorded events instead"),
            JSON,
        ),
        Action("search", _search, "search messages").takes(
            Argument("--principal NAME", "search the conversations of this caller instead of your own", default=""),
            Argument("words WORD", 'all must occur; "several words" are one phrase', nargs="+"),
            _LIMIT,
            JSON,
        ),
        Action("export", _export, "write a session to a file or to stdout, secrets redacted").takes(
            Argument("id ID", _ID),
            Argument(
                "--format, -f",
                "jsonl: everything, one record per line (the default); json: the same as one document; "
                "markdown: the conversation",
                choices=("jsonl", "markdown", "json"),
                default="jsonl",
            ),
            Argument("-o, --output FILE", "write to FILE, readable only by you", default="-"),
            Argument("--bundle FILE", "write everything that 'hermes replay FILE' needs on another machine"),
        ),
        Action("delete", _delete, "delete sessions, including those of their child agents").takes(
            Argument("ids ID", _ID, nargs="+"), _YES
        ),
        Action("prune", _prune, "delete sessions that were not used for some time").takes(
            Argument(
                "--older-than AGE",
                "those not used for this time (12h, 30d, 8w), or since a date such as 2025-03-01",
                type=moment,
                required=True,
            ),
            flag("--unfinished", "also those whose last turn was cut off and could be continued"),
            flag("--dry-run", "only show what would be deleted"),
            _YES,
        ),
        Action("rename", _rename, "change the title of a session").takes(
            Argument("id ID", _ID), Argument("title TITLE", "the new title", nargs="+")
        ),
    ),
)
