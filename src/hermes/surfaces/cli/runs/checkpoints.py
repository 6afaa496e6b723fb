"""``hermes checkpoints``: files as they were before a turn changed them."""

from __future__ import annotations

import argparse
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from hermes.base.config import hermes_home, load_config
from hermes.base.config.principals import principal_home
from hermes.base.errors import HermesError
from hermes.surfaces.cli.arguments import JSON, Action, Argument, CommandSpec, flag, moment, positive_number
from hermes.surfaces.cli.report import Report
from hermes.surfaces.cli.terminal import can_prompt, confirm, plain
from hermes.surfaces.commands.text import plural, shortened
from hermes.tools.files.checkpoints.restore import PlannedFile, RestorePlan, file_diff, plan_restore, restore
from hermes.tools.files.checkpoints.store import Checkpoint, CheckpointStore


def _list(args: argparse.Namespace, store: CheckpointStore) -> Report:
    found = store.list(session_id=args.session)[: args.limit]
    return Report(
        found,
        heads=("ID", "MADE", "FILES", "FOLDER", "BEFORE"),
        rows=map(_checkpoint_cells, found),
        empty="There are no checkpoints. One is made before the first change of each turn.",
    )


def _checkpoint_cells(one: Checkpoint) -> tuple[str, ...]:
    made = time.strftime("%Y-%m-%d %H:%M", time.localtime(one.created_at))
    what = one.summary if one.reason == "restore" else f"turn {one.turn + 1} of {one.session_id}: {one.summary}"
    return str(one.id), made, str(one.changed_files), one.folder, shortened(what, 70)


def _plan(args: argparse.Namespace, store: CheckpointStore) -> RestorePlan:
    only = [Path(path).expanduser().absolute() for path in args.paths] or None
    return plan_restore(store, store.get(args.id), hermes_home(), only=only)


def _diff(args: argparse.Namespace, store: CheckpointStore) -> Report:
    plan = _plan(args, store)
    documents = [{**_document(plan, file), "diff": file_diff(store, plan, file)} for file in plan.files]
    diffs = (str(document["diff"]).removesuffix("\n") for document in documents)
    return Report(documents, diffs if documents else [f"Nothing has changed since checkpoint {args.id}."])


def _document(plan: RestorePlan, file: PlannedFile) -> dict[str, Any]:
    return {
        "path": file.path,
        "name": plan.name(file),
        "action": file.action,
        "changed_since": file.is_conflict,
        "problem": file.problem,
    }


def _restore(args: argparse.Namespace, store: CheckpointStore) -> Report:
    plan = _plan(args, store)
    report = restore(store, plan, _chosen(args, plan))
    left = [file for file in plan.files if file not in report.restored]
    document = {
        "restored": [_document(plan, file) for file in report.restored],
        "left": [_document(plan, file) for file in left],
        "failed": [{"path": path, "reason": reason} for path, reason in report.failed],
        "undo": report.undo_id,
    }
    lines = [f"{_DONE[file.action]}  {plan.name(file)}" for file in report.restored]
    if report.undo_id is not None:
        lines.append(f"'hermes checkpoints restore {report.undo_id}' undoes this.")
    elif not left:
        lines.append("There is nothing to restore: the files are as they were.")
    failed = {path for path, _ in report.failed}
    notes = [plain(f"failed    {path}: {reason}") for path, reason in report.failed]
    for file in left:
        why = "it changed after that turn; --force restores it" if file.is_conflict else "not chosen"
        if file.path not in failed:
            notes.append(plain(f"left      {plan.name(file)}: {file.problem or why}"))
    return Report(document, lines, notes=notes, code=1 if left else 0)


_DONE = {"change": "restored", "create": "restored", "delete": "deleted "}


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


def _prune(args: argparse.Namespace, store: CheckpointStore) -> Report:
    config = load_config(hermes_home()).config.checkpoints
    older_than = time.time() - config.keep_days * 86_400 if args.older_than is None else args.older_than
    if args.older_than == 0:
        older_than = time.time() + 1  # all
    before = store.stored_bytes()
    count = store.prune(max_bytes=config.max_size_mb << 20, older_than=older_than)
    after = store.stored_bytes()
    line = f"Deleted {plural(count, 'checkpoint')}; the store has {after / 1_000_000:.1f} MB."
    return Report({"deleted": count, "bytes_before": before, "bytes_after": after}, [line])


_PRINCIPAL = Argument("--principal NAME", "the checkpoints of that caller", default="")
_FILES = (
    JSON,
    _PRINCIPAL,
    Argument("id ID", "the number that 'list' shows", type=positive_number),
    Argument("paths PATH", "only these files, or files in these folders", nargs="*"),
)

COMMAND = CommandSpec(
    default="list",
    opened=lambda args: closing(CheckpointStore(principal_home(hermes_home(), args.principal))),
    actions=(
        Action("list", _list, "list the checkpoints, the newest first (the default)").takes(
            JSON,
            _PRINCIPAL,
            Argument("--session ID", "only those of one session", default=""),
            Argument("--limit N", "show at most N", type=positive_number, default=20),
        ),
        Action("diff", _diff, "show what has changed since a checkpoint").takes(*_FILES),
        Action(
            "restore", _restore, "restore the files of a checkpoint; exit code 1 when some were left as they are"
        ).takes(
            *_FILES,
            flag("--yes", "do not ask"),
            flag("--force", "restore files that changed after the turn, too; implies --yes"),
        ),
        Action("prune", _prune, "delete old checkpoints").takes(
            JSON,
            _PRINCIPAL,
            Argument("--older-than WHEN", "those older than 7d, 4w or a date; 'all' deletes them all", type=moment),
        ),
    ),
)
