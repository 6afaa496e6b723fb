"""What of a model's text may leave: everything but the reasoning that it writes between ``<think>`` tags."""

from __future__ import annotations

_OPEN = "<think>"
_CLOSE = "</think>"


class VisibleText:
    """Takes text as it streams in and lets through what is certain to be no reasoning.

    The wires take care of a block at the start; this is for blocks anywhere. An opening tag that nothing closes is
    text after all: answers do talk about it.
    """

    def __init__(self) -> None:
        self._held = ""

    def feed(self, text: str) -> str:
        """Take the next piece; returns what is certain by now."""
        self._held += text
        shown: list[str] = []
        while True:
            start = self._held.find(_OPEN)
            if start < 0:
                certain = len(self._held) - _overlap(self._held)
                shown.append(self._held[:certain])
                self._held = self._held[certain:]
                break
            end = self._held.find(_CLOSE, start)
            if end < 0:
                shown.append(self._held[:start])
                self._held = self._held[start:]
                break
            shown.append(self._held[:start])
            self._held = self._held[end + len(_CLOSE) :]
        return "".join(shown)

    def finish(self) -> str:
        """What was held back to the end."""
        held, self._held = self._held, ""
        return held


def visible(text: str) -> str:
    """The whole text without reasoning."""
    filter_ = VisibleText()
    return filter_.feed(text) + filter_.finish()


def _overlap(text: str) -> int:
    """How many characters at the end could be the beginning of an opening tag."""
    for length in range(min(len(_OPEN) - 1, len(text)), 0, -1):
        if text.endswith(_OPEN[:length]):
            return length
    return 0
