"""``hermes approvals``: what may run without asking, what was asked, and what a command would come to."""

from __future__ import annotations

import argparse
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

from hermes.agent.approvals.assessment import Assessment, assess_command
from hermes.agent.approvals.rules import ApprovalRules
from hermes.cli.approvals.text import explained_lines, list_lines
from hermes.cli.terminal import plain, print_json
from hermes.config import Config, config_path, edit_list, hermes_home, load_config
from hermes.errors import HermesError
from hermes.journal.questions import QuestionRow, Questions
from hermes.journal.sessions import Sessions
from hermes.journal.store import Store
from hermes.sanitize import redact_text

#: How many of the answers given last are shown.
RECENT = 20

_EXAMPLES = """
examples:
  hermes approvals                                   what is approved, what waits, what was answered
  hermes approvals explain 'rm -rf build'            would it run, and why; nothing is run
  hermes approvals revoke recursive-delete           ask about that again, everywhere
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the sub-commands."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EXAMPLES
    parser.set_defaults(action=_list, json=False)
    actions = parser.add_subparsers(metavar="ACTION")
    listing = actions.add_parser("list", help="show what is approved, what waits and what was answered (the default)")
    listing.set_defaults(action=_list)
    explaining = actions.add_parser("explain", help="say whether a command would run, and why; nothing is run")
    explaining.add_argument("command", metavar="COMMAND", help="the whole command line, in quotes")
    explaining.add_argument("--cwd", metavar="DIR", type=Path, help="where it would run (default: here)")
    explaining.set_defaults(action=_explain)
    for made in (listing, explaining):
        made.add_argument("--json", action="store_true", help="print one JSON document")
    revoking = actions.add_parser("revoke", help="take back what was approved")
    which = revoking.add_mutually_exclusive_group(required=True)
    which.add_argument("what", metavar="RULE|ID", nargs="?", help="a rule or pattern, or the id of one approval")
    which.add_argument("--session", metavar="ID", help="everything that was approved in that conversation")
    which.add_argument("--all", action="store_true", help="everything, for good and in conversations")
    revoking.set_defaults(action=_revoke)


def run(args: argparse.Namespace) -> int:
    """Do what was asked for."""
    home = hermes_home()
    with closing(Store(home / "state.db")) as store:
        return args.action(args, home, store)


# -- list -----------------------------------------------------------------------------------------------------------


def _list(args: argparse.Namespace, home: Path, store: Store) -> int:
    config, rows = load_config(home).config, Questions(store)
    grants, pending, recent = rows.grants(), rows.pending(kind="approval"), rows.recent(RECENT)
    if args.json:
        print_json(
            {
                "always": config.command_allowlist,
                "session": list(map(_record, grants)),
                "pending": list(map(_record, pending)),
                "recent": list(map(_record, recent)),
            }
        )
        return 0
    for line in list_lines(config.command_allowlist, grants, pending, recent, config_path(home)):
        print(line)
    return 0


def _record(row: QuestionRow) -> dict[str, Any]:
    """The fields of an approval; those that only other kinds of questions have are left out."""
    named = {
        name: value for name, value in asdict(row).items() if name not in ("kind", "choices", "answer", "deadline")
    }
    return {
        **named,
        "choice": row.answer,
        "subject": redact_text(row.subject),
        "reason": redact_text(row.reason),
    }


# -- explain --------------------------------------------------------------------------------------------------------


def _explain(args: argparse.Namespace, home: Path, _store: Store) -> int:
    config = load_config(home).config
    cwd = str((args.cwd or Path.cwd()).expanduser().absolute())
    assessment = assess_command(ApprovalRules(config), args.command, cwd, home)
    if args.json:
        print_json(_explanation(args.command, cwd, assessment, config))
        return 0
    for line in explained_lines(assessment, config.approvals.mode):
        print(line)
    return 0


def _explanation(command: str, cwd: str, assessment: Assessment, config: Config) -> dict[str, Any]:
    return {
        "command": command,
        "cwd": cwd,
        "decision": assessment.verdict,
        "findings": [asdict(finding) for finding in assessment.found],
        "outcome": assessment.outcome,
        "mode": config.approvals.mode,
        "because": list(assessment.because),
    }


# -- revoke ---------------------------------------------------------------------------------------------------------


def _revoke(args: argparse.Namespace, home: Path, store: Store) -> int:
    rows, always = Questions(store), load_config(home).config.command_allowlist
    if args.session is not None:
        gone, taken = rows.revoke(session_id=Sessions(store).get(_named(args.session)).id), []
    elif args.all:
        gone, taken = rows.revoke(), always
    else:
        what = _named(args.what)
        gone = rows.revoke(approval_id=what) or rows.revoke(rule=what)
        taken = [what] if what in always else []
    if taken:
        edit_list(home, "command_allowlist", remove=list(taken))
    for entry in taken:
        print(f"{plain(entry)} is no longer approved for good")
    for row in gone:
        print(f"{row.id} is taken back: {plain(', '.join(row.rules))} in session {row.session_id}")
    if not taken and not gone:
        raise HermesError("nothing of that kind is approved; 'hermes approvals list' shows what is")
    return 0


def _named(text: str) -> str:
    # An unset variable in a script must not mean everything.
    if not text.strip():
        raise HermesError("the name is empty; give a rule, an approval's id or a session's, or --all")
    return text
