"""Redaction of secrets in text.

Most texts hold none, so what counts is the cost of finding that out: a few searches at the speed of memory decide
whether any of the careful patterns is worth trying, and where.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from hermes.sanitize.assignments import find_assignments
from hermes.sanitize.keys import REDACTED
from hermes.sanitize.shapes import Span, find_shapes

_BLANK = re.compile(r"\s")
#: How far around a cut is searched for a divided secret.
_FARTHEST = 4_096


class Redactor:
    """Redacts secrets of known shapes, and registered secrets."""

    def __init__(self, secrets: tuple[str, ...] = ()) -> None:
        self._secrets: tuple[str, ...] = ()
        self._first_letters: frozenset[str] = frozenset()
        for secret in secrets:
            self.add_secret(secret)

    def add_secret(self, value: str) -> None:
        """Register a secret. Values too short to be distinguished from ordinary words are ignored."""
        value = value.strip()
        if len(value) < 8:
            return
        forms = {value, _json_escaped(value), *self._secrets}
        # Longest first, so that a secret inside another does not leave the rest of it visible.
        self._secrets = tuple(sorted(forms, key=len, reverse=True))
        self._first_letters = frozenset(secret[0] for secret in forms)

    def redact(self, text: str) -> str:
        """The text with every secret replaced by ``<redacted>``."""
        spans = [*_find(text), *self._known(text)]
        return _mask(text, spans) if spans else text

    def mask_known(self, text: str) -> str:
        """The text without registered secrets; what only looks like a secret stays."""
        spans = list(self._known(text))
        return _mask(text, spans) if spans else text

    def split_known(self, text: str) -> tuple[str, str]:
        """The same for a stream: the part that is final, and the rest, which may be half a secret."""
        cut = self._start_of_half_a_secret(text)
        for start, stop in sorted(self._known(text), reverse=True):
            if start < cut < stop:  # one that is whole ends behind the cut
                cut = start
        return self.mask_known(text[:cut]), text[cut:]

    def _start_of_half_a_secret(self, text: str) -> int:
        longest = len(self._secrets[0]) if self._secrets else 0
        for start in range(max(len(text) - longest, 0), len(text)):
            if text[start] in self._first_letters and any(secret.startswith(text[start:]) for secret in self._secrets):
                return start
        return len(text)

    def suspects(self, text: str) -> bool:
        """Whether ``redact`` would change the text, or a string inside it when the text is JSON."""
        return bool(_find(text)) or any(secret in text for secret in self._secrets)

    def holds_secret(self, value: str, *, shortest_part: int = 8) -> bool:
        """Whether the value is a registered secret, or has one of at least ``shortest_part`` characters in it."""
        return any(secret == value or (len(secret) >= shortest_part and secret in value) for secret in self._secrets)

    def start_of_secret_at(self, text: str, position: int) -> int:
        """The start of the secret that a cut at this position would divide; else the position itself."""
        for secret in self._secrets:
            start = text.find(secret, max(position - len(secret), 0), position + len(secret))
            if 0 <= start < position:
                return start
        lowest = max(position - _FARTHEST, 0)
        start = max(max(text.rfind(blank, lowest, position) for blank in " \n\t") - 60, lowest)
        stop = _BLANK.search(text, position, position + _FARTHEST)
        for begin, end in _find(text[start : stop.start() if stop else position + _FARTHEST]):
            # A secret that ends at the cut counts too: only what follows may identify it.
            if start + begin < position <= start + end:
                return start + begin
        return position

    def _known(self, text: str) -> Iterator[Span]:
        for secret in self._secrets:
            start = text.find(secret)
            while start >= 0:
                yield start, start + len(secret)
                start = text.find(secret, start + len(secret))


def redact_text(text: str) -> str:
    """The text with secrets of known shapes replaced by ``<redacted>``."""
    spans = _find(text)
    return _mask(text, spans) if spans else text


def _find(text: str) -> list[Span]:
    if len(text) < 6:
        return []
    # One byte for each character, so that positions in the bytes are positions in the text.
    raw = text.encode("latin-1", "replace")
    return [*find_shapes(text, raw), *find_assignments(text, raw)]


def _mask(text: str, spans: list[Span]) -> str:
    pieces: list[str] = []
    end = 0
    for start, stop in sorted(spans):
        if start >= end:
            pieces += text[end:start], REDACTED
        end = max(end, stop)
    return "".join(pieces) + text[end:]


def _json_escaped(value: str) -> str:
    from msgspec.json import encode

    return encode(value.encode("utf-8", "replace").decode("utf-8"))[1:-1].decode("utf-8")
