"""Secret names: decides whether a setting, header or field is secret by its name."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise

REDACTED = "<redacted>"


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_SECRET_WORDS = _set(
    "authorization cookie cookies token password passwd passphrase secret secrets credential credentials "
    "apikey privatekey accesskey secretkey authtoken accesstoken"
)
#: Words that make the ``key`` after them a secret one.
_KEY_OWNERS = _set(
    "api private access signing auth encryption decryption master shared service account storage deploy license "
    "subscription admin root webhook hmac aes rsa ssh"
)
#: Words that make the ``KEY`` of a variable no secret.
_PLAIN_KEYS = _set(
    "primary foreign public sort cache partition row index hash map group order lookup unique composite candidate "
    "idempotency request dict json yaml object item field column config settings registry hot short arrow shift"
)
_TOKEN_OWNERS = frozenset({"access", "api", "auth", "bearer", "id", "refresh", "session"})
#: The words that make a word behind them a secret.
_OWNERS = {"key": _KEY_OWNERS, "tokens": _TOKEN_OWNERS}
#: Words of names about an amount, wherever they stand.
_AMOUNTS = _set("count counts limit limits max min length")
#: Words that, behind the secret's own, make it a name about the secret: ``token_url``, ``key_env``.
_ABOUT = _set("size type types url uri endpoint env name file path")
#: Words that make ``token`` a unit of usage.
_MEASURES = _set(
    "usage used budget total num number estimate estimated per price cost rate "
    "input output prompt completion reasoning cached"
)


@lru_cache(maxsize=4096)
def is_secret_key(name: str) -> bool:
    """Whether a setting, header, field or variable of this name holds a secret.

    ``api_key``, ``X-Auth-Token``, ``clientSecret`` and ``LAB_KEY`` do; ``max_tokens``, ``token_count``, ``key_env`` and
    ``primary_key`` do not.
    """
    words = _words(name[:200])
    if not words or not _AMOUNTS.isdisjoint(words) or words[-1] in _ABOUT:
        return False
    found = _SECRET_WORDS.intersection(words)
    if found == frozenset({"token"}) and not _MEASURES.isdisjoint(words):
        return False
    if found or any(first in _OWNERS.get(second, ()) for first, second in pairwise(words)):
        return True
    if len(words) == 1:
        return False
    return words[-1] == "pass" or (words[-1] == "key" and name.isupper() and _PLAIN_KEYS.isdisjoint(words))


def _words(name: str) -> list[str]:
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name)
    return [word for word in re.split(r"[^a-z0-9]+", spaced.lower()) if word]
