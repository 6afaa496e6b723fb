"""What of a model's text may leave: no reasoning between ``<think>`` tags, and none of the server's keys."""

from __future__ import annotations

from hermes.sanitize import Redactor

_OPEN = "<think>"
_CLOSE = "</think>"


class VisibleText:
    """Takes text as it streams in and lets through what is certain to be no reasoning.

    The wires take care of a block at the start; this is for blocks anywhere. An opening tag that nothing closes is
    text after all: answers do talk about it.
    """

    def __init__(self, redactor: Redactor | None = None) -> None:
        self._redactor = redactor
        self._held = ""
        #: What may turn out to be a key.
        self._half_a_key = ""

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
        return self._without_keys("".join(shown))

    def finish(self) -> str:
        """What was held back to the end."""
        rest, self._held, self._half_a_key = self._half_a_key + self._held, "", ""
        return rest if self._redactor is None else self._redactor.mask_known(rest)

    def _without_keys(self, text: str) -> str:
        if self._redactor is None:
            return text
        certain, self._half_a_key = self._redactor.split_known(self._half_a_key + text)
        return certain


def visible(text: str, redactor: Redactor | None = None) -> str:
    """The whole text without reasoning, and without the keys that the redactor knows."""
    filter_ = VisibleText(redactor)
    return filter_.feed(text) + filter_.finish()


def _overlap(text: str) -> int:
    """How many characters at the end could be the beginning of an opening tag."""
    for length in range(min(len(_OPEN) - 1, len(text)), 0, -1):
        if text.endswith(_OPEN[:length]):
            return length
    return 0
