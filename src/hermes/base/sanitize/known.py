"""Known secrets: searched for in text, as they are and encoded, at a cost that does not depend on their number.

A text is first reduced to the letters and digits that encodings are made of, in lower case: line breaks, quoting and
the difference between alphabets are gone. At every sixteenth position a piece of eight bytes is looked up among those
that a secret or an encoding of it contains. Only when one is found does an exact pattern read the text itself. Both
steps are linear in the length of the text.
"""

from __future__ import annotations

import re
import sys
from binascii import b2a_base64
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any, NamedTuple
from urllib.parse import quote, quote_plus

from hermes.base.sanitize.escapes import unescape

_GRAM = 8
#: Every so many bytes of a reduced text, a piece is looked up.
_STRIDE = 2 * _GRAM
#: A form of this length contains a whole piece wherever the positions fall; shorter ones are searched for directly.
_SAMPLED_FROM = _STRIDE + _GRAM - 1
#: A piece of a dump so many digits further on is in another line than its beginning, or the beginning is whole.
_DUMP_LINE = 40
#: A shorter value is searched for as it is written: reduced, it may be an ordinary word.
_REDUCED_FROM = 12
#: The most characters of a stream that are held back as a possible beginning of a secret.
_MAX_HELD = 4_096

_KEPT = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+/-_" + bytes(range(128, 256)))
_RARE_ESCAPE = re.compile(rb"\\[rtx]")
#: The number before a line, as ``read_file`` shows it. A text has one near its beginning or none at all.
#: Each branch begins with one certain character, which lets the search skip everything else.
_GUTTER = re.compile(rb"(?:\\\\*[rn]|\r|\n|\")[ \t]*\d{1,7}\|")
_GUTTER_WITHIN = 400
_DROPPED = bytes(code for code in range(256) if code not in _KEPT)
_FOLD = bytes.maketrans(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ-_", b"abcdefghijklmnopqrstuvwxyz+/")

#: May stand between two characters: blanks, line breaks with the number of the next line, escapes, separators of bytes.
_BETWEEN = r"(?:(?:\\+[rn]|[\r\n])[ \t]*\d{1,7}\||\\+[nrtx]|[\s\\%:])*+"
_SKIPPED = re.compile(r"[\s\\%:]")
#: May stand between two numbers of a dump: the same, commas, and the end of a line of a dump with its text and the
#: address at the beginning of the next one.
_BETWEEN_NUMBERS = (
    r"(?:(?:[ \t]{2,3}(?![ \t0-9a-fA-F]{0,60}[\r\n\\])[^\r\n\\]{0,20})?"
    r"(?:\\+[rn]|[\r\n])[ \t]*(?:\d{1,7}\|)?[0-9a-fA-F]{7,8}(?=[\s:])"
    r"|(?:\\+[rn]|[\r\n])[ \t]*\d{1,7}\||\\+[nrtx]|[\s\\%:,])*+"
)


class KnownSpan(NamedTuple):
    """A place in a text that holds a secret."""

    start: int
    stop: int
    name: str


class _Form(NamedTuple):
    """One way to write a secret."""

    text: str
    reduced: bytes
    name: str
    #: The numbers of a dump, for a form that is one.
    numbers: tuple[str, ...] = ()
    #: A stream is not held back for it: together such forms begin with every letter.
    is_rare: bool = False


class KnownSecrets:
    """Values to search for, each with its name. Immutable."""

    def __init__(self, values: Mapping[str, str]) -> None:
        """``values`` maps each secret to its name."""
        forms: dict[tuple[bytes, bool], _Form] = {}
        #: Ways to write a secret that are found as they are.
        self._exact: dict[str, str] = {}
        for value, name in values.items():
            for form in _exact_forms(value):
                self._exact.setdefault(form, name)
            for numbers in _dumped_forms(value.encode("utf-8", "replace")):
                reduced = reduce_text("".join(numbers))
                if len(reduced) >= _SAMPLED_FROM:
                    forms.setdefault(
                        (reduced, True), _Form("".join(numbers), reduced, name, tuple(numbers), is_rare=True)
                    )
            for text in _encoded_forms(value):
                reduced = reduce_text(text)
                forms.setdefault((reduced, False), _Form(text, reduced, name))
            for text in _rare_forms(value):
                reduced = reduce_text(text)
                if len(reduced) >= _SAMPLED_FROM:
                    forms.setdefault((reduced, False), _Form(text, reduced, name, is_rare=True))
        self._forms = list(forms.values())
        self._short = {form.reduced: form for form in self._forms if len(form.reduced) < _SAMPLED_FROM}
        self._grams: dict[int, list[_Form]] = {}
        for form in self._forms:
            for gram in _grams(form) if len(form.reduced) >= _SAMPLED_FROM else ():
                self._grams.setdefault(gram, []).append(form)
        self._all_grams = frozenset(self._grams)
        self._patterns: dict[_Form, re.Pattern[str]] = {}
        self._shortest = min(map(len, (*self._exact, *(form.reduced for form in self._forms))), default=0)

    def __bool__(self) -> bool:
        return bool(self._forms or self._exact)

    def find(self, text: str) -> list[KnownSpan]:
        """The places of secrets in the text. They may overlap."""
        if len(text) < self._shortest:
            return []
        spans = self._find(text)
        unescaped = unescape(text)
        if unescaped is not None:
            found = (KnownSpan(*unescaped.span(start, stop), name) for start, stop, name in self._find(unescaped.text))
            taken = sorted(spans)
            spans += (span for span in found if not _overlaps(span, taken))
        return spans

    def _find(self, text: str) -> list[KnownSpan]:
        spans: list[KnownSpan] = []
        for exact, name in self._exact.items():
            start = text.find(exact)
            while start >= 0:
                spans.append(KnownSpan(start, start + len(exact), name))
                start = text.find(exact, start + len(exact))
        for form in self._candidates(reduce_text(text)):
            spans += self._matches(form, text)
        return spans

    def _candidates(self, reduced: bytes) -> Iterable[_Form]:
        """The forms that a text may contain."""
        found = {form for short, form in self._short.items() if reduced.find(short) >= 0}
        samples = memoryview(reduced + b" " * (-len(reduced) % _GRAM)).cast("Q")[::2]
        if not self._all_grams.isdisjoint(samples):
            for gram in self._all_grams.intersection(samples):
                found.update(self._grams[gram])
        return found

    def _matches(self, form: _Form, text: str) -> Iterator[KnownSpan]:
        pattern = self._patterns.get(form)
        if pattern is None:
            pattern = self._patterns[form] = _pattern(form)
        return (KnownSpan(*match.span(), form.name) for match in pattern.finditer(text))

    # -- streams ------------------------------------------------------------------------------------------------

    def open_end(self, text: str) -> int:
        """Where the end of the text starts that could be the beginning of a secret; its length when there is none."""
        lowest = self._exact_beginnings.place_in(text)
        # No secret reaches across a character that neither belongs to one nor may stand between two of its characters.
        reduced = reduce_text(self._foreign.split(text[-_MAX_HELD:])[-1])
        start = self._reduced_beginnings.place_in(reduced)
        return lowest if start == len(reduced) else min(lowest, _position(text, len(reduced) - start))

    @cached_property
    def _foreign(self) -> re.Pattern[str]:
        own = {char for form in self._forms for char in form.text if char.isascii() and ord(char) not in _KEPT}
        return re.compile(rf"[^\w+/\-\s\\%:|\x80-\U0010ffff{re.escape(''.join(sorted(own)))}]")

    @cached_property
    def _exact_beginnings(self) -> _Beginnings:
        return _Beginnings(self._exact)

    @cached_property
    def _reduced_beginnings(self) -> _Beginnings:
        return _Beginnings(form.reduced for form in self._forms if not form.is_rare)


class _Beginnings:
    """The beginnings of forms, texts or bytes, looked for at the end of what has arrived."""

    def __init__(self, forms: Iterable[Any]) -> None:
        self._sorted = sorted(forms)
        self._firsts = frozenset(form[0] for form in self._sorted)
        self._longest = max(map(len, self._sorted), default=0)

    def place_in(self, text: Any) -> int:
        """Where an end starts that one of the forms begins with; the length when there is none."""
        for start in range(max(len(text) - self._longest + 1, 0), len(text)):
            if text[start] in self._firsts:
                at = bisect_left(self._sorted, text[start:])
                if at < len(self._sorted) and self._sorted[at].startswith(text[start:]):
                    return start
        return len(text)


def reduce_text(text: str) -> bytes:
    """The letters, digits and signs of the text that encodings use, folded to one case and one alphabet."""
    data = text.encode("utf-8", "surrogatepass")
    if data.find(b"\\") >= 0:  # an escape such as \n is a letter too many
        if _GUTTER.search(data, 0, _GUTTER_WITHIN):
            data = _GUTTER.sub(b"", data)
        data = data.replace(b"\\n", b"")
        if _RARE_ESCAPE.search(data):
            data = _RARE_ESCAPE.sub(b"", data)
    return data.translate(_FOLD, _DROPPED)


def _exact_forms(value: str) -> Iterator[str]:
    """Ways to write a value that cannot be reduced without becoming ambiguous."""
    if "\\" not in value and len(reduce_text(value)) >= _REDUCED_FROM:
        return
    from msgspec.json import encode

    yield value
    yield value[::-1]
    yield encode(value.encode("utf-8", "replace").decode("utf-8"))[1:-1].decode("utf-8")


def _encoded_forms(value: str) -> Iterator[str]:
    data = value.encode("utf-8", "replace")
    if len(reduce_text(value)) >= _REDUCED_FROM:
        yield value
        yield value[::-1]
    escaped = {quote(value, safe=""), quote(value), quote_plus(value)} - {value}
    yield from (form for form in sorted(escaped) if len(reduce_text(form)) >= _GRAM)
    yield data.hex()
    yield from _base64_parts(data)


def _rare_forms(value: str) -> Iterator[str]:
    """Base64 that is reversed or encoded once more, and characters with a sign between them."""
    for inner in _base64_parts(value.encode("utf-8", "replace")):
        yield inner[::-1]
        yield from _base64_parts(inner.encode())
    yield from (sign.join(value) for sign in "-_")


def _base64_parts(data: bytes) -> Iterator[str]:
    """The bytes in base64, at each position that they may have in the groups of three."""
    for shift in range(3):
        # Characters at both ends that also depend on the bytes around the secret are left out.
        encoded = b2a_base64(bytes(shift) + data, newline=False).decode()
        yield encoded[(0, 2, 3)[shift] : len(encoded) - (0, 3, 2)[(shift + len(data)) % 3]]


def _grams(form: _Form) -> Iterator[int]:
    data = form.reduced
    # One of the first positions is looked up, also when a character before it is lost to an escape. A line of a dump
    # begins with an address, which may stand there: then it is one of a line further on.
    firsts = (0, _DUMP_LINE) if form.numbers else (0,)
    positions = (at for first in firsts for at in range(first, first + _STRIDE + _GRAM))
    return (int.from_bytes(data[at : at + _GRAM], sys.byteorder) for at in positions if at + _GRAM <= len(data))


def _overlaps(span: KnownSpan, others: list[KnownSpan]) -> bool:
    """Whether the span has a part in common with one of the others, which are sorted."""
    at = bisect_left(others, (span.stop,))
    return any(other.stop > span.start for other in others[max(at - 4, 0) : at])


def _dumped_forms(data: bytes) -> Iterator[list[str]]:
    """The bytes as numbers: hexadecimal, octal, decimal, and as words of two bytes, as ``od`` and others print them."""
    yield [f"{byte:02x}" for byte in data]
    yield [f"0x{byte:02x}" for byte in data]
    yield [f"{byte:03o}" for byte in data]
    yield [f"{byte}" for byte in data]
    for start in range(2):
        words = [data[at] | data[at + 1] << 8 for at in range(start, len(data) - 1, 2)]
        yield [f"{word:06o}" for word in words]
        yield [f"{word:04x}" for word in words]


def _pattern(form: _Form) -> re.Pattern[str]:
    if form.numbers:
        return re.compile(_BETWEEN_NUMBERS.join(map(re.escape, form.numbers)), re.IGNORECASE)
    return re.compile(_BETWEEN.join(_one_character(char) for char in form.text if _SKIPPED.match(char) is None))


def _one_character(char: str) -> str:
    if char.isascii() and char.isalpha():
        return f"[{char.lower()}{char.upper()}]"
    if char in "+-":
        return "[+-]"
    if char in "/_":
        return "[/_]"
    return re.escape(char)


def _position(text: str, count: int) -> int:
    """Where the last ``count`` bytes of the reduced text begin in the text itself."""
    at = len(text)
    while count > 0 and at > 0:
        at -= 1
        if text[at] in "nrtx" and text[at - 1 : at] == "\\":
            continue
        encoded = text[at].encode("utf-8", "surrogatepass")
        count -= len(encoded) if encoded[0] in _KEPT else 0
    return at
