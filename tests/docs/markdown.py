"""Pieces of Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table, one line per row."""
    lines = [headings, ["---"] * len(headings), *rows]
    return "".join(f"| {' | '.join(map(_cell, line))} |\n" for line in lines)


def code(text: str) -> str:
    """The text as code; nothing stays nothing."""
    return f"`{text}`" if text else ""


def alternatives(names: Iterable[str]) -> str:
    """Names as code, any one of which will do."""
    return " or ".join(map(code, names))


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
