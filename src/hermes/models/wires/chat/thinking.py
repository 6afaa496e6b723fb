"""Reasoning that a model writes into its text as a leading ``<think>…</think>`` block."""

from __future__ import annotations

from typing import Literal

import msgspec

_OPEN = "<think>"
_CLOSE = "</think>"

Kind = Literal["text", "reasoning"]
Piece = tuple[Kind, str]


class ThinkSplitter(msgspec.Struct):
    """Sorts streamed text into reasoning and answer, also when a tag arrives in pieces.

    Only a block at the very start counts: the same tag later on is text, because answers do talk about it.
    """

    _state: Literal["start", "thinking", "after"] = "start"
    _held: str = ""
    #: Everything that follows is plain text: the caller need not ask any more.
    passive: bool = False

    def feed(self, text: str) -> list[Piece]:
        """Take the next text; returns what is certain by now."""
        if self.passive:
            return [("text", text)] if text else []
        held, self._held = self._held + text, ""
        if self._state == "start":
            return self._start(held)
        if self._state == "thinking":
            return self._think(held)
        return self._answer(held)

    def finish(self) -> list[Piece]:
        """What was held back because a tag might have followed."""
        held, self._held = self._held, ""
        if not held:
            return []
        return [("reasoning" if self._state == "thinking" else "text", held)]

    def _start(self, held: str) -> list[Piece]:
        visible = held.lstrip()
        if visible.startswith(_OPEN):
            self._state = "thinking"
            return self._think(visible.removeprefix(_OPEN))
        if _OPEN.startswith(visible):
            self._held = held
            return []
        self.passive = True
        return [("text", held)]

    def _think(self, held: str) -> list[Piece]:
        thoughts, close, rest = held.partition(_CLOSE)
        if close:
            self._state = "after"
            before: list[Piece] = [("reasoning", thoughts)] if thoughts else []
            return before + self._answer(rest)
        certain = len(held) - tag_overlap(held, _CLOSE)
        self._held = held[certain:]
        return [("reasoning", held[:certain])] if certain else []

    def _answer(self, held: str) -> list[Piece]:
        # The blank lines between the block and the answer belong to neither.
        text = held.lstrip()
        if not text:
            return []
        self.passive = True
        return [("text", text)]


def without_thoughts(text: str, reasoning: str) -> tuple[str, str]:
    """An answer, and its reasoning, when the prompt opened the block, so that the text has only the closing tag.

    A stream cannot be taken back; what is recorded can be sorted. The tag counts at the end of a line, once, and not
    where the text has an opening one: answers do talk about it.
    """
    thoughts, close, rest = text.partition(_CLOSE)
    if not close or not rest.startswith("\n") or _CLOSE in rest or _OPEN in thoughts or "`" in thoughts[-1:]:
        return text, reasoning
    return rest.lstrip(), "\n".join(filter(None, (reasoning, thoughts.strip())))


def tag_overlap(text: str, tag: str) -> int:
    """How many characters at the end of ``text`` could be the beginning of the tag."""
    for length in range(min(len(tag) - 1, len(text)), 0, -1):
        if text.endswith(tag[:length]):
            return length
    return 0
