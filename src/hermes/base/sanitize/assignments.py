"""Detection of secrets by their name: ``API_KEY=…``, ``password: …``, ``{"token": "…"}``."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hermes.base.sanitize.keys import is_secret_key

Span = tuple[int, int]

#: Parts of secret names; ``is_secret_key`` decides about the whole name.
_WORDS = (b"key", b"token", b"secret", b"pass", b"cookie", b"authorization", b"credential")
_ANY_WORD = re.compile(b"|".join(_WORDS))

#: A word, the rest of the name, and the sign behind it. Possessive: what did not fit at once does not fit at all.
_NAMED = tuple(
    re.compile(rb"""%b([\w-]{0,60}+) \\*+["']? (?:[ \t]|\\t){0,4} ([=:]) (?:[ \t]|\\t){0,4}""" % word, re.VERBOSE)
    for word in _WORDS
)
#: For a quick look: names in lower case, each sign as ``=``, and all else a blank.
_OUTLINE = bytes(
    61 if chr(code) in "=:" else ord(chr(code).lower()) if re.match(rb"[\w-]", bytes([code])) else 32
    for code in range(256)
)
#: What may stand between a name and its sign.
_BEFORE_SIGNS = b" \t\"'\\"
#: Signs are few when there is one in so many characters, or less.
_FEW_SIGNS = 64
#: How many names of one text are looked at closely.
MOST_NAMES = 10_000
_ROUGH_VALUE = re.compile(r"[^\s,;&]+")
_NO_REST = frozenset({b"", b"word", b"wd", b"phrase"})
_NAME_BYTES = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789_-" + bytes(range(128, 256)))
#: Few kinds of quotes, so that a text cannot contain many that are never closed.
_QUOTED = re.compile(r"""(?P<quote>\\{0,32}["'])(?P<quoted>[^\r\n]*?)(?:(?P=quote)|(?=[\r\n]|\Z))""")
_BARE = re.compile(
    r"""(?:(?:bearer|basic|token|digest)[ \t]+)?(?![\[{(])[^\s"'`,;&)}\]<>|\\]+""",
    re.IGNORECASE,
)
#: Harmless values: none, a type, or a reference to the secret.
_HARMLESS = re.compile(
    r"(?:none|null|nil|true|false|undefined|str|string|int|bool|bytes|any|object|\*+|\.+|<[^>]*>?|\$\{?\w+\}?)\Z",
    re.IGNORECASE,
)
#: Values that compute the secret: harmless however they continue.
_COMPUTED = re.compile(r"\$\(|(?:os\.|process\.)?(?:env|environ|getenv)\b", re.IGNORECASE)
#: On its own line (`NAME=value`) a value extends to the next blank; in a call or a URL it may end before.
_OWN_LINE = re.compile(r"(?:\A|[\r\n]|\\n)(?:export[ \t]+)?\Z")
_LINE_VALUE = re.compile(r"[^\s\"'\\]+")
_REASON = re.compile(r"[A-Za-z_.]{1,60}")
_COOKIE_VALUE = re.compile(r"[^\r\n\"'\\]+")


def find_assignments(text: str, raw: bytes) -> Iterator[Span]:
    """The positions of the values. ``raw`` has one byte for each character of the text.

    Linear: a name is looked at once, and a text that is a value already is not searched again.
    """
    if not _is_likely(raw):
        return
    lowered = raw.lower()
    names = 0
    for pattern in _NAMED:
        values, done = _Values(text), 0
        for found in pattern.finditer(lowered):
            start = found.start()
            if start < done:
                continue
            names += 1
            if names > MOST_NAMES:
                yield from _find_roughly(text, lowered, pattern, start)
                break
            if start and lowered[start - 1] in _NAME_BYTES:
                start = _name_start(text, start)
            name = text[start : found.end(1)]
            if is_secret_key(name) or _is_second_word(text, start, name):
                span = values.value(start, name, text[found.start(2)], found.end())
                if span is not None:
                    yield span
                    done = span[1]


