"""Approvals as text for a person."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from hermes.agent.approvals.assessment import Assessment
from hermes.cli.terminal import one_line, plain
from hermes.journal.questions import QuestionRow
from hermes.sanitize import redact_text

_LONGEST_SUBJECT = 60

_DECISIONS = {
    "allow": "no rule objects",
    "ask": "somebody has to approve it",
    "hardline": "it is never run",
}


def list_lines(
    always: Sequence[str],
    grants: Sequence[QuestionRow],
    pending: Sequence[QuestionRow],
    recent: Sequence[QuestionRow],
    config: Path,
) -> Iterator[str]:
    """What is approved, what waits and what was answered, under a heading each."""
    if not (always or grants or pending or recent):
        yield "Nothing is approved, nothing waits, and nothing was asked yet."
        return
    sections: tuple[tuple[str, Iterable[str]], ...] = (
        (f"Approved for good (command_allowlist in {config}):", map(plain, always)),
        ("Approved in a conversation:", map(_grant_line, grants)),
        ("Waiting for an answer:", map(_pending_line, pending)),
        ("Answered last:", map(_recent_line, recent)),
    )
    first = True
    for heading, lines in sections:
        shown = list(lines)
        if shown:
            yield from ([] if first else [""])
            yield heading
            yield from (f"  {line}" for line in shown)
            first = False


def explained_lines(assessment: Assessment, mode: str) -> Iterator[str]:
    """What the rules say about a command, and what the settings make of it."""
    verdict = assessment.verdict
    yield f"{verdict}: {_DECISIONS[verdict]}"
    for finding in assessment.found:
        yield f"  {finding.rule}: {plain(finding.description)}"
        yield f"    {one_line(finding.part)}"
    yield f"With your settings it {_in_effect(assessment, mode)}."
    yield from (f"  {plain(reason)}" for reason in assessment.because)


def _in_effect(assessment: Assessment, mode: str) -> str:
    if assessment.outcome == "run":
        return "runs without a question"
    if assessment.outcome == "refuse":
        return "is refused"
    rules = ", ".join(dict.fromkeys(finding.rule for finding in assessment.findings))
    who = "the auxiliary model is asked first" if mode == "smart" else "a person is asked"
    return f"waits until it is approved ({rules}; {who})"


def _grant_line(row: QuestionRow) -> str:
    return f"{row.id}  {_clock(row.answered_at)}  session {row.session_id}  {plain(', '.join(row.rules))}"


def _pending_line(row: QuestionRow) -> str:
    return f"{row.id}  {_clock(row.created_at)}  session {row.session_id}  {_subject(row)}"


def _recent_line(row: QuestionRow) -> str:
    answer = row.answer or "withdrawn"
    return f"{row.id}  {_clock(row.answered_at)}  {answer:<13}  {_subject(row)}"


def _subject(row: QuestionRow) -> str:
    return one_line(redact_text(row.subject), _LONGEST_SUBJECT)


def _clock(at: float | None) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at or 0))
