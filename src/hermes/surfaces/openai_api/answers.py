"""The end of a turn as clients of OpenAI's API know it: finish reasons and usage."""

from __future__ import annotations

from typing import Any

from hermes.agent.events import TurnResult
from hermes.models.costs.usage import Usage

#: Reasons of an incomplete answer, as chat completions name them. All others are ``stop``.
_FINISH_REASONS = {
    "length": "length",
    "budget": "length",
    "content_filter": "content_filter",
    "refusal": "content_filter",
}


def finish_reason(result: TurnResult) -> str:
    """Why the answer ended."""
    return _FINISH_REASONS.get(result.finish_reason, "stop")


def usage_document(usage: Usage, read: str = "prompt", written: str = "completion") -> dict[str, Any]:
    """The tokens of a turn as a chat completion names them; a response calls them ``input`` and ``output``."""
    return {
        f"{read}_tokens": usage.prompt_tokens,
        f"{written}_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
        f"{read}_tokens_details": {"cached_tokens": usage.cache_read_tokens},
        f"{written}_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }
