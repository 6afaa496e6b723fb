"""Hooks of model calls beyond the attempts themselves: answers while they stream, and calls beside the conversation."""

from __future__ import annotations

from hermes.contract.fields import (
    API_REQUEST,
    API_REQUEST_ID,
    MODEL,
    PLATFORM,
    PROVIDER,
    SESSION_ID,
    TASK_ID,
    TURN_ID,
    Field,
)
from hermes.contract.hook_spec import HookSpec, Pair

_AUXILIARY = (
    Field(
        "aux_task",
        "str",
        "The job, as `auxiliary` in the configuration names it: `compression`, `approval`, `vision`, …; `plugin_llm` "
        "for `ctx.llm`.",
    ),
    Field("plugin", "str", "The plugin that asked through `ctx.llm`, else empty."),
    Field("purpose", "str", "What that plugin said it asks for, else empty."),
    *API_REQUEST,
    Field("api_call_count", "int", "Attempts made so far for this call, this one included."),
    Field("retry_count", "int", "Attempts of this call that failed before."),
    Field("streaming", "bool", "Whether the answer is passed on in pieces; calls beside the conversation never do."),
    Field("message_count", "int", "Messages in the request."),
    Field("started_at", "float", "When the attempt started, in seconds since the epoch."),
)

AUXILIARY_HOOKS = (
    HookSpec(
        "pre_auxiliary_call",
        "Immediately before each provider attempt beside the conversation: a summary, an approval by a model, the "
        "description of an image, a plugin's `ctx.llm`.",
        (
            *_AUXILIARY,
            Field("request_messages", "list[dict]", "The messages about to be sent.", "raw"),
            Field("system_prompt", "str", "The system prompt among them, else empty.", "raw"),
            Field("tool_count", "int", "Tools offered."),
            Field("approx_input_tokens", "int", "An estimate of the request's size in tokens."),
            Field("request_char_count", "int", "The request's size in characters."),
            Field("max_tokens", "int | None", "The limit asked of the provider, when there is one."),
            Field("request", "dict", 'The request: {"method", "body"}.', "sanitised"),
        ),
    ),
    HookSpec(
        "post_auxiliary_call",
        "When such an attempt is over, whatever its outcome.",
        (
            *_AUXILIARY,
            Field("api_duration", "float", "Seconds the attempt took."),
            Field("ended_at", "float", "When it ended, in seconds since the epoch."),
            Field("finish_reason", "str | None", "Why the model stopped, None without an answer."),
            Field("response_model", "str | None", "The model that really answered, None without an answer."),
            Field("usage", "dict | None", "Token counts, None when there are none."),
            Field("cost_usd", "float | None", "What the answer cost in US dollars, None when that is not known."),
            Field("response", "dict | None", "model, finish_reason, assistant_message, usage.", "sanitised"),
            Field("assistant_content_chars", "int", "Length of the text."),
            Field("assistant_tool_call_count", "int", "Tool calls asked for."),
            Field("error", "str | None", "The failure as text, None after an answer.", "sanitised"),
            Field("error_type", "str | None", "The class of failure, None after an answer."),
        ),
    ),
)

CLASSIFICATION_HOOKS = (
    HookSpec(
        "transform_api_error_classification",
        "A provider attempt has failed, of the conversation or beside it, before anything follows from that.",
        (
            PROVIDER,
            MODEL,
            Field("status_code", "int | None", "The HTTP status, when there was one."),
            Field("error_type", "str", "The type of the failure."),
            Field("error_code", "str", "The most specific code that the server gave, else empty."),
            Field("error_message", "str", "The failure as text.", "sanitised"),
            Field("error_body", "dict", "The error object of the server, empty without one.", "sanitised"),
            Field("error", "object", "The exception, as a copy.", "sanitised"),
            Field("approx_tokens", "int", "An estimate of the request's size in tokens."),
            Field("context_length", "int", "How many tokens the model takes, 0 when that is not known."),
            Field("num_messages", "int", "Messages in the request."),
        ),
        'The first {"reason": str, "retryable"?: bool, "should_compress"?: bool, "should_rotate_credential"?: bool, '
        '"should_fallback"?: bool, "message"?: str} with a known reason decides.',
        needs_code=True,
    ),
)

_STREAM = (
    SESSION_ID,
    TASK_ID,
    TURN_ID,
    API_REQUEST_ID,
    Field("iteration", "int", "The number of the attempt in its turn, as `api_call_count` has it."),
    MODEL,
    PROVIDER,
    PLATFORM,
    Field("surface", "str", "The same as `platform`."),
)

STREAM_HOOKS = (
    HookSpec("on_stream_start", "With the first piece of an answer that streams.", _STREAM, is_queued=True),
    HookSpec(
        "on_stream_delta",
        "While an answer streams. Pieces that arrive while a callback is busy reach it joined, as one.",
        (
            *_STREAM,
            Field("delta", "str", "The next piece of the text, without known secrets.", "raw"),
            Field("kind", "str", "`text`, or `reasoning` where `plugins.stream_reasoning_deltas` is on."),
        ),
        is_queued=True,
        joined="delta",
    ),
    HookSpec(
        "on_stream_end",
        "When an answer that streamed is whole, has failed or was interrupted.",
        (
            *_STREAM,
            Field("final_text", "str", "All of its text, without known secrets.", "raw"),
            Field("finished", "bool", "Whether it is whole."),
            Field("error", "str | None", "What ended it, None when it is whole.", "sanitised"),
        ),
        is_queued=True,
    ),
    HookSpec(
        "on_interim_message",
        "The model has said something beside tool calls, before its answer.",
        (
            *_STREAM,
            Field("text", "str", "What it said, without known secrets.", "raw"),
            Field("already_streamed", "bool", "Whether the surface has shown it while it streamed."),
        ),
        is_queued=True,
    ),
)

MODEL_PAIRS = (
    Pair("on_stream_start", ("on_stream_end",), (API_REQUEST_ID.name,)),
    Pair("pre_auxiliary_call", ("post_auxiliary_call",), (API_REQUEST_ID.name,)),
)
