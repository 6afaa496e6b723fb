"""Detection of secrets by their shape: keys of known services, tokens, private keys, passwords in URLs."""

from __future__ import annotations

import re
from collections.abc import Iterator

Span = tuple[int, int]

#: No key of a known kind is shorter.
_SHORTEST_RUN = 16
_RUN = b"x" * _SHORTEST_RUN
#: Maps the bytes that keys and tokens are made of to ``x`` and all others to a blank.
_RUN_BYTES = bytes(
    120 if chr(code).isascii() and (chr(code).isalnum() or chr(code) in "_-") else 32 for code in range(256)
)

#: Known key formats. Prefixes that also begin ordinary names need a digit or a non-word character.
_KEY = re.compile(
    r"""(?: sk- | gh[opsur]_ | github_pat_ | glpat- | xox[a-z]- | xapp- | AIza | (?:sk|pk|rk)_(?:live|test)_ | whsec_
          | (?:pk|rk|gsk|hf|npm|pypi|xai|nvapi|r8|pplx|tvly)[-_](?=[\w-]*\d|[A-Za-z]{20})
        ) [\w-]{9,}
      | (?:AKIA|ASIA)(?=[A-Z]*\d)[0-9A-Z]{12,}
      | (?:eyJ|ya29\.)[\w-]{9,}(?:\.[\w-]+)*                # tokens of several parts
    """,
    re.VERBOSE,
)
#: How the patterns above begin: two letters distinguish most runs.
_FIRST_LETTERS = frozenset("sk gh gi gl xo xa AI pk rk wh gs hf np py nv r8 pp tv AK AS ey".split())

_BEARER = re.compile(r"[Bb]earer\s{1,4}([\w\-.~+/]{6,}=*)")
_PRIVATE_KEY = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY.*?(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,20}-----|\Z)", re.DOTALL
)
#: Up to the last ``@`` of an address: passwords may contain one.
_LOGIN = re.compile(r"([^\s/:?#]{0,300}+:)?([^\s/?#]{1,300})@")


def find_shapes(text: str, raw: bytes) -> Iterator[Span]:
    """The positions of the secrets. ``raw`` has one byte for each character of the text."""
    runs = raw.translate(_RUN_BYTES)
    if runs.find(_RUN) >= 0:  # `in` takes several times as long for bytes
        yield from _keys(text, runs)
    if "-----BEGIN" in text:
        yield from (found.span() for found in _PRIVATE_KEY.finditer(text))
    if "earer " in text:
        yield from _bearer_tokens(text)
    if "@" in text:
        yield from _logins(text)


def _keys(text: str, runs: bytes) -> Iterator[Span]:
    start = runs.find(_RUN)
    while start >= 0:
        found = _KEY.match(text, start) if text[start : start + 2] in _FIRST_LETTERS else None
        if found is None and start and text[start - 1] in "\\%":
            found = _KEY.match(text, _after_escape(text, start))
        if found:
            yield found.span()
        end = runs.find(b" ", max(start, found.end() - 1) if found else start)
        start = runs.find(_RUN, end) if end >= 0 else -1


def _after_escape(text: str, start: int) -> int:
    """Where the run really starts when it is glued to ``\\n``, ``\\u0022`` or ``%3D``."""
    if text[start - 1] == "%":
        return start + 2
    return start + 5 if text[start] == "u" else start + 1


def _bearer_tokens(text: str) -> Iterator[Span]:
    for found in _BEARER.finditer(text):
        # "the bearer certificate" is not a token.
        if len(found[1]) >= _SHORTEST_RUN or any(char.isdigit() for char in found[1]):
            yield found.span(1)


def _logins(text: str) -> Iterator[Span]:
    at = text.find("://")
    while at >= 0:
        login = _LOGIN.match(text, at + 3)
        # A name alone (ssh://git@host) is not a secret unless it is as long as one.
        if login and (login[1] or len(login[2]) >= _SHORTEST_RUN):
            yield login.span(2)
        at = text.find("://", at + 3)
