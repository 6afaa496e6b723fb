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
#: Two words that are harmless apart.
_SECRET_PAIRS = frozenset({("api", "key"), ("private", "key"), ("access", "key"), ("signing", "key"), ("auth", "key")})
_TOKEN_OWNERS = frozenset({"access", "api", "auth", "bearer", "id", "refresh", "session"})
#: Words of names about a secret, not of the secret itself.
_ABOUT = _set("count counts limit limits max min length size type types url uri endpoint env")
#: Words that make ``token`` a unit of usage.
_MEASURES = _set(
    "usage used budget total num number estimate estimated per price cost rate "
    "input output prompt completion reasoning cached"
)


@lru_cache(maxsize=4096)
def is_secret_key(name: str) -> bool:
    """Whether a setting, header or field of this name holds a secret.

    ``api_key``, ``X-Auth-Token`` and ``clientSecret`` do; ``max_tokens``, ``token_count`` and ``key_env`` do not.
    """
    words = _words(name[:200])
    if not words or not _ABOUT.isdisjoint(words):
        return False
    pairs = set(pairwise(words))
    found = _SECRET_WORDS.intersection(words)
    if found == frozenset({"token"}) and not _MEASURES.isdisjoint(words):
        return False
    return (
        bool(found)
        or not _SECRET_PAIRS.isdisjoint(pairs)
        or (words[-1] == "pass" and len(words) > 1)
        or any(second == "tokens" and first in _TOKEN_OWNERS for first, second in pairs)
    )


def _words(name: str) -> list[str]:
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name)
    return [word for word in re.split(r"[^a-z0-9]+", spaced.lower()) if word]
