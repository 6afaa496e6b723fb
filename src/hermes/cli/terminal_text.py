"""Text made safe to print: what a model or a file says must not drive the terminal."""

from __future__ import annotations

import re

_ESCAPE_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def plain(text: str) -> str:
    """The text without escape sequences, control characters and direction overrides; newlines and tabs stay."""
    text = _CONTROL.sub("", _ESCAPE_SEQUENCE.sub("", text))
    return text.encode("utf-8", "replace").decode("utf-8")


def one_line(text: str, limit: int = 500) -> str:
    """The text on one line, plain and cut to a readable length."""
    line = " ".join(plain(text).split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"
