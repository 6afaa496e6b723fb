"""Redaction of secrets in text.

Most texts hold none, so what counts is the cost of finding that out: a few searches at the speed of memory decide
whether any of the careful patterns is worth trying, and where.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, cast

import msgspec

from hermes.base.sanitize.keys import REDACTED, is_secret_key

if TYPE_CHECKING:
    from hermes.base.sanitize.known import KnownSecrets, KnownSpan

_BLANK = re.compile(r"\s")
#: How far around a cut is searched for a divided secret.
_FARTHEST = 4_096
#: Shorter values are not registered.
_SHORTEST = 8
#: Texts of at most so many characters are remembered as searched, until so many characters are.
_REMEMBERED, _MOST_REMEMBERED = 8_192, 500_000
_MARK = re.compile(r"<redacted:[\w.:/-]{1,200}>")
_MARKABLE = re.compile(r"[^\w.:/-]")

Span = tuple[int, int]
_Search = Callable[[str, bytes], Iterator[Span]]


class Redactor:
    """Redacts secrets of known shapes, and registered secrets in every encoding that ``KnownSecrets`` knows."""

    def __init__(self, secrets: Iterable[str] | Mapping[str, str] = ()) -> None:
        """``secrets`` are values, or values by name: a named one becomes ``<redacted:NAME>``."""
        self._registered = _Registered({})
        self._lock = threading.Lock()
        self.add_secrets(secrets)

    def add_secrets(self, secrets: Iterable[str] | Mapping[str, str]) -> None:
        """Register secrets: values, or values by name."""
        if isinstance(secrets, Mapping):
            for name, value in cast("Mapping[str, str]", secrets).items():
                self.add_secret(value, name)
        else:
            for value in secrets:
                self.add_secret(value)

    def add_secret(self, value: str, name: str = "") -> None:
        """Register a secret. Values too short to be distinguished from ordinary words are ignored."""
        value = value.strip()
        if len(value) < _SHORTEST or value in self._registered.names:
            return
        with self._lock:
            # A copy: another thread may be reading.
            self._registered = _Registered({**self._registered.names, value: name})

    def redact(self, text: str) -> str:
        """The text with every secret replaced by ``<redacted>``, or ``<redacted:NAME>`` when it is registered."""
        registered = self._registered
        harmless = registered.harmless
        if text in harmless.texts:
            return text
        found = _find(text)
        known = self.find_known(text)
        if found or known:
            return _mask(text, found, known)
        harmless.add(text)
        return text

    def redact_data(self, value: Any) -> Any:
        """A copy of plain data with every text redacted, and the values of secret names left out."""
        if isinstance(value, str):
            return self.redact(value)
        if isinstance(value, dict):
            items = cast("dict[Any, Any]", value).items()
            return {key: REDACTED if _is_named_secret(key, item) else self.redact_data(item) for key, item in items}
        if isinstance(value, list | tuple):
            return [self.redact_data(item) for item in cast("list[Any]", value)]
        return value

    def mask_known(self, text: str) -> str:
        """The text without registered secrets; what only looks like a secret stays."""
        known = self.find_known(text)
        return _mask(text, [], known) if known else text

    def mask_data(self, value: Any) -> Any:
        """Plain data without registered secrets: the value itself when it has none, else a masked copy.

        What may be changed meanwhile, or is no plain data, is encoded first.
        """
        if not self._registered.names:
            return value
        if isinstance(value, str):
            return self.mask_known(value)
        try:
            text = msgspec.json.encode(value).decode()
        except (TypeError, ValueError, RecursionError):
            return value  # the record of it fails, or repairs it, by itself
        return self.masked_copy(text) if self.find_known(text) else value

    def find_known(self, text: str) -> list[KnownSpan]:
        """The registered secrets in the text, or inside the strings of it when it is JSON."""
        registered = self._registered
        if text in registered.searched.texts:
            return []
        index = registered.index()
        found = index.find(text) if index is not None else []
        if not found:
            registered.searched.add(text)
        return found

    def masked_copy(self, text: str) -> Any:
        """The data of a JSON text without registered secrets."""
        return map_texts(msgspec.json.decode(text), self.mask_known)

    def split_known(self, text: str) -> tuple[str, str]:
        """The same for a stream: the part that is final, and the rest, which may be half a secret."""
        known = self._registered.index()
        if known is None or not text:
            return text, ""
        spans = known.find(text)
        cut = known.open_end(text)
        for start, stop, _ in sorted(spans, reverse=True):
            if start < cut < stop:  # one that is whole ends behind the cut
                cut = start
        before = [span for span in spans if span.stop <= cut]
        return _mask(text[:cut], [], before) if before else text[:cut], text[cut:]

    def suspects(self, text: str) -> bool:
        """Whether ``redact`` would change the text, or a string inside it when the text is JSON."""
        return bool(_find(text) or self.find_known(text))

    def holds_secret(self, value: str, *, shortest_part: int = 8) -> bool:
        """Whether the value is a registered secret, or has one of at least ``shortest_part`` characters in it."""
        names = self._registered.names
        return any(secret == value or (len(secret) >= shortest_part and secret in value) for secret in names)

    def start_of_secret_at(self, text: str, position: int) -> int:
        """The start of the secret that a cut at this position would divide; else the position itself."""
        lowest = max(position - _FARTHEST, 0)
        for span in self.find_known(text[lowest : position + _FARTHEST]):
            if lowest + span.start < position < lowest + span.stop:
                return lowest + span.start
        start = max(max(text.rfind(blank, lowest, position) for blank in " \n\t") - 60, lowest)
        stop = _BLANK.search(text, position, position + _FARTHEST)
        for begin, end in _find(text[start : stop.start() if stop else position + _FARTHEST]):
            # A secret that ends at the cut counts too: only what follows may identify it.
            if start + begin < position <= start + end:
                return start + begin
        return position


class _Registered:
    """The secrets of one moment and what was found out about them; a further secret makes another one. Thread-safe."""

    __slots__ = ("_index", "harmless", "names", "searched")

    def __init__(self, names: dict[str, str]) -> None:
        #: The name of each value.
        self.names = names
        self._index: KnownSecrets | None = None
        #: Texts without registered secrets, and those that ``redact`` leaves as they are: the same words, tools and
        #: settings are recorded many times.
        self.searched, self.harmless = _Searched(), _Searched()

    def index(self) -> KnownSecrets | None:
        """The search for the secrets, made when it is first needed; None when there are none."""
        if not self.names:
            return None
        index = self._index
        if index is None:
            from hermes.base.sanitize.known import KnownSecrets

            index = self._index = KnownSecrets(self.names)
        return index


class _Searched:
    """Texts in which nothing was found, as long as there is room. Thread-safe."""

    __slots__ = ("_room", "texts")

    def __init__(self) -> None:
        self.texts: set[str] = set()
        self._room = _MOST_REMEMBERED

    def add(self, text: str) -> None:
        if len(text) <= _REMEMBERED:
            self._room -= len(text) + 1
            if self._room < 0:
                self.texts, self._room = set(), _MOST_REMEMBERED
            self.texts.add(text)


class MaskedStream:
    """Masks registered secrets in a text that arrives in pieces, also one that is divided between two pieces."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._held = ""

    def feed(self, piece: str) -> str:
        """Add the next piece; returns the text that is certain by now."""
        certain, self._held = self._redactor.split_known(self._held + piece)
        return certain

    def finish(self) -> str:
        """The text that was held back to the end."""
        rest, self._held = self._held, ""
        return self._redactor.mask_known(rest)


