"""Bounded output of a command: keeps the beginning and the end, and counts the middle."""

from __future__ import annotations

import codecs
import re
import threading

_ESCAPES = re.compile(
    r"\x1b(?:"
    r"\[[0-?]*[ -/]*[@-~]"  # colours, cursor movement
    r"|\][^\x07\x1b\n]*(?:\x07|\x1b\\)?"  # window titles, links
    r"|[PX^_][^\x1b\n]*(?:\x1b\\)?"  # device strings
    r"|[ -/]*[0-~]"  # character sets, reset
    r")"
)


class BoundedOutput:
    """Collects bytes as text and holds at most ``limit`` characters: 40 % from the start, 60 % from the end."""

    def __init__(self, limit: int) -> None:
        self._head_limit = limit * 2 // 5
        self._tail_limit = limit - self._head_limit
        self._head = ""
        self._tail: list[str] = []
        self._tail_length = 0
        self._total = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._lock = threading.Lock()

    def feed(self, data: bytes) -> None:
        """Add bytes; multi-byte characters may be cut anywhere."""
        with self._lock:
            self._add(self._decoder.decode(data))

    def end(self) -> None:
        """End of the output: an incomplete character becomes a replacement character."""
        with self._lock:
            self._add(self._decoder.decode(b"", final=True))

    def text(self) -> str:
        """The kept text, with a line that says how much was omitted."""
        with self._lock:
            self._shorten_tail()
            dropped = self._total - len(self._head) - self._tail_length
            return self._head + (omission(dropped) if dropped else "") + "".join(self._tail)

    def _add(self, text: str) -> None:
        self._total += len(text)
        room = self._head_limit - len(self._head)
        if room > 0:
            self._head += text[:room]
            text = text[room:]
        if text:
            self._tail.append(text)
            self._tail_length += len(text)
            if self._tail_length > 4 * self._tail_limit + 1_000_000:
                self._shorten_tail()  # rarely, so that a flood costs one copy per megabyte

    def _shorten_tail(self) -> None:
        if self._tail_length > self._tail_limit:
            self._tail = ["".join(self._tail)[-self._tail_limit :]] if self._tail_limit else []
            self._tail_length = self._tail_limit


def omission(characters: int) -> str:
    """The line for omitted output."""
    return f"\n\n[… {characters:,} characters of output left out …]\n\n"


def shorten(text: str, limit: int) -> str:
    """``text`` bounded like streamed output."""
    if len(text) <= limit:
        return text
    head = limit * 2 // 5
    tail = limit - head
    return text[:head] + omission(len(text) - limit) + text[len(text) - tail :]


def strip_escapes(text: str) -> str:
    """``text`` without escape sequences and NUL characters."""
    text = text.replace("\0", "")
    return _ESCAPES.sub("", text) if "\x1b" in text else text
