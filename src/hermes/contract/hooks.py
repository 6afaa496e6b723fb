"""Every observer hook: when it fires, which fields it carries and what its return value does."""

from __future__ import annotations

from hermes.contract.fields import (
    API_REQUEST_ID,
    ATTEMPT,
    HISTORY,
    MODEL,
    PLATFORM,
    SCHEMA_VERSION,
    SESSION_ID,
    TASK_ID,
    TOOL_CALL,
    TOOL_CALL_ID,
    TRACE,
    TURN_ID,
    USER_MESSAGE,
    Field,
)
from hermes.contract.hook_spec import IGNORED, HookSpec, Pair
from hermes.contract.model_hooks import AUXILIARY_HOOKS, CLASSIFICATION_HOOKS, MODEL_PAIRS, STREAM_HOOKS
from hermes.contract.values import APPROVAL_SURFACES, SESSION_END_REASONS, one_of

__all__ = ["HOOKS", "IGNORED", "OBSERVER_SCHEMA", "PAIRS", "HookSpec", "Pair"]

OBSERVER_SCHEMA = "hermes.observer.v1"

_TURN = (SESSION_ID, TASK_ID, TURN_ID)
_SESSION_KEY = Field("session_key", "str", "The conversation as its surface names it.")
_OLD_AND_NEW = (
    Field("old_session_id", "str", "The conversation that was left."),
    Field("new_session_id", "str", "The conversation that took its place, empty when there is none."),
)
_REASON = Field("reason", "str", f"{one_of(SESSION_END_REASONS)}.")

_FINISH = (
    "Why the answer ended: `stop` when it is whole; `length`, `content_filter`, `refusal`, `pause_turn` or `budget` "
    "when it is incomplete; empty without an answer."
)

_SENDER = (
    "Who sent the message: the user of a chat platform, the route of a webhook, else the principal that the caller is "
    "(its name under `principals`, `token` or `local`). Empty for the owner at a surface without callers."
)

_SESSION = (
    HookSpec(
        "on_session_start",
        "A brand-new session starts, after the system prompt is built. Not on resume.",
        (SESSION_ID, MODEL, PLATFORM),
    ),
    HookSpec(
        "on_session_resume",
        "A stored session is continued: before its first turn in this process, on every surface.",
        (SESSION_ID, MODEL, PLATFORM),
    ),
    HookSpec(
        "on_session_end",
        "A run of the agent ends, interrupted and incomplete ones included. Once per turn. A turn that waits for an "
        "answer has not ended.",
        (
            *_TURN,
            Field("api_request_id", "str", "The open attempt when the turn was interrupted, else empty."),
            Field("completed", "bool", "Whether the turn reached a final answer."),
            Field("interrupted", "bool", "Whether it was cancelled."),
            Field("reason", "str", "Why it ended, when not completed."),
            Field("finish_reason", "str", _FINISH),
            MODEL,
            PLATFORM,
        ),
    ),
    HookSpec(
        "on_session_finalize",
        "A session identity is torn down. Once per identity.",
        (SESSION_ID, PLATFORM, _REASON, *_OLD_AND_NEW),
    ),
    HookSpec(
        "on_session_reset",
        "A surface moves from one session identity to a new one.",
        (SESSION_ID, PLATFORM, _REASON, *_OLD_AND_NEW),
    ),
)

_STOPPED = HookSpec(
    "agent_loop_stopped",
    "The loop of model and tool calls is stopped before the model has ended it, right before `on_session_end`.",
    (
        *_TURN,
        _SESSION_KEY,
        PLATFORM,
        Field("reason", "str", "`interrupted`, `max_iterations`, `budget` or `error`."),
        Field(
            "invalidation_reason", "str", "The same in words: who stopped it, which limit, which error.", "sanitised"
        ),
    ),
)

_LLM = (
    HookSpec(
        "pre_llm_call",
        "Before the loop of model and tool calls begins for a user turn.",
        (
            *_TURN,
            USER_MESSAGE,
            HISTORY,
            Field("is_first_turn", "bool", "Whether the conversation starts with this turn."),
            MODEL,
            PLATFORM,
            Field("sender_id", "str", _SENDER),
        ),
        'A string or {"context": str}: joined by blank lines and added to the user message of this turn only.',
    ),
    HookSpec(
        "post_llm_call",
        "After a turn that was not interrupted ends with a final answer.",
        (
            *_TURN,
            USER_MESSAGE,
            Field("assistant_response", "str", "The final answer.", "raw"),
            HISTORY,
            Field("finish_reason", "str", _FINISH),
            MODEL,
            PLATFORM,
        ),
    ),
    HookSpec(
        "transform_llm_output",
        "Before a final answer is shown and before `post_llm_call`.",
        (Field("response_text", "str", "The final answer.", "raw"), *_TURN, MODEL, PLATFORM),
        "The first non-empty string replaces the answer.",
    ),
    HookSpec(
        "pre_verify",
        "Before a turn that changed files ends, a bounded number of times.",
        (
            *_TURN,
            PLATFORM,
            MODEL,
            Field("coding", "bool", "Whether the turn worked on code."),
            Field("attempt", "int", "How often this turn was already sent on, from 0."),
            Field("final_response", "str", "The answer about to be given.", "raw"),
            Field("changed_paths", "list[str]", "The files this turn wrote."),
        ),
        'The first {"action": "continue", "message": str} or {"decision": "block", "reason": str} keeps it going.',
    ),
)

