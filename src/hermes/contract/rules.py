"""Rules of the contract beyond names, fields and pairs: order, values and ids, as data."""

from __future__ import annotations

from typing import NamedTuple

from hermes.contract.values import APPROVAL_CHOICES, APPROVAL_SURFACES, SESSION_END_REASONS


class Order(NamedTuple):
    """Hooks and middleware kinds in the order in which they happen to everything that shares the ``key`` fields.

    Each may be missing. One that happens several times begins and ends in this order.
    """

    sites: tuple[str, ...]
    key: tuple[str, ...]


_CALL = ("session_id", "turn_id", "tool_call_id")
_TURN = ("session_id", "turn_id")
_BESIDE = ("pre_auxiliary_call", "post_auxiliary_call")

ORDERS = (
    Order(("llm_request", "pre_api_request", "llm_execution", "post_api_request"), ("api_request_id",)),
    Order(("llm_request", "pre_api_request", "llm_execution", "api_request_error"), ("api_request_id",)),
    Order(("tool_request", "pre_tool_call", "tool_execution", "post_tool_call", "transform_tool_result"), _CALL),
    Order(("tool_execution", "transform_terminal_output", "post_tool_call"), _CALL),
    Order(("pre_tool_call", "pre_approval_request", "post_approval_response", "post_tool_call"), _CALL),
    Order(("pre_llm_call", "llm_request", "transform_llm_output", "post_llm_call", "on_session_end"), _TURN),
    Order(("pre_llm_call", "tool_request", "transform_tool_result", "transform_llm_output", "on_session_end"), _TURN),
    Order(_BESIDE, ("api_request_id",)),
    Order(("pre_llm_call", "pre_verify", "transform_llm_output"), _TURN),
    Order(("on_stream_start", "on_stream_delta", "on_stream_end", "on_interim_message"), ("api_request_id",)),
    Order(("pre_llm_call", "agent_loop_stopped", "on_session_end"), _TURN),
    Order(("on_session_resume", "pre_llm_call", "on_session_end", "on_session_finalize"), ("session_id",)),
    Order(("on_session_start", "pre_llm_call", "on_session_end", "on_session_finalize"), ("session_id",)),
)

_STATUSES = ("ok", "error", "blocked", "cancelled", "timeout")
_FINISHES = ("stop", "length", "content_filter", "refusal", "pause_turn", "budget")

#: The values that a field may have, by hook and field.
CHOICES: dict[tuple[str, str], tuple[str, ...]] = {
    ("post_tool_call", "status"): _STATUSES,
    ("transform_tool_result", "status"): _STATUSES,
    ("post_llm_call", "finish_reason"): _FINISHES,
    ("on_session_end", "finish_reason"): ("", *_FINISHES),
    ("on_session_finalize", "reason"): SESSION_END_REASONS,
    ("on_session_reset", "reason"): SESSION_END_REASONS,
    ("pre_approval_request", "surface"): APPROVAL_SURFACES,
    ("post_approval_response", "surface"): APPROVAL_SURFACES,
    ("post_approval_response", "choice"): APPROVAL_CHOICES,
    ("agent_loop_stopped", "reason"): ("interrupted", "max_iterations", "budget", "error"),
    ("on_stream_delta", "kind"): ("text", "reasoning"),
    ("subagent_start", "child_role"): ("leaf", "orchestrator"),
    ("subagent_stop", "child_role"): ("leaf", "orchestrator"),
    ("subagent_stop", "child_status"): ("completed", "failed", "interrupted", "timeout", "error"),
}

#: Fields that are never empty.
NEVER_EMPTY = frozenset(
    {
        "session_id",
        "task_id",
        "turn_id",
        "api_request_id",
        "tool_call_id",
        "tool_name",
        "platform",
        "model",
        "provider",
        "base_url",
        "api_mode",
        "session_key",
        "pattern_key",
        "surface",
        "parent_session_id",
        "parent_turn_id",
        "child_session_id",
        "child_subagent_id",
    }
)

#: Where one of them may be empty all the same.
MAY_BE_EMPTY = frozenset(
    {
        ("on_session_end", "api_request_id"),  # there is one only when the turn was interrupted in an attempt
        ("pre_command", "session_id"),  # a command may come before the first message
        ("pre_command", "session_key"),
        # A call beside the conversation may be made between turns, or outside of any session.
        *((site, field) for site in _BESIDE for field in ("session_id", "task_id", "turn_id", "platform")),
    }
)
