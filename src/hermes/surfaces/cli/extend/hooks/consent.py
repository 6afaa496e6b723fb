"""Consent question at the terminal: may a hook command run?"""

from __future__ import annotations

import sys

from hermes.base.sanitize import redact_text
from hermes.plugins.shell_hooks.consent import ConsentAnswer, ConsentQuestion
from hermes.surfaces.cli.terminal import can_prompt, plain

_ANSWERS: dict[str, ConsentAnswer] = {"y": "always", "yes": "always", "o": "once", "once": "once"}


def ask_at_terminal(question: ConsentQuestion) -> ConsentAnswer | None:
    """The answer; ``None`` without a terminal."""
    if not can_prompt():
        return None
    print(_question_text(question), file=sys.stderr)
    print("Run it? [y]es and do not ask again / [o]nce / [N]o: ", end="", file=sys.stderr, flush=True)
    line = sys.stdin.readline()
    if not line.endswith("\n"):
        print(file=sys.stderr)  # at the end of the input, the cursor is still on the line of the question
    return _ANSWERS.get(line.strip().lower(), "no")


def _question_text(question: ConsentQuestion) -> str:
    command = question.command
    lines = [f"The configuration runs this command for {command.event}:", f"  {command.command}"]
    if question.script is not None:
        lines.append(f"  script: {question.script}")
    if question.before is not None:
        lines.append(f"  The script has changed since you accepted it on {question.before.approved_at}.")
    return plain(redact_text("\n".join(lines)))