_MESSAGE_COUNT = Field("message_count", "int", "Messages in the request.")
_REQUEST = Field("request", "dict", 'The effective request: {"method", "body"}.', "sanitised")
_STARTED = Field("started_at", "float", "When the attempt started, in seconds since the epoch.")
_TIMING = (
    Field("api_duration", "float", "Seconds the attempt took."),
    _STARTED,
    Field("ended_at", "float", "When it ended, in seconds since the epoch."),
)

_API = (
    HookSpec(
        "pre_api_request",
        "Immediately before each provider attempt.",
        (
            *ATTEMPT,
            USER_MESSAGE,
            HISTORY,
            Field("request_messages", "list[dict]", "The messages about to be sent.", "raw"),
            _MESSAGE_COUNT,
            Field("tools", "list[dict]", "The tools the model is offered.", "raw"),
            Field("tool_count", "int", "Tools offered."),
            Field("approx_input_tokens", "int", "An estimate of the request's size in tokens."),
            Field("request_char_count", "int", "The request's size in characters."),
            Field("max_tokens", "int | None", "The limit asked of the provider, when there is one."),
            _STARTED,
            TRACE,
            _REQUEST,
        ),
    ),
    HookSpec(
        "post_api_request",
        "After each successful provider attempt.",
        (
            *ATTEMPT,
            *_TIMING,
            Field("finish_reason", "str", "Why the model stopped."),
            _MESSAGE_COUNT,
            Field("response_model", "str", "The model that really answered."),
            Field("response", "dict", "model, finish_reason, assistant_message, usage.", "sanitised"),
            Field("usage", "dict | None", "Token counts, None when the provider sent none."),
            Field("cost_usd", "float | None", "What the answer cost in US dollars, None when the price is not known."),
            Field("assistant_message", "Record", "The message with attributes, for older plugins.", "raw"),
            Field("assistant_content_chars", "int", "Length of the text."),
            Field("assistant_tool_call_count", "int", "Tool calls asked for."),
            TRACE,
            _REQUEST,
        ),
    ),
    HookSpec(
        "api_request_error",
        "After each failed provider attempt, retried or not.",
        (
            *ATTEMPT,
            *_TIMING,
            Field("status_code", "int | None", "The HTTP status, when there was one."),
            Field("retry_count", "int", "Retries made before this failure."),
            Field("max_retries", "int", "Retries allowed."),
            Field("retryable", "bool", "Whether the failure may be retried."),
            Field("reason", "str", "The class of failure."),
            Field("error", "dict", '{"type", "message"}.', "sanitised"),
            TRACE,
            _REQUEST,
        ),
    ),
)

_OUTCOME = (
    Field("result", "str", "What the tool returned.", "raw"),
    Field("duration_ms", "int", "Milliseconds the tool ran."),
    Field("status", "str", "`ok`, `error`, `blocked`, `cancelled` or `timeout`."),
    Field("error_type", "str | None", "The class of failure, when there was one."),
    Field("error_message", "str | None", "The failure as text, when there was one.", "raw"),
)

_TOOL = (
    HookSpec(
        "pre_tool_call",
        "After `tool_request` middleware, before guardrails, approvals and the tool.",
        (*TOOL_CALL, TRACE),
        'Any {"action": "block", "message": str} blocks the call, whatever other plugins answer and in whatever order; '
        'each {"action": "approve", "message"?: str, "rule_key"?: str} is a reason to ask a person; '
        '{"action": "modify", "args": dict} changes the arguments that it names.',
        live="args",
    ),
    HookSpec(
        "post_tool_call",
        "When a tool call is over, whatever its outcome. A call that waits for an answer is not.",
        (*TOOL_CALL, *_OUTCOME, TRACE),
    ),
    HookSpec(
        "transform_tool_result",
        "After `post_tool_call`, before the result reaches the model.",
        (*TOOL_CALL, *_OUTCOME, TRACE),
        "The first string, even an empty one, replaces the result.",
    ),
    HookSpec(
        "transform_terminal_output",
        "After a foreground command, on its bounded output, before that is cleaned.",
        (
            Field("command", "str", "The command.", "raw"),
            Field("output", "str", "What it printed.", "raw"),
            Field("returncode", "int", "Its exit code."),
            Field("env_type", "str", "Where it ran; `local` for this machine."),
            *_TURN,
            TOOL_CALL_ID,
        ),
        "The first string replaces the output.",
    ),
)

