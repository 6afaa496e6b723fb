"""Outgoing text for callers: no reasoning between ``<think>`` tags, no secrets of the server, tool calls in short."""

from __future__ import annotations

from typing import Any

from hermes.base.sanitize import MaskedStream, Redactor

_OPEN = "<think>"
_CLOSE = "</think>"
_MAX_SUMMARY_CHARS = 120


class RedactingStream:
    """Redacts text as it streams in; holds back what may still turn out to be reasoning or a secret.

    The wires remove a block of reasoning at the start; this removes blocks anywhere. An opening tag that is never
    closed is text after all: answers may be about the tag itself.
    """

    def __init__(self, redactor: Redactor | None = None) -> None:
        self._masked = None if redactor is None else MaskedStream(redactor)
        self._held = ""

    def feed(self, text: str) -> str:
        """Add the next piece; returns the text that is certain by now."""
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
        certain = "".join(shown)
        return certain if self._masked is None else self._masked.feed(certain)

    def finish(self) -> str:
        """The text that was held back to the end."""
        rest, self._held = self._held, ""
        return rest if self._masked is None else self._masked.feed(rest) + self._masked.finish()


def redacted(text: str, redactor: Redactor | None = None) -> str:
    """The whole text without reasoning, and without the secrets that the redactor knows."""
    stream = RedactingStream(redactor)
    return stream.feed(text) + stream.finish()


def call_summary(args: dict[str, Any], redactor: Redactor) -> str:
    """The subject of a tool call, as one short line without secrets; empty when it has none."""
    subject = next((value for value in args.values() if isinstance(value, str) and value.strip()), "")
    line = " ".join(redactor.redact(subject).split())
    return line if len(line) <= _MAX_SUMMARY_CHARS else f"{line[: _MAX_SUMMARY_CHARS - 1]}…"


def _overlap(text: str) -> int:
    """Length of the end of the text that could be the beginning of an opening tag."""
    for length in range(min(len(_OPEN) - 1, len(text)), 0, -1):
        if text.endswith(_OPEN[:length]):
            return length
    return 0
