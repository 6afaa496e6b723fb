"""Finds secrets inside text and masks them.

Most text holds none, so the cost of finding that out is what counts: a few searches that run at memory speed
decide whether any of the careful patterns is worth trying, and where.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from hermes.sanitize.keys import REDACTED, is_secret_key

Span = tuple[int, int]

#: No secret that is known by its shape is shorter.
_SHORTEST_RUN = 16
_RUN = b"x" * _SHORTEST_RUN
#: Maps the bytes that keys and tokens are made of to ``x`` and all others to a blank.
_RUNS = bytes(120 if chr(code).isascii() and (chr(code).isalnum() or chr(code) in "_-") else 32 for code in range(256))

#: A key of a known kind. A signed token (``eyJ``) has several parts, joined by dots.
_SHAPE = re.compile(
    r"(?:(?:sk|pk|rk|whsec|gsk|hf|npm|xai|nvapi|r8|pplx|tvly|pypi)[-_]|gh[opsur]_|github_pat_|glpat-|xox[a-z]-|xapp-"
    r"|AKIA|ASIA|AIza|ya29(?=\.)|eyJ)[\w-]{9,}(?:\.[\w-]+)*"
)
_FIRST_LETTERS = frozenset("sk pk rk wh gs hf np xa nv r8 pp tv py gh gi gl xo AK AS AI ya ey".split())  # noqa: SIM905
_SCHEMES = ("bearer ", "basic ", "token ")
_TOKEN = re.compile(r"[\w\-.~+/]+=*")
_PRIVATE_KEY = re.compile(
    r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY[A-Z ]*-----|\Z)", re.DOTALL
)

#: Parts of names that hold secrets; whether a name as a whole does is then for ``is_secret_key`` to say.
_WORDS = (b"key", b"token", b"secret", b"pass", b"cookie", b"authorization", b"credential")
_ASSIGNED = re.compile(
    r"""(?P<name>[\w-]{0,60}) \\*["']? (?:[ \t]|\\t){0,4} (?P<sign>[=:]) (?:[ \t]|\\t){0,4}
    (?: (?P<quote>\\*["'])(?P<quoted>[^\r\n]*?)(?:(?P=quote)|(?=[\r\n]|\Z))
      | (?P<bare>(?:(?:bearer|basic|token|digest)[ \t]+)?[^\s"'`,;&)}\]<>|\\]+) )""",
    re.VERBOSE | re.IGNORECASE,
)
#: Values that tell nothing: nothing at all, a type, or a reference to where the secret is kept.
_HARMLESS = re.compile(
    r"(?:none|null|nil|true|false|undefined|str|string|int|bool|bytes|any|object|\*+|\.+|<[^>]*>?|"
    r"\$\{?\w+\}?|\$\(.*|(?:os\.|process\.)?(?:env|environ|getenv)\b.*)",
    re.IGNORECASE,
)
_BLANK = re.compile(r"\s")
#: How far around a cut the word that it divides is looked at.
_FARTHEST = 4_096
_COOKIE_REST = re.compile(r"[^\r\n\"']+")
_URL_LOGIN = re.compile(r"([^\s/:?#]*:)?([^\s/?#]+)")


class Redactor:
    """Masks secrets of known shapes, and those it was told about."""

    def __init__(self, secrets: tuple[str, ...] = ()) -> None:
        self._secrets: tuple[str, ...] = ()
        for secret in secrets:
            self.add_secret(secret)

    def add_secret(self, value: str) -> None:
        """Mask this very value from now on. Values that are too short to be told from ordinary words are ignored."""
        value = value.strip()
        if len(value) < 8:
            return
        forms = {value, _json_escaped(value), *self._secrets}
        # Longest first, so that a secret inside another does not leave the rest of it standing.
        self._secrets = tuple(sorted(forms, key=len, reverse=True))

    def redact(self, text: str) -> str:
        """The text with every secret replaced by ``<redacted>``."""
        spans = [*_find(text), *self._known(text)]
        return _mask(text, spans) if spans else text

    def suspects(self, text: str) -> bool:
        """Whether ``redact`` would change the text, or a string inside it when the text is JSON."""
        return bool(_find(text)) or any(secret in text for secret in self._secrets)

    def start_of_secret_at(self, text: str, position: int) -> int:
        """Where the secret begins that a cut at this position would divide; the position itself if there is none."""
        for secret in self._secrets:
            start = text.find(secret, max(position - len(secret), 0), position + len(secret))
            if 0 <= start < position:
                return start
        lowest = max(position - _FARTHEST, 0)
        start = max(max(text.rfind(blank, lowest, position) for blank in " \n\t") - 60, lowest)
        stop = _BLANK.search(text, position, position + _FARTHEST)
        for begin, end in _find(text[start : stop.start() if stop else position + _FARTHEST]):
            # A secret that ends at the cut counts too: what follows may be all that gives it away.
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
    spans: list[Span] = []
    runs = raw.translate(_RUNS)
    if _RUN in runs:
        spans += _shapes(text, runs)
    if "-----BEGIN" in text:
        spans += [found.span() for found in _PRIVATE_KEY.finditer(text)]
    if "@" in text:
        spans += _url_logins(text)
    if _may_assign(raw):
        spans += _assignments(text, raw.lower())
    return spans


def _mask(text: str, spans: list[Span]) -> str:
    pieces: list[str] = []
    end = 0
    for start, stop in sorted(spans):
        if start >= end:
            pieces += text[end:start], REDACTED
        end = max(end, stop)
    return "".join(pieces) + text[end:]


def _shapes(text: str, runs: bytes) -> Iterator[Span]:
    start = runs.find(_RUN)
    while start >= 0:
        before = text[start - 1 : start]
        found = _SHAPE.match(text, start) if text[start : start + 2] in _FIRST_LETTERS else None
        if found is None and before and before in " \\%":
            found = _behind(text, start)
        if found:
            yield found.span()
        end = runs.find(b" ", start)
        start = runs.find(_RUN, end) if end >= 0 else -1


def _behind(text: str, start: int) -> re.Match[str] | None:
    """A token behind the word ``Bearer``, or a key glued to ``\\n``, ``\\u0022`` or ``%3D``."""
    if text[start - 1] == " ":
        is_token = text[max(start - 7, 0) : start].lower().endswith(_SCHEMES)
        return _TOKEN.match(text, start) if is_token else None
    if text[start - 1] == "%":
        return _SHAPE.match(text, start + 2)
    return _SHAPE.match(text, start + (5 if text[start] == "u" else 1))


def _url_logins(text: str) -> Iterator[Span]:
    at = text.find("@")
    while at >= 0:
        scheme = text.rfind("://", max(at - 300, 0), at)
        login = _URL_LOGIN.fullmatch(text, scheme + 3, at) if scheme >= 0 else None
        # A name alone (ssh://git@host) is no secret unless it is as long as one.
        if login and (login[1] or len(login[2]) >= _SHORTEST_RUN):
            yield login.span(2)
        at = text.find("@", at + 1)


def _may_assign(raw: bytes) -> bool:
    """Whether something that may be the name of a secret stands in front of an equals sign or a colon.

    Only long texts with few such signs are looked at: for the others the answer costs as much as the search.
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
            stretches.append(raw[max(at - 64, 0) : at])
            at = raw.find(sign, at + 1)
    joined = b"\n".join(stretches).lower()
    return any(word in joined for word in _WORDS)


def _assignments(text: str, lowered: bytes) -> Iterator[Span]:
    for word in _WORDS:
        at = lowered.find(word)
        while at >= 0:
            if assigned := _ASSIGNED.match(text, at):
                name = _name_start(text, at) + assigned["name"]
                if is_secret_key(name):
                    yield from _value_span(text, name, assigned)
            at = lowered.find(word, at + len(word))


def _name_start(text: str, end: int) -> str:
    """What stands in front of a position and belongs to the same name: ``my_api_`` and, in ``api key``, the ``api``."""
    stretch = text[max(end - 60, 0) : end]
    if stretch[-1:] in (" ", "."):
        stretch = stretch[:-1] + "_"
    start = len(stretch)
    while start and (stretch[start - 1].isalnum() or stretch[start - 1] in "_-"):
        start -= 1
    # The letter of an escape such as \\n is no part of the name.
    if start and stretch[start - 1] == "\\":
        start += 1
    return stretch[start:]


def _value_span(text: str, name: str, assigned: re.Match[str]) -> Iterator[Span]:
    group = "bare" if assigned["quote"] is None else "quoted"
    start, end = assigned.span(group)
    if group == "bare" and "cookie" in name.lower() and assigned["sign"] == ":":
        rest = _COOKIE_REST.match(text, start)
        end = rest.end() if rest else end
    value = text[start:end]
    if not value or _HARMLESS.fullmatch(value):
        return
    # "the secret: it is simple" is a sentence; `password: it` at the end of a line is a setting.
    if (
        group == "bare"
        and assigned["sign"] == ":"
        and value.isalpha()
        and text[end : end + 2].strip(" \t")[:1].isalpha()
    ):
        return
    yield start, end


def _json_escaped(value: str) -> str:
    from msgspec.json import encode

    return encode(value.encode("utf-8", "replace").decode("utf-8"))[1:-1].decode("utf-8")