_APPROVAL_FIELDS = (
    Field("command", "str", "The command that needs a decision.", "raw"),
    Field("description", "str", "Why it needs one."),
    Field("pattern_key", "str", "The rule that asked, as `always` stores it."),
    Field("pattern_keys", "list[str]", "Every rule that matched."),
    _SESSION_KEY,
    Field("surface", "str", f"Where the question is asked: {one_of(APPROVAL_SURFACES)}."),
    *_TURN,
    TOOL_CALL_ID,
    Field(
        "redelivered",
        "bool",
        "True when plugins may have been told before, by a process that was killed while it did.",
        always=False,
    ),
)

_APPROVAL = (
    HookSpec("pre_approval_request", "Right before a person or a model is asked about a command.", _APPROVAL_FIELDS),
    HookSpec(
        "post_approval_response",
        "After the answer, or when there was none in time. Once for each `pre_approval_request`, also when the answer "
        "comes later, in this process or another. A question that is withdrawn because its turn was stopped is denied.",
        (
            *_APPROVAL_FIELDS,
            Field(
                "choice",
                "str",
                "`once`, `session`, `always`, `deny` or `timeout`; of a model `smart_approve`, `smart_deny` or "
                "`smart_unsure`, after which a person is asked.",
            ),
            Field(
                "decided_by",
                "str",
                "Who answered: `aux_llm` when the surface is `smart`, else the caller or `owner`, where that is known.",
                always=False,
            ),
        ),
    ),
)

_FAMILY = (
    SESSION_ID,
    TASK_ID,
    TURN_ID,
    TOOL_CALL_ID,
    Field("parent_session_id", "str", "The conversation that delegated."),
    Field("parent_turn_id", "str", "The turn that delegated."),
    Field("parent_subagent_id", "str", "The delegating child agent, empty at the top."),
    Field("child_session_id", "str", "The child's conversation."),
    Field("child_subagent_id", "str", "The child agent."),
    Field("child_role", "str", "`leaf` or `orchestrator`."),
    Field("child_goal", "str", "What the child is to do.", "raw"),
)

_SUBAGENT = (
    HookSpec("subagent_start", "A delegated child agent is built, before it runs.", _FAMILY),
    HookSpec(
        "subagent_stop",
        "A delegated child agent has returned or failed. Once per child.",
        (
            *_FAMILY,
            Field("child_summary", "str", "What the child reported.", "raw"),
            Field("child_status", "str", "`completed`, `failed`, `interrupted`, `timeout` or `error`."),
            Field("duration_ms", "int", "Milliseconds the child ran."),
        ),
    ),
)

_GATEWAY = (
    HookSpec(
        "pre_gateway_dispatch",
        "A message has arrived on a chat platform or a webhook, before it reaches a session. Also one whose sender was "
        "not let in: it reaches none, whatever plugins answer.",
        (
            Field("event", "object", "The message as its platform delivered it.", "raw"),
            Field("gateway", "object", "The gateway that received it.", "raw"),
            Field("session_store", "object", "The gateway's sessions.", "raw"),
            Field("sender_state", "str", "`known` when the sender was let in, else `unknown`."),
            Field("pairing", "bool", "Whether unknown senders are offered a code in direct chats, to be let in with."),
        ),
        'The first {"action": "skip" | "rewrite" | "allow", ...} decides about a message of a known sender. Of an '
        "unknown sender only `skip` counts: no code is offered.",
    ),
)

_COMMAND = (
    HookSpec(
        "pre_command",
        "A slash command is about to run, on any surface. Not for one that is given while the agent works, such as "
        "`/stop` and `/approve`: nothing may hold those up.",
        (
            SESSION_ID,
            _SESSION_KEY,
            PLATFORM,
            Field("surface", "str", "Where it was typed: `cli`, `gateway` or `acp`."),
            Field("command", "str", "The name of the command, without the slash."),
            Field("alias_used", "str", "The name that was typed."),
            Field("args_raw", "str", "All that follows the name.", "raw"),
        ),
    ),
)

_ALL = (
    *_SESSION,
    _STOPPED,
    *_LLM,
    *_API,
    *CLASSIFICATION_HOOKS,
    *STREAM_HOOKS,
    *AUXILIARY_HOOKS,
    *_TOOL,
    *_APPROVAL,
    *_SUBAGENT,
    *_GATEWAY,
    *_COMMAND,
)
HOOKS: dict[str, HookSpec] = {spec.name: spec._replace(fields=(SCHEMA_VERSION, *spec.fields)) for spec in _ALL}

PAIRS = (
    Pair("pre_llm_call", ("on_session_end",), ("session_id", "turn_id")),
    Pair("pre_api_request", ("post_api_request", "api_request_error"), (API_REQUEST_ID.name,)),
    Pair("pre_tool_call", ("post_tool_call",), ("session_id", "turn_id", "tool_call_id"), may_repeat=True),
    Pair("pre_approval_request", ("post_approval_response",), ("session_id", "tool_call_id", "pattern_key")),
    Pair("subagent_start", ("subagent_stop",), ("child_session_id",)),
    *MODEL_PAIRS,
)
