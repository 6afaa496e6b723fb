"""``hermes sessions prune``: deletes the sessions that have not been used for a while."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from hermes.cli.runs.sessions.transcript import list_lines
from hermes.cli.terminal import confirm
from hermes.commands.text import plural
from hermes.errors import HermesError, SessionBusy

if TYPE_CHECKING:
    from hermes.cli.runs.sessions.command import Journal
    from hermes.journal.sessions import SessionRow

#: How many sessions are listed before the question.
_MOST_LISTED = 20


def prune(journal: Journal, args: argparse.Namespace) -> tuple[int, list[str]]:
    """Delete what the options name; the exit code, and the ids of the sessions that are gone."""
    old = journal.sessions.last_used_before(args.older_than)
    in_use = [row for row in old if row.runner is not None and journal.runner.is_alive(row.runner)]
    unfinished = [row for row in old if row not in in_use and journal.sessions.has_open_turn(row.id)]
    kept = in_use if args.unfinished else [*in_use, *unfinished]
    chosen = [row for row in old if row not in kept]
    if in_use:
        print(f"Kept: {plural(len(in_use), 'session')} in use.")
    if unfinished and not args.unfinished:
        print(f"Kept: {plural(len(unfinished), 'session')} with an unfinished turn (--unfinished deletes them too).")
    if not chosen:
        print("Nothing to delete.")
        return 0, []
    if args.dry_run or not args.yes:
        _show(journal, chosen)
    if args.dry_run:
        print(f"{plural(len(chosen), 'session')} would be deleted, including child agents.")
        return 0, []
    if not args.yes:
        if not sys.stdin.isatty():
            raise HermesError("not a terminal: use --yes to delete without confirmation, or --dry-run to only look")
        if not confirm(f"Delete {plural(len(chosen), 'session')}, including child agents?"):
            print("Nothing was deleted.")
            return 1, []
    return 0, _delete(journal, chosen)


def _show(journal: Journal, rows: list[SessionRow]) -> None:
    for line in list_lines(rows[:_MOST_LISTED], journal.runner):
        print(line)
    if len(rows) > _MOST_LISTED:
        print(f"… and {len(rows) - _MOST_LISTED} more")


def _delete(journal: Journal, rows: list[SessionRow]) -> list[str]:
    deleted: list[str] = []
    try:
        for row in rows:
            try:
                deleted += journal.sessions.delete(row.id, journal.runner)
            except SessionBusy as error:
                print(f"Kept: {error}")
    finally:
        print(f"Deleted {plural(len(deleted), 'session')}.")
    return deleted
