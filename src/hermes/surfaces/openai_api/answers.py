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


def chat_usage(usage: Usage) -> dict[str, Any]:
    """The tokens of a turn as a chat completion has them."""
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }


def response_usage(usage: Usage) -> dict[str, Any]:
    """The tokens of a turn as a response has them."""
    return {
        "input_tokens": usage.prompt_tokens,
        "output_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
        "input_tokens_details": {"cached_tokens": usage.cache_read_tokens},
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }


def missing_text(shown: str, answer: str) -> str:
    """The part of the answer that was not shown while the turn ran."""
    if not answer or shown.endswith(answer):
        return ""
    return f"\n\n{answer}" if shown else answer
