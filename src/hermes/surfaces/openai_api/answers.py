"""The end of a turn as clients of OpenAI's API know it: finish reasons, usage, and failures as errors."""

from __future__ import annotations

from typing import Any

from hermes.agent.events import TurnResult
from hermes.models.costs.usage import Usage
from hermes.surfaces.openai_api.errors import NO_RETRY, ApiError

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


def failure(result: TurnResult, *, shows_words: bool) -> ApiError | None:
    """The error of a turn without an answer; None when there is one.

    Callers see only the class of a failure: its words may hold anything. The owner sees them too.
    """
    if result.status in ("completed", "incomplete"):
        return None
    if result.status == "interrupted":
        return ApiError(
            503,
            "the turn was stopped before there was an answer",
            kind="server_error",
            code="cancelled",
            headers=(NO_RETRY,),
        )
    words = f": {result.error}" if shows_words and result.error else ""
    name = result.error_type or "TurnFailed"
    code = "insufficient_quota" if name == "BudgetExceeded" else "agent_error"
    status = 429 if code == "insufficient_quota" else 500
    return ApiError(status, f"Agent error: {name}{words}", kind="server_error", code=code, headers=(NO_RETRY,))


def usage_document(usage: Usage, read: str = "prompt", written: str = "completion") -> dict[str, Any]:
    """The tokens of a turn as a chat completion names them; a response calls them ``input`` and ``output``."""
    return {
        f"{read}_tokens": usage.prompt_tokens,
        f"{written}_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
        f"{read}_tokens_details": {"cached_tokens": usage.cache_read_tokens},
        f"{written}_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }
