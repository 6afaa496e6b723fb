"""``hermes approvals``: allowed commands, approval questions, and an explanation of what the policy decides."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

from msgspec import structs

from hermes.agent.approvals.assessment import Assessment, assess_call
from hermes.agent.approvals.examination import examine_command
from hermes.agent.approvals.rules import ApprovalRules
from hermes.base.config import config_path, hermes_home, load_config
from hermes.base.config.edit import edit_list
from hermes.base.config.secrets import home_redactor
from hermes.base.errors import HermesError
from hermes.base.sanitize.hidden import escape_hidden
from hermes.journal.questions import OWNER, QuestionRow, Questions
from hermes.journal.sessions import Sessions
from hermes.journal.store.port import Store, home_store
from hermes.surfaces.cli.arguments import JSON, Action, Argument, CommandSpec, OneOf, flag
from hermes.surfaces.cli.report import Report
from hermes.surfaces.cli.terminal import one_line, plain

_LONGEST_SUBJECT = 60

_DECISIONS = {
    "allow": "no rule matches",
    "ask": "needs approval",
    "hardline": "never runs",
}


def explained_lines(assessment: Assessment, reviewer: str) -> Iterator[str]:
    """The policy findings for a command, and the decision with the current settings."""
    yield f"{assessment.verdict}: {_DECISIONS[assessment.verdict]}"
    for finding in assessment.found:
        yield f"  {finding.rule}: {plain(finding.description)}"
        yield f"    {one_line(finding.part)}"
    yield _in_effect(assessment, reviewer)
    yield from (f"  {plain(reason)}" for reason in assessment.because)


def _in_effect(assessment: Assessment, reviewer: str) -> str:
    if assessment.outcome == "run":
        return "Runs without asking."
    if assessment.outcome == "refuse":
        return "Is blocked."
    rules = ", ".join(dict.fromkeys(finding.rule for finding in assessment.findings))
    who = "; the auxiliary model is asked first" if reviewer == "model" else ""
    return f"Needs approval: {rules}{who}"


def _subject(row: QuestionRow) -> str:
    return one_line(row.subject, _LONGEST_SUBJECT)


def _clock(at: float | None) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at or 0))


#: How many of the last answers are shown.
RECENT = 20

_EXAMPLES = """
examples:
  hermes approvals                                   allowed commands, open questions, last answers
  hermes approvals pending                           what callers of this agent wait for
  hermes approvals approve appr_0f3b6c1d9a7e         let that one call run
  hermes approvals explain 'rm -rf notes'            would it run, and why; does not run it
  hermes approvals revoke recursive-delete           ask about that again, everywhere
"""


def _list(_args: argparse.Namespace, store: Store) -> Report:
    home = hermes_home()
    always, rows = load_config(home).config.command_allowlist, Questions(store)
    found = (rows.grants(), rows.pending(kind="approval"), rows.recent(RECENT))
    grants, pending, recent = (_redacted(some, home) for some in found)
    document = {
        "always": always,
        "session": list(map(_approval_fields, grants)),
        "pending": list(map(_approval_fields, pending)),
        "recent": list(map(_approval_fields, recent)),
    }
    sections = {
        f"Always allowed (command_allowlist in {config_path(home)}):": [plain(entry) for entry in always],
        "Allowed in a session:": [
            f"{row.id}  {_clock(row.answered_at)}  session {row.session_id}  {plain(', '.join(row.rules))}"
            for row in grants
        ],
        "Waiting for an answer:": [
            f"{row.id}  {_clock(row.created_at)}  session {row.session_id}  {_subject(row)}" for row in pending
        ],
        "Last answers:": [
            f"{row.id}  {_clock(row.answered_at)}  {row.answer or 'withdrawn':<13}  {_subject(row)}" for row in recent
        ],
    }
    shown = ["\n".join([heading, *(f"  {line}" for line in lines)]) for heading, lines in sections.items() if lines]
    return Report(document, ["\n\n".join(shown) or "No approvals and no questions yet."])


def _approval_fields(row: QuestionRow) -> dict[str, Any]:
    """The fields of an approval, without those of other kinds of questions."""
    named = {
        name: value
        for name, value in structs.asdict(row).items()
        if name not in ("kind", "choices", "answer", "deadline")
    }
    return {**named, "choice": row.answer}


def _redacted(rows: Iterable[QuestionRow], home: Path) -> list[QuestionRow]:
    """The rows without secrets: a command may contain one."""
    redact = home_redactor(home).redact
    return [
        structs.replace(
            row, subject=redact(row.subject), description=redact(row.description), reason=redact(row.reason)
        )
        for row in rows
    ]


def _pending(_args: argparse.Namespace, store: Store) -> Report:
    rows, sessions = _redacted(Questions(store).pending(kind="approval"), hermes_home()), Sessions(store)
    principals = {row.session_id: sessions.get(row.session_id).principal for row in rows}
    document = [
        {**_approval_fields(row), "principal": principals[row.session_id], "deadline": row.deadline} for row in rows
    ]
    lines = (line for row in rows for line in _question_lines(row, principals[row.session_id] or "you"))
    return Report(document, lines, empty="" if rows else "Nothing waits for an answer.")


def _question_lines(row: QuestionRow, who: str) -> Iterator[str]:
    until = f"until {_clock(row.deadline)}" if row.deadline else "at a prompt"
    yield f"{row.id}  {who}  {until}  {row.tool}, which {row.description}:"
    # Whole and line by line: nothing that is being decided about may be hidden.
    yield from (f"  {line}" for line in plain(escape_hidden(row.subject)).split("\n"))


def _answer(args: argparse.Namespace, store: Store) -> None:
    questions, word = Questions(store), "denied" if args.choice == "deny" else "approved"
    for row in [_waiting_question(questions, question_id) for question_id in args.ids]:
        now = questions.answer(row.id, args.choice, args.reason or f"{word} by the owner", by=OWNER)
        if now.answer != args.choice:
            raise HermesError(f"{row.id} was answered in the meantime: {now.answer or 'withdrawn'}")
        print(f"{row.id} {word}: {_subject(row)}")


def _waiting_question(questions: Questions, question_id: str) -> QuestionRow:
    waiting = questions.pending(kind="approval")
    found = [row for row in waiting if row.id == question_id]
    found = found or [row for row in waiting if question_id.strip() and row.id.startswith(question_id)]
    if len(found) == 1:
        return found[0]
    if found:
        raise HermesError(f"several ids start with {question_id!r}; give more of it")
    known = questions.get(question_id)
    if known is not None and known.kind == "approval":
        raise HermesError(f"{question_id} does not wait for an answer: {known.answer or known.state}")
    raise HermesError(f"no call {question_id!r} waits for an answer; 'hermes approvals pending' shows those that do")


def _explain(args: argparse.Namespace, _store: Store) -> Report:
    home = hermes_home()
    config = load_config(home).config
    cwd = str((args.cwd or Path.cwd()).expanduser().absolute())
    rules = ApprovalRules(config)
    # Everything in the folder counts as older than the session: it has not begun.
    examined = examine_command(args.command, cwd, home, time.time())
    assessment = assess_call(rules, "terminal", examined, mode=rules.permission_mode)
    document = {
        "command": args.command,
        "cwd": cwd,
        "decision": assessment.verdict,
        "findings": [asdict(finding) for finding in assessment.found],
        "outcome": assessment.outcome,
        "mode": config.approvals.permission_mode,
        "reviewer": config.approvals.reviewer,
        "because": list(assessment.because),
    }
    return Report(document, explained_lines(assessment, config.approvals.reviewer))


def _revoke(args: argparse.Namespace, store: Store) -> None:
    home = hermes_home()
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
        print(f"{plain(entry)} is no longer always allowed")
    for row in gone:
        print(f"{row.id} revoked: {plain(', '.join(row.rules))} in session {row.session_id}")
    if not taken and not gone:
        raise HermesError("no such approval; 'hermes approvals list' shows them")


def _named(text: str) -> str:
    # An unset variable in a script must not mean everything.
    if not text.strip():
        raise HermesError("empty name; give a rule, an approval id or a session id, or --all")
    return text


def _answering(name: str, choice: str, meaning: str) -> Action:
    return Action(name, _answer, meaning, defaults={"choice": choice}).takes(
        Argument("ids ID", "the id, or a unique beginning of it", nargs="+"),
        Argument("--reason TEXT", "the reason; the agent gets it", default=""),
    )


COMMAND = CommandSpec(
    default="list",
    opened=lambda _args: closing(home_store(hermes_home())),
    epilog=_EXAMPLES,
    actions=(
        Action("list", _list, "show allowed commands, open questions and the last answers (the default)").takes(JSON),
        Action("explain", _explain, "show whether a command would run, and why; does not run it").takes(
            Argument("command COMMAND", "the whole command line, in quotes"),
            Argument("--cwd DIR", "its working directory (default: the current one)", type=Path),
            JSON,
        ),
        Action("pending", _pending, "show the calls that wait for an answer, with who asked for them").takes(JSON),
        _answering("approve", "once", "allow calls that wait for an answer; works while the server runs"),
        _answering("deny", "deny", "refuse calls that wait for an answer; works while the server runs"),
        Action("revoke", _revoke, "revoke approvals").takes(
            OneOf(
                Argument("what RULE|ID", "a rule or pattern, or the id of one approval", nargs="?"),
                Argument("--session ID", "everything approved in that session"),
                flag("--all", "everything, permanent and per session"),
                required=True,
            )
        ),
    ),
)
