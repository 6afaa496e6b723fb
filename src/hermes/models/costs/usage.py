"""Token usage of a model call, normalised from the spellings of different servers."""

from __future__ import annotations

from operator import add
from typing import Any, cast

import msgspec

#: The counts of a usage, in the order of their fields, as hooks and the journal name them.
TOKEN_COUNTS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens")


class TokenUsage(msgspec.Struct):
    """Tokens and cost. ``input_tokens`` leaves out what was read from or written to the prompt cache."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    #: None when the price is not known.
    cost_usd: float | None = None

    @property
    def prompt_tokens(self) -> int:
        """Everything the model read: new input and both cache buckets."""
        return self.input_tokens + self.cache_read_tokens + self.cache_write_tokens

    @property
    def total_tokens(self) -> int:
        return self.prompt_tokens + self.output_tokens


class Usage(TokenUsage):
    """What a call consumed."""

    request_count: int = 1

    def as_hook_payload(self) -> dict[str, int]:
        """The ``usage`` field of ``post_api_request``."""
        totals = {"prompt_tokens": self.prompt_tokens, "total_tokens": self.total_tokens}
        counts = dict(zip(TOKEN_COUNTS, msgspec.structs.astuple(self), strict=False))
        return {**counts, "request_count": self.request_count, **totals}

    def as_columns(self) -> dict[str, Any]:
        """The counts as the journal names them."""
        columns = msgspec.structs.asdict(self)
        del columns["request_count"]
        return columns

    def as_response_usage(self) -> dict[str, Any]:
        """The ``usage`` object of a chat completion; ``usage_from`` reads it back unchanged."""
        usage: dict[str, Any] = {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.output_tokens,
            "total_tokens": self.total_tokens,
            "prompt_tokens_details": {
                "cached_tokens": self.cache_read_tokens,
                "cache_write_tokens": self.cache_write_tokens,
            },
            "completion_tokens_details": {"reasoning_tokens": self.reasoning_tokens},
        }
        if self.cost_usd is not None:
            usage["cost"] = self.cost_usd
        return usage

    def __add__(self, other: Usage) -> Usage:
        """The sum of two calls. A cost that is unknown in one of them counts only what is known."""
        known = [cost for cost in (self.cost_usd, other.cost_usd) if cost is not None]
        counts = slice(len(TOKEN_COUNTS))
        return Usage(
            *map(add, msgspec.structs.astuple(self)[counts], msgspec.structs.astuple(other)[counts]),
            cost_usd=sum(known) if known else None,
            request_count=self.request_count + other.request_count,
        )


def usage_from(raw: object) -> Usage | None:
    """The usage a server reported, or ``None`` when it reported nothing usable."""
    if not isinstance(raw, dict) or not raw:
        return None
    usage = cast("dict[str, Any]", raw)
    counts = _counts(usage)
    of_prompt = _counts(usage.get("prompt_tokens_details") or usage.get("input_tokens_details"))
    of_output = _counts(usage.get("completion_tokens_details") or usage.get("output_tokens_details"))
    cache_read = (
        of_prompt.get("cached_tokens")
        or counts.get("prompt_cache_hit_tokens")
        or counts.get("cache_read_input_tokens")
        or counts.get("cached_tokens", 0)
    )
    cache_write = (
        of_prompt.get("cache_write_tokens")
        or of_prompt.get("cache_creation_tokens")
        or counts.get("cache_creation_input_tokens")
        or counts.get("prompt_cache_write_tokens", 0)
    )
    prompt = counts.get("prompt_tokens") or counts.get("input_tokens", 0)
    # Only Anthropic's spelling counts fresh input alone; every other one includes the cached part.
    includes_cache = "prompt_tokens" in usage or "cache_read_input_tokens" not in usage
    fresh = max(prompt - cache_read - cache_write, 0) if includes_cache else prompt
    thoughts = of_output.get("thinking_tokens", counts.get("reasoning_tokens", 0))
    return Usage(
        input_tokens=fresh,
        output_tokens=counts.get("completion_tokens") or counts.get("output_tokens", 0),
        cache_read_tokens=cache_read,
        cache_write_tokens=cache_write,
        reasoning_tokens=of_output.get("reasoning_tokens") or thoughts,
        cost_usd=_cost(usage),
    )


def response_usage(raw: object) -> dict[str, Any] | None:
    """The usage a server reported, in the shape of a chat completion's."""
    usage = usage_from(raw)
    return None if usage is None else usage.as_response_usage()


def _counts(fields: object) -> dict[str, int]:
    """The sensible numbers among the fields; none when these are no fields."""
    if not isinstance(fields, dict):
        return {}
    return {
        name: int(value)
        for name, value in cast("dict[str, Any]", fields).items()
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e15
    }


def _cost(usage: dict[str, Any]) -> float | None:
    for name in ("cost", "cost_usd"):
        value = usage.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e9:
            return float(value)
    return None
