"""Line syntax of Markdown: markers of blocks, code fences, rows of tables."""

from __future__ import annotations

import re
from typing import Literal

import msgspec

Alignment = Literal["left", "center", "right"]

QUOTE = re.compile(r" {0,3}> ?")
ITEM = re.compile(r"( {0,3})([-*+]|\d{1,9}[.)])( +|$)")
HEADING = re.compile(r" {0,3}(#{1,6})(?: +|$)")
UNDERLINE = re.compile(r" {0,3}(=+|-+) *$")
_FENCE = re.compile(r"( {0,3})(`{3,}|~{3,})(.*)$")
_DELIMITER_CELL = re.compile(r":?-+:?$")
_CELL_END = re.compile(r"(?<!\\)\|")


class Fence(msgspec.Struct, frozen=True):
    """An open code fence."""

    indent: int
    marker: str
    language: str
    #: The rest of the opening line, such as a file name.
    title: str

    def is_closed_by(self, line: str) -> bool:
        """Whether this line is the end of the fence."""
        match = _FENCE.match(line)
        return match is not None and match[2].startswith(self.marker) and not match[3].strip()


def begins_block(line: str) -> bool:
    """Whether the line cannot be part of a paragraph or a table."""
    if HEADING.match(line) or QUOTE.match(line) or is_rule(line) or opening_fence(line):
        return True
    return ITEM.match(line) is not None


def is_rule(line: str) -> bool:
    """Whether the line is a thematic break."""
    marks = line.replace(" ", "")
    return len(marks) >= 3 and marks[0] in "-*_" and not marks.strip(marks[0]) and not line.startswith("    ")


def opening_fence(line: str) -> Fence | None:
    """The code fence that begins here."""
    match = _FENCE.match(line)
    # Backticks on the rest of the line make it code within a paragraph.
    if match is None or (match[2].startswith("`") and "`" in match[3]):
        return None
    language, _, title = match[3].strip().partition(" ")
    return Fence(len(match[1]), match[2], language, title.strip())


def without_closing_marks(heading: str) -> str:
    """``Title ##`` is ``Title``, and ``C#`` stays."""
    heading = heading.rstrip()
    bare = heading.rstrip("#")
    return bare.strip() if not bare or bare.endswith(" ") else heading.strip()


def row(line: str) -> list[str]:
    """The cells of a table's row."""
    inner = line.strip().removeprefix("|")
    if inner.endswith("|") and not inner.endswith("\\|"):
        inner = inner[:-1]
    return [cell.strip().replace("\\|", "|") for cell in _CELL_END.split(inner)]


def delimiter_row(line: str) -> list[Alignment] | None:
    """How the columns are aligned, when this is the line under the head of a table."""
    alignments: list[Alignment] = []
    for cell in row(line):
        if not _DELIMITER_CELL.match(cell):
            return None
        right = cell.endswith(":")
        alignments.append("center" if right and cell.startswith(":") else "right" if right else "left")
    return alignments
