"""Tool calls that a model writes into its text as ``<tool_call>{"name": …, "arguments": …}</tool_call>``."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

_OPEN = "<tool_call>"
_CLOSE = "</tool_call>"


class TextCall(NamedTuple):
    """One call found in the text. ``arguments`` is a JSON object as text."""

    name: str
    arguments: str


class _Written(msgspec.Struct):
    name: str
    arguments: dict[str, Any] | str | None = None


_DECODER = msgspec.json.Decoder(_Written)


class ToolCallSplitter:
    """Sorts streamed text into text and calls, also when a block arrives in pieces.

    Servers whose model has such a chat template, but which do not parse it, return the block as it was written.
    One that holds no proper call stays text: answers do talk about the format. Blanks around a call are nobody's.
    """

    __slots__ = ("_blank", "_held", "_in_block", "_visible", "found")

    def __init__(self) -> None:
        self._held = ""
        self._in_block = False
        #: Text has been given out since the beginning or the last call.
        self._visible = False
        #: Blanks at the beginning, which are text only if text follows.
        self._blank: str = ""
        #: Whether any call was found.
        self.found = False

    def feed(self, text: str) -> list[str | TextCall]:
        """Take the next text; returns what is certain by now."""
        if self._visible and "<" not in text and not self._held and not self._in_block:
            return [text]
        found: list[str | TextCall] = []
        held, self._held = self._held + text, ""
        while held:
            held = self._block(held, found) if self._in_block else self._text(held, found)
        return found

    def finish(self) -> list[str | TextCall]:
        """What was held back. A last block may lack its end: some servers stop at it and leave it out."""
        found: list[str | TextCall] = []
        held, self._held = self._held, ""
        if self._in_block:
            self._in_block = False
            self._settle(held, "", found)
        else:
            self._emit(held, found)
        if self._blank:
            found.append(self._blank)
        self._blank = ""
        return found

    def _text(self, held: str, found: list[str | TextCall]) -> str:
        """Give out text up to the next block; returns what follows its opening tag."""
        before, tag, rest = held.partition(_OPEN)
        if tag:
            self._emit(before, found)
            self._in_block = True
            return rest
        certain = len(held) - _overlap(held, _OPEN)
        self._held = held[certain:]
        self._emit(held[:certain], found)
        return ""

    def _block(self, held: str, found: list[str | TextCall]) -> str:
        """Give out a block that is whole; returns what follows it."""
        inner, tag, rest = held.partition(_CLOSE)
        if not tag:
            self._held = held
            return ""
        self._in_block = False
        self._settle(inner, tag, found)
        return rest

    def _settle(self, inner: str, tag: str, found: list[str | TextCall]) -> None:
        call = _call(inner)
        if call is None:
            self._emit(_OPEN + inner + tag, found)
            return
        self.found, self._visible, self._blank = True, False, ""
        found.append(call)

    def _emit(self, text: str, found: list[str | TextCall]) -> None:
        if not self._visible:
            text = text.lstrip() if self.found else self._blank + text
            self._visible = bool(text) and not text.isspace()
            self._blank = "" if self._visible or self.found else text
        if text and self._visible:
            found.append(text)


def _call(inner: str) -> TextCall | None:
    try:
        written = _DECODER.decode(inner.strip())
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    arguments = written.arguments
    if isinstance(arguments, str):
        return TextCall(written.name, arguments) if written.name else None
    return TextCall(written.name, msgspec.json.encode(arguments or {}).decode()) if written.name else None


def _overlap(text: str, tag: str) -> int:
    """How many characters at the end of ``text`` could be the beginning of the tag."""
    for length in range(min(len(tag) - 1, len(text)), 0, -1):
        if text.endswith(tag[:length]):
            return length
    return 0
