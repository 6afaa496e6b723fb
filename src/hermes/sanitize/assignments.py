"""Detection of secrets by their name: ``API_KEY=…``, ``password: …``, ``{"token": "…"}``."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hermes.sanitize.keys import is_secret_key

Span = tuple[int, int]

#: Parts of secret names; ``is_secret_key`` decides about the whole name.
_WORDS = (b"key", b"token", b"secret", b"pass", b"cookie", b"authorization", b"credential")

_ASSIGNED = re.compile(
    r"""(?P<name>[\w-]{0,60}+) \\*+["']? (?:[ \t]|\\t){0,4} (?P<sign>[=:]) (?:[ \t]|\\t){0,4}
    (?: (?P<quote>\\*["'])(?P<quoted>[^\r\n]*?)(?:(?P=quote)|(?=[\r\n]|\Z))
      | (?P<bare>(?:(?:bearer|basic|token|digest)[ \t]+)?(?![\[{(])[^\s"'`,;&)}\]<>|\\]+) )""",
    re.VERBOSE | re.IGNORECASE,
)
#: Harmless values: none, a type, or a reference to the secret.
_HARMLESS = re.compile(
    r"(?:none|null|nil|true|false|undefined|str|string|int|bool|bytes|any|object|\*+|\.+|<[^>]*>?|"
    r"\$\{?\w+\}?|\$\(.*|(?:os\.|process\.)?(?:env|environ|getenv)\b.*)",
    re.IGNORECASE,
)
#: On its own line (`NAME=value`) a value extends to the next blank; in a call or a URL it may end before.
_OWN_LINE = re.compile(r"(?:\A|[\r\n]|\\n)(?:export[ \t]+)?\Z")
_LINE_VALUE = re.compile(r"[^\s\"'\\]+")
_COOKIE_VALUE = re.compile(r"[^\r\n\"'\\]+")


def find_assignments(text: str, raw: bytes) -> Iterator[Span]:
    """The positions of the values. ``raw`` has one byte for each character of the text."""
    if not _is_likely(raw):
        return
    lowered = raw.lower()
    for word in _WORDS:
        at = lowered.find(word)
        while at >= 0:
            if assigned := _ASSIGNED.match(text, at):
                start = _name_start(text, at)
                name = text[start:at] + assigned["name"]
                if is_secret_key(name) or _is_second_word(text, start, name):
                    yield from _value(text, start, name, assigned)
            at = lowered.find(word, at + len(word))


def _is_likely(raw: bytes) -> bool:
    """Whether a part of such a name precedes an equals sign or a colon.

    Only long texts with few signs are looked through: for the others the answer costs as much as the search.
    """
    if b"=" not in raw and b":" not in raw:
        return False
    sample = raw[:2_000]
    if len(raw) < 4_000 or sample.count(b"=") + sample.count(b":") > 8:
        return True
    stretches: list[bytes] = []
    for sign in (b"=", b":"):
        at = raw.find(sign)
        while at >= 0:
            if len(stretches) > len(raw) // 300:
                return True
            stretches.append(raw[max(at - 72, 0) : at])
            at = raw.find(sign, at + 1)
    joined = b"\n".join(stretches).lower()
    return any(word in joined for word in _WORDS)


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


def _value(text: str, name_start: int, name: str, assigned: re.Match[str]) -> Iterator[Span]:
    if assigned["quote"] is not None:
        if assigned["quoted"] and not _HARMLESS.fullmatch(assigned["quoted"]):
            yield assigned.span("quoted")
        return
    start, end = assigned.span("bare")
    if "cookie" in name.lower() and assigned["sign"] == ":":
        whole = _COOKIE_VALUE.match(text, start)
    elif assigned["sign"] == "=" and _OWN_LINE.search(text, max(name_start - 12, 0), name_start):
        whole = _LINE_VALUE.match(text, start)
    else:
        whole = None
    end = max(end, whole.end()) if whole else end
    if not _HARMLESS.fullmatch(text, start, end) and not _is_prose(text, start, end, assigned["sign"]):
        yield start, end


def _is_prose(text: str, start: int, end: int, sign: str) -> bool:
    """ "the secret: it is simple" is a sentence; ``password: it`` at the end of a line is a setting."""
    return sign == ":" and text[start:end].isalpha() and text[end : end + 2].strip(" \t")[:1].isalpha()
