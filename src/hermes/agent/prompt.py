"""The system prompt: who the agent is and where it works. Short, because every request carries it."""

from __future__ import annotations

import os
import time
from pathlib import Path

_CORE = """\
You are Hermes, an agent that gets things done with the tools you are given.

- Use tools to find out and to act; do not guess what you can check. Say plainly when something failed or is unknown.
- Several independent look-ups belong in one message, so that they run at the same time.
- Read a file before you change it, change only what the task needs, and check the result.
- A tool result with "outcome": "unknown" may or may not have taken effect: look before you repeat it.
- Answer in the user's language, briefly, with the result first."""


def system_prompt(cwd: Path, *, extra: str = "") -> str:
    """The prompt for work in ``cwd``. The same day and place give the same text, so that providers can cache it."""
    place = f"Working directory: {cwd}\nSystem: {os.uname().sysname} {os.uname().machine}, shell {_shell()}\n"
    date = f"Date: {time.strftime('%Y-%m-%d')}"
    return "\n\n".join(part for part in (_CORE, place + date, extra.strip()) if part)


def _shell() -> str:
    return Path(os.environ.get("SHELL") or "/bin/sh").name


#: Added as a user message when the step budget is spent; the request that carries it offers no tools.
OUT_OF_TURNS = (
    "You have used all the steps this task was allowed, and no more tools are available. Give your best final answer "
    "now from what you know, and say what remains to be done."
)
