"""``hermes checkpoints``: files as they were before a turn changed them."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

from hermes.checkpoints.restore import PlannedFile, RestorePlan, file_diff, plan_restore, restore
from hermes.checkpoints.store import Checkpoint, CheckpointStore
from hermes.cli.arguments import moment, positive_number
from hermes.cli.terminal import can_prompt, confirm, plain, print_json, print_lines, terminal_width
from hermes.commands.text import columns, plural, shortened
from hermes.config import hermes_home, load_config
from hermes.config.principals import principal_home
from hermes.errors import HermesError

_SHOWN = 20


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the sub-commands."""
    parser.set_defaults(action=_list, json=False, session="", limit=_SHOWN, principal="")
    actions = parser.add_subparsers(metavar="ACTION")
    for name, action, summary in (
        ("list", _list, "list the checkpoints, the newest first (the default)"),
        ("diff", _diff, "show what has changed since a checkpoint"),
        ("restore", _restore, "restore the files of a checkpoint; exit code 1 when some were left as they are"),
        ("prune", _prune, "delete old checkpoints"),
    ):
        made = actions.add_parser(name, help=summary, description=summary)
        made.set_defaults(action=action)
        made.add_argument("--json", action="store_true", help="print one JSON document")
        made.add_argument("--principal", metavar="NAME", default="", help="the checkpoints of that caller")
        if name == "list":
            made.add_argument("--session", metavar="ID", default="", help="only those of one session")
            made.add_argument("--limit", metavar="N", type=positive_number, default=_SHOWN, help="show at most N")
        if name in ("diff", "restore"):
            made.add_argument("id", metavar="ID", type=positive_number, help="the number that 'list' shows")
            made.add_argument("paths", metavar="PATH", nargs="*", help="only these files, or files in these folders")
        if name == "restore":
            made.add_argument("--yes", action="store_true", help="do not ask")
            made.add_argument(
                "--force", action="store_true", help="restore files that changed after the turn, too; implies --yes"
            )
        if name == "prune":
            made.add_argument(
                "--older-than",
                metavar="WHEN",
                type=moment,
                help="those older than 7d, 4w or a date; 'all' deletes them all",
            )


def run(args: argparse.Namespace) -> int:
    """Do what was asked for."""
    home = hermes_home()
    store = CheckpointStore(principal_home(home, args.principal))
    try:
        return args.action(args, store, home)
    finally:
        store.close()


def _list(args: argparse.Namespace, store: CheckpointStore, _home: Path) -> int:
    found = store.list(session_id=args.session)[: args.limit]
    if args.json:
        print_json(found)
    elif not found:
        print("There are no checkpoints. One is made before the first change of each turn.")
    else:
        width = terminal_width(80) if sys.stdout.isatty() else None
        print_lines(columns([("ID", "MADE", "FILES", "FOLDER", "BEFORE"), *map(_row, found)], indent="", width=width))
    return 0


def _row(one: Checkpoint) -> tuple[str, ...]:
    made = time.strftime("%Y-%m-%d %H:%M", time.localtime(one.created_at))
    what = one.summary if one.reason == "restore" else f"turn {one.turn + 1} of {one.session_id}: {one.summary}"
    return str(one.id), made, str(one.changed_files), one.folder, shortened(what, 70)


def _plan(args: argparse.Namespace, store: CheckpointStore, home: Path) -> RestorePlan:
    only = [Path(path).expanduser().absolute() for path in args.paths] or None
    return plan_restore(store, store.get(args.id), home, only=only)


def _diff(args: argparse.Namespace, store: CheckpointStore, home: Path) -> int:
    plan = _plan(args, store, home)
    if args.json:
        print_json([{**_document(plan, file), "diff": file_diff(store, plan, file)} for file in plan.files])
        return 0
    if not plan.files:
        print(f"Nothing has changed since checkpoint {args.id}.")
    for file in plan.files:
        print(plain(file_diff(store, plan, file)), end="")
    return 0


def _document(plan: RestorePlan, file: PlannedFile) -> dict[str, Any]:
    return {
        "path": file.path,
        "name": plan.name(file),
        "action": file.action,
        "changed_since": file.is_conflict,
        "problem": file.problem,
    }


def _restore(args: argparse.Namespace, store: CheckpointStore, home: Path) -> int:
    plan = _plan(args, store, home)
    chosen = _chosen(args, plan)
    report = restore(store, plan, chosen)
    left = [file for file in plan.files if file not in report.restored]
    if args.json:
        failed = [{"path": path, "reason": reason} for path, reason in report.failed]
        print_json(
            {
                "restored": [_document(plan, file) for file in report.restored],
                "left": [_document(plan, file) for file in left],
                "failed": failed,
                "undo": report.undo_id,
            }
        )
        return 1 if left else 0
    for file in report.restored:
        print(plain(f"{_DONE[file.action]}  {plan.name(file)}"))
    for path, reason in report.failed:
        print(plain(f"failed    {path}: {reason}"), file=sys.stderr)
    for file in left:
        if not any(path == file.path for path, _ in report.failed):
            print(plain(f"left      {plan.name(file)}: {_why_left(file)}"), file=sys.stderr)
    if report.undo_id is not None:
        print(f"'hermes checkpoints restore {report.undo_id}' undoes this.")
    elif not left:
        print("There is nothing to restore: the files are as they were.")
    return 1 if left else 0


_DONE = {"change": "restored", "create": "restored", "delete": "deleted "}


def _why_left(file: PlannedFile) -> str:
    return file.problem or ("it changed after that turn; --force restores it" if file.is_conflict else "not chosen")


def _chosen(args: argparse.Namespace, plan: RestorePlan) -> list[PlannedFile]:
    """The files to restore: asked, unless the options say it."""
    safe, conflicts = plan.restorable(with_conflicts=False), plan.conflicts
    if args.force:
        return [*safe, *conflicts]
    if args.yes or not (safe or conflicts):
        return safe
    if not can_prompt():
        raise HermesError("restoring files needs a confirmation, and this is not a terminal: use --yes, or --force")
    chosen: list[PlannedFile] = []
    for files, question in (
        (safe, "Restore"),
        (conflicts, "These changed after that turn, and would lose those changes. Restore"),
    ):
        if not files:
            continue
        for file in files:
            print(plain(f"  {file.action}  {plan.name(file)}"), file=sys.stderr)
        if confirm(f"{question} {plural(len(files), 'file')}?"):
            chosen += files
    return chosen


def _prune(args: argparse.Namespace, store: CheckpointStore, home: Path) -> int:
    config = load_config(home).config.checkpoints
    older_than = time.time() - config.keep_days * 86_400 if args.older_than is None else args.older_than
    if args.older_than == 0:
        older_than = time.time() + 1  # all
    before = store.stored_bytes()
    count = store.prune(max_bytes=config.max_size_mb << 20, older_than=older_than)
    after = store.stored_bytes()
    if args.json:
        print_json({"deleted": count, "bytes_before": before, "bytes_after": after})
    else:
        print(f"Deleted {plural(count, 'checkpoint')}; the store has {after / 1_000_000:.1f} MB.")
    return 0
