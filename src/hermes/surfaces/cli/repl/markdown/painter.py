"""Rendering of Markdown blocks as terminal lines."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from hermes.surfaces.cli.chat.theme import DARK, Theme
from hermes.surfaces.cli.terminal import plain

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token
    from pygments.lexer import Lexer
    from rich.console import Console, RenderableType
    from rich.segment import Segment
    from rich.text import Text

Alignment = Literal["left", "center", "right"]

#: Longer texts are shown without inline formatting, which would take too long.
_LONGEST_INLINE = 20_000
_LONGEST_HIGHLIGHT = 1_000

#: A table whose columns would be narrower than this on average is shown as a list of records.
_NARROWEST_COLUMN = 7

_STYLES = {"strong": "bold", "em": "italic", "s": "strike", "link": "underline"}
_HEADING_STYLES = {1: "bold underline", 2: "bold", 3: "bold italic"}


class Painter:
    """Renders blocks as lines of a given width. Without colour they have no escape codes."""

    def __init__(self, *, colour: bool, unicode: bool, theme: Theme = DARK) -> None:
        self._colour = colour
        self._theme = theme
        self._unicode = unicode
        self._console = _console(colour)

    def paragraph(self, source: str, width: int) -> list[str]:
        """Text with its emphasis, links and code; its line breaks stay."""
        return self._lines(self._inline(source), width)

    def heading(self, source: str, level: int, width: int) -> list[str]:
        """A heading. Where no style can set it apart, its marks do."""
        if not self._colour:
            return self._lines(self._inline(f"{'#' * level} {source}"), width)
        text = self._inline(source)
        text.stylize_before(_HEADING_STYLES.get(level, "italic"))
        return self._lines(text, width)

    def rule(self, width: int) -> list[str]:
        """A line across."""
        return [("─" if self._unicode else "-") * width]

    def code(self, line: str, language: str, width: int) -> list[str]:
        """One line of code, indented, folded where the terminal ends."""
        from rich.cells import chop_cells

        text = self._highlighted(line, language)
        margin = "  " if width > 10 else ""
        folded = chop_cells(text.plain, width - len(margin))
        offsets: list[int] = []
        for piece in folded[:-1]:
            offsets.append((offsets[-1] if offsets else 0) + len(piece))
        return [margin + "".join(map(self._ink, part.render(self._console))) for part in text.divide(offsets)]

    def table(self, head: list[str], rows: list[list[str]], alignments: list[Alignment], width: int) -> list[str]:
        """A table, or a list of records when the columns do not fit."""
        columns = len(head)
        rows = [[*row[: columns - 1], " | ".join(row[columns - 1 :])] for row in rows]
        if columns * _NARROWEST_COLUMN > width:
            return self._records(head, rows, width)
        from rich import box
        from rich.table import Table

        style = box.SIMPLE_HEAD if self._unicode else box.MARKDOWN
        table = Table(box=style, show_edge=False, pad_edge=False, header_style="bold")
        for title, alignment in zip(head, alignments, strict=True):
            table.add_column(self._inline(title), justify=alignment, overflow="fold")
        for row in rows:
            table.add_row(*map(self._inline, row))
        return self._lines(table, width)

    def _records(self, head: list[str], rows: list[list[str]], width: int) -> list[str]:
        if not rows:
            return self.paragraph("\n".join(head), width)
        lines: list[str] = []
        for row in rows:
            lines += [""] if lines else []
            for title, cell in zip(head, row, strict=False):
                lines += self.paragraph(f"{title}: {cell}", width)
        return lines

    # -- text -------------------------------------------------------------------------------------------------------

    def _inline(self, source: str) -> Text:
        from rich.text import Text

        text = Text(overflow="fold")
        if len(source) > _LONGEST_INLINE:
            return text.append(source)
        depths = dict.fromkeys(_STYLES, 0)
        links: list[tuple[int, str]] = []
        for token in _inline_tokens(source):
            kind, _, edge = token.type.rpartition("_")
            if kind in depths and edge in ("open", "close"):
                depths[kind] += token.nesting
                if kind == "link":
                    _mark_link(text, token, links)
                continue
            style = " ".join(_STYLES[name] for name, depth in depths.items() if depth)
            if token.type == "code_inline":
                style, content = (
                    f"{style} {self._theme.inline_code}",
                    token.content if self._colour else f"`{token.content}`",
                )
            elif token.type == "image":
                content = f"{token.content} ({token.attrGet('src')} {token.attrGet('title') or ''}".rstrip() + ")"
            else:
                content = "\n" if token.type.endswith("break") else token.content
            text.append(plain(content), style)
        return text

    def _highlighted(self, line: str, language: str) -> Text:
        from rich.syntax import Syntax
        from rich.text import Text

        lexer = _lexer(language) if self._colour and language and len(line) <= _LONGEST_HIGHLIGHT else None
        if lexer is None:
            return Text(line)
        theme = Syntax.get_theme(self._theme.code_theme)
        text = Text()
        for kind, value in lexer.get_tokens(line):
            text.append(value.rstrip("\n"), theme.get_style_for_token(kind))
        # A highlighter may normalise its input: keep the model's text then.
        return text if text.plain == line else Text(line)

    # -- lines ------------------------------------------------------------------------------------------------------

    def _lines(self, renderable: RenderableType, width: int) -> list[str]:
        options = self._console.options.update(width=width)
        rendered = self._console.render_lines(renderable, options, pad=False)
        return ["".join(map(self._ink, line)) for line in rendered]

    def _ink(self, segment: Segment) -> str:
        from rich.color import ColorSystem

        if not self._colour or segment.style is None:
            return segment.text
        return segment.style.render(segment.text, color_system=ColorSystem.STANDARD)


def _console(colour: bool) -> Console:
    """A console for layout only, with explicit terminal properties."""
    from io import StringIO

    from rich.console import Console

    return Console(
        file=StringIO(),
        width=80,
        height=25,
        color_system="standard" if colour else None,
        force_terminal=colour,
        force_interactive=False,
        legacy_windows=False,
        markup=False,
        emoji=False,
        highlight=False,
    )


@lru_cache(maxsize=1)
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    # HTML is shown as text, and URLs stay as written: no link is ever followed.
    parser = MarkdownIt("commonmark", {"html": False}).enable("strikethrough")
    parser.normalizeLink = lambda url: url
    parser.validateLink = lambda url: True
    return parser


def _inline_tokens(source: str) -> list[Token]:
    [block] = _parser().parseInline(source)
    return block.children or []


def _mark_link(text: Text, token: Token, links: list[tuple[int, str]]) -> None:
    """Add the URL after the text of a link, unless the text is the URL."""
    if token.nesting > 0:
        address = " ".join(str(token.attrGet(name) or "") for name in ("href", "title"))
        links.append((len(text), plain(address).strip()))
        return
    start, address = links.pop()
    if address.removeprefix("mailto:") != text.plain[start:]:
        text.append(f" ({address})")


@lru_cache(maxsize=16)
def _lexer(language: str) -> Lexer | None:
    from rich.syntax import Syntax

    return Syntax("", language).lexer
