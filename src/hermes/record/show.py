"""Differences for people: a small unified diff of what one run has and the other has not."""

from __future__ import annotations

import difflib
from typing import Any

import msgspec

from hermes.record.compare import Difference

#: Lines of a diff that are shown, and characters of each.
MOST_LINES, LONGEST_LINE = 14, 160


def difference_lines(difference: Difference, *, names: tuple[str, str] = ("recorded", "now")) -> list[str]:
    """The place, and what changed there."""
    lines = [f"{difference.place}:"]
    before, after = as_text(difference.before), as_text(difference.after)
    if difference.before is None:
        return [*lines, *_short([f"+ {line}" for line in after.splitlines()])]
    if difference.after is None:
        return [*lines, *_short([f"- {line}" for line in before.splitlines()])]
    changed = difflib.unified_diff(before.splitlines(), after.splitlines(), *names, lineterm="", n=1)
    shown = [line for line in changed if not line.startswith(("---", "+++"))]
    if not shown:
        shown = [f"-{before!r}", f"+{after!r}"]
    return [*lines, *_short(shown)]


def as_text(value: Any) -> str:
    """A value as text with a line for each part."""
    if isinstance(value, str):
        return value
    return msgspec.json.format(msgspec.json.encode(value, order="deterministic"), indent=2).decode()


def _short(lines: list[str]) -> list[str]:
    cut = [line if len(line) <= LONGEST_LINE else f"{line[: LONGEST_LINE - 1]}…" for line in lines]
    if len(cut) <= MOST_LINES:
        return [f"  {line}" for line in cut]
    left = len(cut) - MOST_LINES
    return [*(f"  {line}" for line in cut[:MOST_LINES]), f"  … {left} more line{'' if left == 1 else 's'}"]
