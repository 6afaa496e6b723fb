"""Streaming renderer for a CommonMark subset: takes pieces, returns whole blocks as terminal text."""

from __future__ import annotations

import re

import msgspec

from hermes.surfaces.cli.chat.theme import DARK, Theme
from hermes.surfaces.cli.repl.markdown.painter import Alignment, Painter
from hermes.surfaces.cli.terminal import plain

_QUOTE = re.compile(r" {0,3}> ?")
_ITEM = re.compile(r"( {0,3})([-*+]|\d{1,9}[.)])( +|$)")
_HEADING = re.compile(r" {0,3}(#{1,6})(?: +|$)")
_UNDERLINE = re.compile(r" {0,3}(=+|-+) *$")
_FENCE = re.compile(r"( {0,3})(`{3,}|~{3,})(.*)$")
_DELIMITER_CELL = re.compile(r":?-+:?$")
_CELL_END = re.compile(r"(?<!\\)\|")

#: Longest preview.
_PREVIEW, _PREVIEW_LINES = 4_000, 200

#: Minimum width inside quotes and list items; with less they stay text.
_LEAST_ROOM = 10


class _Fence(msgspec.Struct, frozen=True):
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


class _Container(msgspec.Struct):
    """An open quote or list item: what its first line begins with, and what every other one does."""

    first: str
    rest: str
    #: By how many columns the lines of a list item are indented; 0 is a quote.
    indent: int = 0
    shown: bool = False


class MarkdownStream:
    """Renders Markdown while it streams in.

    Lines are parsed only when complete, so the size of the pieces makes no difference.
    The width may be changed at any time; it holds for the blocks that follow.
    """

    def __init__(self, width: int, colour: bool, *, unicode: bool = True, theme: Theme = DARK) -> None:
        self.width = width
        self._painter = Painter(colour=colour, unicode=unicode, theme=theme)
        self._bar, self._bullet = ("│ ", "• ") if unicode else ("| ", "- ")
        self._partial: list[str] = []
        self._ready: list[str] = []
        self._begin()

    def feed(self, text: str) -> str:
        """Add a piece; returns the terminal text of all blocks completed by it."""
        first, *others = text.split("\n")
        self._partial.append(first)
        for piece in others:
            self._take_line("".join(self._partial))
            self._partial = [piece]
        return self._take_ready()

    def finish(self) -> str:
        """The rest, finished or not. The next piece begins a new text."""
        last = "".join(self._partial)
        if last:
            self._take_line(last)
        self._close_containers(0)
        self._begin()
        return self._take_ready()

    @property
    def pending(self) -> str:
        """The unfinished block as plain text, or the last screens of it when it is long."""
        lines = [*self._lines[-_PREVIEW_LINES:], "".join(self._partial)]
        return plain("\n".join(lines)[-_PREVIEW:])

    # -- lines ------------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Reset to the start of a text."""
        self._partial = []
        self._open: list[_Container] = []
        self._fence: _Fence | None = None
        #: The lines of the open paragraph, or of the open table without its second line.
        self._lines: list[str] = []
        self._alignments: list[Alignment] | None = None
        self._gap = False
        self._any_shown = False

    def _take_line(self, source: str) -> None:
        line = plain(source).expandtabs(4).rstrip()
        kept, rest = self._continue_containers(line)
        if self._fence is not None and kept == len(self._open):
            self._take_code(self._fence, rest)
        elif kept < len(self._open) and self._is_lazy(rest):
            self._lines.append(rest.strip())
        else:
            if kept < len(self._open):
                self._close_containers(kept)
            inner = self._open_containers(rest)
            if inner or len(self._open) == kept:
                self._take_leaf(inner)

    def _take_code(self, fence: _Fence, line: str) -> None:
        if fence.is_closed_by(line):
            self._fence = None
        else:
            outside = min(len(line) - len(line.lstrip(" ")), fence.indent)
            self._show_code(line[outside:], fence.language)

    def _take_leaf(self, line: str) -> None:
        """One line, freed of the marks of its containers."""
        text = line.strip()
        if not text:
            self._flush()
            self._gap = True
        elif self._lines and self._alignments is None and (underline := _UNDERLINE.match(line)):
            lines, self._lines = self._lines, []
            self._show_heading("\n".join(lines), 1 if underline[1].startswith("=") else 2)
        elif self._alignments is not None and "|" in text and not _begins_block(line):
            self._lines.append(text)
        elif heading := _HEADING.match(line):
            self._flush()
            self._show_heading(_without_closing_marks(line[heading.end() :]), len(heading[1]))
        elif _is_rule(line):
            self._flush()
            self._show(self._painter.rule(self._room()))
        elif fence := _opening_fence(line):
            self._flush()
            self._fence = fence
            if fence.title:
                self._show_code(fence.title, "")
        elif line.startswith("    ") and not self._lines:
            self._show_code(line[4:], "")
        else:
            self._take_text(text)

    def _take_text(self, text: str) -> None:
        """A line of a paragraph, unless it turns the line before it into the head of a table."""
        if self._alignments is not None:
            self._flush()
        alignments = _delimiter_row(text) if self._lines and "|" in self._lines[-1] else None
        if alignments is not None and len(alignments) == len(_cells(self._lines[-1])):
            head = self._lines.pop()
            self._flush()
            self._lines, self._alignments = [head], alignments
        else:
            self._lines.append(text)

    # -- containers -------------------------------------------------------------------------------------------------

    def _continue_containers(self, line: str) -> tuple[int, str]:
        """How many of the open containers the line belongs to, and the line without their marks."""
        for position, container in enumerate(self._open):
            if not container.indent:
                quote = _QUOTE.match(line)
                if quote is None:
                    return position, line
                line = line[quote.end() :]
            elif line and not line.startswith(" " * container.indent):
                return position, line
            else:
                line = line[container.indent :]
        return len(self._open), line

    def _is_lazy(self, rest: str) -> bool:
        """Whether the line is a lazy continuation of the open paragraph, without the markers of its containers."""
        return bool(rest and self._lines and self._alignments is None) and not _begins_block(rest)

    def _open_containers(self, line: str) -> str:
        """Open what begins on this line; returns what is in it."""
        while (found := self._container_at(line)) is not None:
            container, inner = found
            if self._room() - len(container.rest) < _LEAST_ROOM:
                break
            self._flush()
            self._open.append(container)
            line = inner
        return line

    def _container_at(self, line: str) -> tuple[_Container, str] | None:
        if quote := _QUOTE.match(line):
            return _Container(self._bar, self._bar), line[quote.end() :]
        item = _ITEM.match(line)
        if item is None or _is_rule(line) or self._goes_on(item, line):
            return None
        # Five blanks and more are one, and an indented line of code.
        blanks = len(item[3]) if 1 <= len(item[3]) < 5 else 1
        indent = item.end(2) + blanks
        marker = self._bullet if item[2] in "-*+" else f"{item[2]} "
        return _Container(marker, " " * len(marker), indent), line[indent:]

    def _goes_on(self, item: re.Match[str], line: str) -> bool:
        """Whether an apparent list item is a line of the open paragraph, such as one that starts with a number."""
        return bool(self._lines) and (item.end() == len(line) or item[2] not in ("-", "*", "+", "1.", "1)"))

    def _close_containers(self, kept: int) -> None:
        self._flush()
        self._fence = None
        while len(self._open) > kept:
            if not self._open[-1].shown and self._open[-1].indent:
                self._show([""])
            self._open.pop()

    # -- showing ----------------------------------------------------------------------------------------------------

    def _flush(self) -> None:
        """Show the open paragraph or table."""
        lines, alignments = self._lines, self._alignments
        self._lines, self._alignments = [], None
        if alignments is not None:
            head, *rows = map(_cells, lines)
            self._show(self._painter.table(head, rows, alignments, self._room()))
        elif lines:
            self._show(self._painter.paragraph("\n".join(lines), self._room()))

    def _show_heading(self, text: str, level: int) -> None:
        self._show(self._painter.heading(text, level, self._room()))

    def _show_code(self, line: str, language: str) -> None:
        self._show(self._painter.code(line, language, self._room()))

    def _show(self, lines: list[str]) -> None:
        if self._gap and self._any_shown:
            shown = [container.rest for container in self._open if container.shown]
            self._ready.append("".join(shown).rstrip() + "\n")
        self._gap = False
        for line in lines:
            self._ready.append(f"{self._margin()}{line}".rstrip() + "\n")
            self._any_shown = True

    def _margin(self) -> str:
        """The prefix of the next line. A list item shows its marker once."""
        pieces: list[str] = []
        for container in self._open:
            pieces.append(container.rest if container.shown else container.first)
            container.shown = True
        return "".join(pieces)

    def _room(self) -> int:
        """The width inside the open containers."""
        return max(self.width - sum(len(container.rest) for container in self._open), 4)

    def _take_ready(self) -> str:
        ready = "".join(self._ready)
        self._ready.clear()
        return ready


