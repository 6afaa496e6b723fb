"""Markdown as the HTML that Telegram understands: a few inline tags, code, quotations; the rest becomes plain text."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markdown_it.token import Token

_INLINE = {"strong": "b", "em": "i", "s": "s"}


def to_html(markdown: str) -> str:
    """The text as Telegram's HTML. HTML in it stays visible text."""
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"])
    return _Blocks().render(parser.parse(markdown))


class _Blocks:
    def __init__(self) -> None:
        self._parts: list[str] = []
        #: The number of the next item of each open list; ``None`` for a list without numbers.
        self._lists: list[int | None] = []

    def render(self, tokens: Sequence[Token]) -> str:
        for token in tokens:
            self._add(token)
        return "".join(self._parts).strip("\n")

    def _add(self, token: Token) -> None:
        kind, parts = token.type, self._parts
        if kind == "inline":
            parts.append(_inline(token.children or []))
        elif kind in ("fence", "code_block"):
            parts.append(f"<pre>{escape(token.content.rstrip(), quote=False)}</pre>\n\n")
        elif kind in ("bullet_list_open", "ordered_list_open"):
            start = token.attrGet("start")
            self._lists.append((int(start) if start else 1) if kind == "ordered_list_open" else None)
        elif kind in ("bullet_list_close", "ordered_list_close"):
            self._lists.pop()
            parts.append("" if self._lists else "\n")
        elif kind == "list_item_open":
            number = self._lists[-1]
            parts.append("  " * (len(self._lists) - 1) + ("• " if number is None else f"{number}. "))
            if number is not None:
                self._lists[-1] = number + 1
        else:
            parts.append(self._fixed(kind))

    def _fixed(self, kind: str) -> str:
        return {
            "paragraph_close": "\n" if self._lists else "\n\n",
            "heading_open": "<b>",
            "heading_close": "</b>\n\n",
            "blockquote_open": "<blockquote>",
            "blockquote_close": "</blockquote>\n",
            "hr": "———\n\n",
            "th_close": " | ",
            "td_close": " | ",
            "tr_close": "\n",
            "table_close": "\n",
        }.get(kind, "")


def _inline(tokens: Sequence[Token]) -> str:
    parts: list[str] = []
    for token in tokens:
        name = token.type.removesuffix("_open").removesuffix("_close")
        if token.type in ("softbreak", "hardbreak"):
            parts.append("\n")
        elif token.type == "code_inline":
            parts.append(f"<code>{escape(token.content, quote=False)}</code>")
        elif name in _INLINE:
            parts.append(f"<{'/' if token.nesting < 0 else ''}{_INLINE[name]}>")
        elif token.type == "link_open":
            parts.append(f'<a href="{escape(str(token.attrGet("href")))}">')
        elif token.type == "link_close":
            parts.append("</a>")
        elif token.type == "image":
            parts.append(f'<a href="{escape(str(token.attrGet("src")))}">{escape(token.content) or "image"}</a>')
        else:
            parts.append(escape(token.content, quote=False))
    return "".join(parts)
