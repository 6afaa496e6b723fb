"""What is known of Claude models by their names: how long they answer and how they are made to think."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from hermes.models.endpoint import Endpoint

#: ``claude-sonnet-4-5-20250929`` and, as it was before, ``claude-3-7-sonnet-20250219``.
_NEW_NAME = re.compile(r"claude-[a-z]+-(\d{1,2})(?:[-.](\d{1,2}))?(?!\d)")
_OLD_NAME = re.compile(r"claude-(\d)(?:[-.](\d))?(?!\d)")

#: What an answer may take when nobody says: room for a long file, within the limit of every model since Claude 4.
_DEFAULT_TOKENS = 32_000
#: The same for models of others, about which nothing is known.
_CAUTIOUS_TOKENS = 16_000

#: How much of an answer's tokens a model may think, where it is told in tokens.
BUDGETS = {"minimal": 1_024, "low": 4_000, "medium": 10_000, "high": 16_000, "xhigh": 24_000, "max": 24_000}
#: The words for it where it is told in words.
EFFORTS = {"minimal": "low", "low": "low", "medium": "medium", "high": "high", "xhigh": "xhigh", "max": "max"}
#: The server refuses a smaller budget.
LEAST_BUDGET = 1_024


@dataclass(frozen=True, slots=True)
class Abilities:
    """What one model takes."""

    #: The most it can answer, or a sane guess.
    max_tokens: int = _CAUTIOUS_TOKENS
    #: Decides itself how much to think, and is told an effort instead of a budget.
    adaptive: bool = False
    #: Takes a temperature, as long as it does not think.
    temperature: bool = True
    #: Can be held to a JSON schema.
    json_schema: bool = False


def abilities(endpoint: Endpoint) -> Abilities:
    """What the model of an endpoint takes."""
    known = _abilities(endpoint.model)
    if endpoint.context_length is None or known.max_tokens <= endpoint.context_length // 2:
        return known
    return Abilities(endpoint.context_length // 2, known.adaptive, known.temperature, known.json_schema)


@lru_cache
def _abilities(model: str) -> Abilities:
    name = model.lower()
    if "claude" not in name:
        return Abilities()
    version = _version(name)
    if version < (3, 5):
        return Abilities(4_096)
    if version < (3, 7):
        return Abilities(8_192)
    return Abilities(
        _DEFAULT_TOKENS,
        adaptive=version >= (4, 6),
        temperature=version < (4, 7),
        json_schema=version >= (4, 5),
    )


def _version(name: str) -> tuple[int, int]:
    """The version in a name; a name without one is taken for a new model."""
    found = _NEW_NAME.search(name) or _OLD_NAME.search(name)
    return (int(found[1]), int(found[2] or 0)) if found else (99, 0)