# -- the syntax of lines -----------------------------------------------------------------------------------------------


def _begins_block(line: str) -> bool:
    """Whether the line cannot be part of a paragraph or a table."""
    if _HEADING.match(line) or _QUOTE.match(line) or _is_rule(line) or _opening_fence(line):
        return True
    return _ITEM.match(line) is not None


def _is_rule(line: str) -> bool:
    """Whether the line is a thematic break."""
    marks = line.replace(" ", "")
    return len(marks) >= 3 and marks[0] in "-*_" and not marks.strip(marks[0]) and not line.startswith("    ")


def _opening_fence(line: str) -> _Fence | None:
    """The code fence that begins here."""
    match = _FENCE.match(line)
    # Backticks on the rest of the line make it code within a paragraph.
    if match is None or (match[2].startswith("`") and "`" in match[3]):
        return None
    language, _, title = match[3].strip().partition(" ")
    return _Fence(len(match[1]), match[2], language, title.strip())


def _without_closing_marks(heading: str) -> str:
    """``Title ##`` is ``Title``, and ``C#`` stays."""
    heading = heading.rstrip()
    bare = heading.rstrip("#")
    return bare.strip() if not bare or bare.endswith(" ") else heading.strip()


def _cells(line: str) -> list[str]:
    """The cells of a table's row."""
    inner = line.strip().removeprefix("|")
    if inner.endswith("|") and not inner.endswith("\\|"):
        inner = inner[:-1]
    return [cell.strip().replace("\\|", "|") for cell in _CELL_END.split(inner)]


def _delimiter_row(line: str) -> list[Alignment] | None:
    """How the columns are aligned, when this is the line under the head of a table."""
    alignments: list[Alignment] = []
    for cell in _cells(line):
        if not _DELIMITER_CELL.match(cell):
            return None
        right = cell.endswith(":")
        alignments.append("center" if right and cell.startswith(":") else "right" if right else "left")
    return alignments