def map_texts(value: Any, change: Callable[[str], str]) -> Any:
    """A copy of plain data with every text changed, names too."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value).items()
        return {change(key): map_texts(item, change) for key, item in items}
    return [map_texts(item, change) for item in cast("list[Any]", value)] if isinstance(value, list) else value


def has_mark(text: str) -> bool:
    """Whether the text contains ``<redacted:NAME>``, which stands for a secret and must not be stored as its value."""
    return "<redacted:" in text and _MARK.search(text) is not None


def redact_text(text: str) -> str:
    """The text with secrets of known shapes replaced by ``<redacted>``."""
    spans = _find(text)
    return _mask(text, spans, []) if spans else text


def _is_named_secret(name: Any, value: Any) -> bool:
    return isinstance(value, str) and bool(value) and isinstance(name, str) and is_secret_key(name)


def _find(text: str) -> list[Span]:
    if len(text) < 6:
        return []
    # One byte for each character, so that positions in the bytes are positions in the text.
    raw = text.encode("latin-1", "replace")
    by_shape, by_name = _searches()
    return [*by_shape(text, raw), *by_name(text, raw)]


@cache
def _searches() -> tuple[_Search, _Search]:
    """The searches by shape and by name. Imported when they are first used: their patterns take long to compile."""
    from hermes.base.sanitize.assignments import find_assignments
    from hermes.base.sanitize.shapes import find_shapes

    return find_shapes, find_assignments


def _mask(text: str, spans: list[Span], known: list[KnownSpan]) -> str:
    """Replace the spans; of those that overlap, the name of a registered secret counts."""
    pieces: list[str] = []
    end, mark = 0, ""
    for start, stop, name in sorted([*known, *((start, stop, "") for start, stop in spans)]):
        if start >= end:
            pieces += mark, text[end:start]
            mark = REDACTED
        if name and mark == REDACTED:
            mark = f"<redacted:{_MARKABLE.sub('_', name)}>"
        if stop > end:
            end = stop
    return "".join(pieces) + mark + text[end:]