def _find_roughly(text: str, lowered: bytes, pattern: re.Pattern[bytes], position: int) -> Iterator[Span]:
    """The rest of a text that has more such names than any real one: without a closer look, rather too much."""
    done = position
    # "max_tokens" and "key_file" are no secrets; "max_token" is taken for one here.
    endings = _NO_REST if b"token" in pattern.pattern else _NO_REST | {b"s"}
    for found in pattern.finditer(lowered, position):
        if found.start() >= done and found[1] in endings and (value := _ROUGH_VALUE.match(text, found.end())):
            yield value.span()
            done = value.end()


def _is_likely(raw: bytes) -> bool:
    """Whether a part of such a name precedes an equals sign or a colon.

    Only texts with few signs are looked through: for the others the answer costs as much as the search.
    """
    if raw.find(b"=") < 0 and raw.find(b":") < 0:
        return False
    stretches = raw.translate(_OUTLINE, _BEFORE_SIGNS).split(b"=")
    if len(stretches) * _FEW_SIGNS > len(raw):
        return True
    names = b" ".join([stretch[stretch.rfind(b" ") + 1 :] for stretch in stretches[:-1]])
    return _ANY_WORD.search(names) is not None


def _name_start(text: str, position: int) -> int:
    """The start of the name around a position: ``my`` in ``my_api_key``."""
    start = position
    lowest = max(position - 60, 0)
    while start > lowest and (text[start - 1].isalnum() or text[start - 1] in "_-"):
        start -= 1
    # The letter of an escape such as \n is not part of the name.
    if start < position and text[start - 1 : start] == "\\":
        start += 1
    return start


def _is_second_word(text: str, start: int, name: str) -> bool:
    """Whether it is the ``key`` of an ``api key``."""
    if text[start - 1 : start] not in (" ", "."):
        return False
    return is_secret_key(f"{text[_name_start(text, start - 1) : start - 1]}_{name}")


class _Values:
    """Reads the values of one text."""

    def __init__(self, text: str) -> None:
        self._text = text
        #: The end of the last unquoted value: one that starts inside it has the same end.
        self._bare_end = 0

    def value(self, name_start: int, name: str, sign: str, at: int) -> Span | None:
        """The position of the value that starts at ``at``, unless it is harmless."""
        text = self._text
        if _COMPUTED.match(text, at):
            return None
        if quoted := _QUOTED.match(text, at):
            start, end = quoted.span("quoted")
            return (start, end) if start < end and not _is_harmless(text, start, end) else None
        if at >= self._bare_end:
            bare = _BARE.match(text, at)
            if bare is None:
                return None
            self._bare_end = bare.end()
        start, end = at, self._bare_end
        if "cookie" in name.lower() and sign == ":":
            whole = _COOKIE_VALUE.match(text, start)
        elif sign == "=" and _OWN_LINE.search(text, max(name_start - 12, 0), name_start):
            whole = _LINE_VALUE.match(text, start)
        else:
            whole = None
        end = max(end, whole.end()) if whole else end
        if _is_harmless(text, start, end) or _is_prose(text, start, end, sign):
            return None
        if name == "authorization" and sign == ":" and _is_remark(text, name_start, start, end):
            return None
        return start, end


def _is_harmless(text: str, start: int, end: int) -> bool:
    return _HARMLESS.match(text, start, end) is not None or _COMPUTED.match(text, start, end) is not None


def _is_remark(text: str, name_start: int, start: int, end: int) -> bool:
    """ "denied by their authorization: not_allowed." says why; a header starts a line and has a scheme or digits."""
    before = text[max(name_start - 2, 0) : name_start]
    return before[-1:] == " " and before[:1].isalnum() and _REASON.fullmatch(text, start, end) is not None


def _is_prose(text: str, start: int, end: int, sign: str) -> bool:
    """ "the secret: it is simple" is a sentence; ``password: it`` at the end of a line is a setting."""
    return sign == ":" and text[start:end].isalpha() and text[end : end + 2].strip(" \t")[:1].isalpha()
