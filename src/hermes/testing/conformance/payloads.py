"""Payloads for every hook and middleware kind, made from the contract: ordinary, sparse, huge and odd ones."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Literal, NamedTuple

from hermes.base.errors import ProviderError
from hermes.contract.fields import Field
from hermes.contract.hooks import HOOKS, OBSERVER_SCHEMA
from hermes.contract.middleware import MIDDLEWARE, MIDDLEWARE_SCHEMA
from hermes.contract.response import Record, chat_response
from hermes.hooks.copies import isolate

Flavour = Literal["complete", "minimal", "unicode", "huge"]
Payload = dict[str, Any]

#: Things that occur in real text and break code that never met them: a lone surrogate (from an undecodable file
#: name), a NUL, a direction override, a joined emoji, a combining mark, a line separator, an escape sequence.
ODD_TEXT = (
    "\ud800 \x00 \u202eevil\u202c \U0001f468\u200d\U0001f469\u200d\U0001f467 e\u0301 \u2028 \x1b[31m \ufeff \U0010ffff"
)

#: Characters of one huge text, messages of one huge conversation. Together some megabytes per event.
HUGE_TEXT = 1_000_000
_HUGE_MESSAGES = 400

#: A day in 2026; payloads do not depend on the clock.
_NOW = 1_780_000_000.0


class LifecycleStep(NamedTuple):
    """One event of a lifecycle: the hook or kind, which of its calls it is about, and what sets it apart."""

    site: str
    number: int = 1
    changes: Payload = {}


_READ = {"tool_name": "read_file", "args": {"path": "notes.txt"}, "original_args": {"path": "notes.txt"}}
_WRITE_ARGS = {"path": "out.txt", "content": "text"}
_WRITE = {"tool_name": "write_file", "args": _WRITE_ARGS, "original_args": _WRITE_ARGS}
_FAILED = {"status": "error", "error_type": "tool_error", "error_message": "no such file"}
_BLOCKED = {"status": "blocked", "error_type": "plugin_block", "error_message": "not allowed", "duration_ms": 0}
_CANCELLED = {"status": "cancelled", "error_type": "keyboard_interrupt", "error_message": "interrupted"}


def _steps(sites: str) -> tuple[LifecycleStep, ...]:
    return tuple(map(LifecycleStep, sites.split()))


#: A whole life of a session in the order the runtime has it: a good and a failed model attempt; a tool call that
#: works, one that fails, one that is blocked and one that is cancelled; an approval, a child agent, an ending.
LIFECYCLE: tuple[LifecycleStep, ...] = (
    *_steps(
        "pre_gateway_dispatch pre_command on_session_start pre_llm_call llm_request pre_api_request llm_execution "
        "on_stream_start on_stream_delta on_stream_end post_api_request on_interim_message"
    ),
    LifecycleStep("llm_request", 2),
    LifecycleStep("pre_api_request", 2),
    LifecycleStep("llm_execution", 2),
    LifecycleStep("transform_api_error_classification", 2),
    LifecycleStep("api_request_error", 2),
    *_steps(
        "tool_request pre_tool_call pre_approval_request post_approval_response tool_execution "
        "transform_terminal_output post_tool_call transform_tool_result"
    ),
    LifecycleStep("tool_request", 2, _READ),
    LifecycleStep("pre_tool_call", 2, _READ),
    LifecycleStep("tool_execution", 2, _READ),
    LifecycleStep("post_tool_call", 2, {**_READ, **_FAILED, "result": '{"error": "no such file"}'}),
    LifecycleStep("transform_tool_result", 2, {**_READ, **_FAILED, "result": '{"error": "no such file"}'}),
    LifecycleStep("pre_tool_call", 3, _WRITE),
    LifecycleStep("post_tool_call", 3, {**_WRITE, **_BLOCKED, "result": '{"error": "not allowed"}'}),
    LifecycleStep("tool_request", 4, _WRITE),
    LifecycleStep("pre_tool_call", 4, _WRITE),
    LifecycleStep("tool_execution", 4, _WRITE),
    LifecycleStep("post_tool_call", 4, {**_WRITE, **_CANCELLED, "result": '{"error": "interrupted"}'}),
    *_steps(
        "subagent_start subagent_stop pre_auxiliary_call post_auxiliary_call pre_verify transform_llm_output "
        "post_llm_call agent_loop_stopped on_session_end on_session_resume on_session_reset on_session_finalize"
    ),
)


class SampleSession(NamedTuple):
    """Whose events these are, so that the ids of one lifecycle belong together."""

    round: str = "1"
    flavour: Flavour = "complete"

    @property
    def session_id(self) -> str:
        return f"20260528_101500_{self.round}"

    @property
    def turn_id(self) -> str:
        return f"{self.session_id}:task:0a1b2c3d"

    def text(self, words: str) -> str:
        """A text the user, the model or a tool might have written."""
        match self.flavour:
            case "unicode":
                return words + ODD_TEXT
            case "huge":
                return words + "x" * HUGE_TEXT
            case "minimal":
                return ""
            case _:
                return words

    def messages(self) -> list[Payload]:
        if self.flavour == "minimal":
            return []
        if self.flavour == "huge":
            pair = [{"role": "user", "content": "a" * 3000}, {"role": "assistant", "content": "b" * 3000}]
            return [dict(message) for _ in range(_HUGE_MESSAGES // 2) for message in pair]
        call = {"id": "call_0", "type": "function", "function": {"name": "terminal", "arguments": '{"command":"ls"}'}}
        return [
            {"role": "system", "content": "You are an agent."},
            {"role": "user", "content": self.text("List the files.")},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "call_0", "content": '{"output": "a.txt", "exit_code": 0}'},
        ]

    def args(self) -> Payload:
        return {} if self.flavour == "minimal" else {"command": self.text("ls -l"), "timeout": 30}

    def trace(self) -> list[dict[str, str]]:
        return [] if self.flavour == "minimal" else [{"source": "another-plugin", "reason": "tagged the request"}]

    def provider_kwargs(self) -> Payload:
        if self.flavour == "minimal":
            return {"model": "scripted", "messages": []}
        parameters = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
        function = {"name": "terminal", "description": "Run a command.", "parameters": parameters}
        return {
            "model": "scripted",
            "messages": self.messages(),
            "tools": [{"type": "function", "function": function}],
            "stream": True,
            "stream_options": {"include_usage": True},
            "temperature": 0.2,
            "extra_body": {"metadata": {"origin": "conformance"}},
        }

    def sanitised_request(self) -> Payload:
        # What the runtime sanitises it bounds as well.
        kwargs = self.provider_kwargs()
        return {"method": "POST", "body": {**kwargs, "messages": kwargs["messages"][:40]}}


def payload(step: LifecycleStep, story: SampleSession) -> Payload:
    """Everything the runtime would pass for this event, ``next_call`` excepted."""
    spec = HOOKS.get(step.site) or MIDDLEWARE[step.site]
    made = {field.name: _value(step, story, field) for field in spec.fields if field.name != "next_call"}
    if story.flavour == "minimal":
        made = {field.name: made[field.name] for field in spec.fields if field.always and field.name in made}
        return made
    for name, value in step.changes.items():
        if name in made:
            made[name] = isolate(value)
    return made


def model_response(story: SampleSession) -> Record:
    """What a provider answers."""
    content = story.text("Here are the files.") or "ok"  # an answer without content would be no answer
    message = {"role": "assistant", "content": content, "tool_calls": None}
    return chat_response(
        {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "model": "scripted",
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
        }
    )


def tool_output(story: SampleSession) -> str:
    """What a tool returns."""
    import json  # the standard one, because the project's own refuses lone surrogates

    return json.dumps({"output": story.text("a.txt"), "exit_code": 0, "error": None})


def _value(step: LifecycleStep, story: SampleSession, field: Field) -> Any:
    special = _SPECIAL.get((step.site, field.name))
    if special is not None:
        return special(story)
    if story.flavour == "minimal":
        if "None" in field.type:
            return None
        if field.name in _MAY_BE_EMPTY:
            return ""
    if field.name == "api_request_id":
        return f"{story.turn_id}:api:{step.number}"
    if field.name == "tool_call_id":
        return f"call_{story.round}_{step.number}"
    if field.name == "api_call_count":
        return step.number
    known = _BY_NAME.get(field.name)
    return _by_type(field, story) if known is None else known(story)


def _by_type(field: Field, story: SampleSession) -> Any:
    """A value for a field this module has not heard of: the contract may have grown."""
    kind = field.type.split(" | ")[0]
    if kind.startswith("list"):
        return []
    if kind.startswith("dict"):
        return {}
    plain: dict[str, Any] = {"int": 1, "float": 1.0, "bool": True, "Record": Record(), "object": SimpleNamespace()}
    return plain[kind] if kind in plain else story.text(field.name)


def _is(value: Any) -> Callable[[SampleSession], Any]:
    return lambda _story: value


def _says(words: str) -> Callable[[SampleSession], Any]:
    return lambda story: story.text(words)


def _usage(_story: SampleSession) -> dict[str, int]:
    counts = {"input_tokens": 10, "output_tokens": 5, "cache_read_tokens": 0, "cache_write_tokens": 0}
    return {**counts, "reasoning_tokens": 0, "request_count": 1, "prompt_tokens": 10, "total_tokens": 15}


def _response(story: SampleSession) -> Payload:
    message = {"role": "assistant", "content": story.text("Here are the files.")[:2000], "tool_calls": None}
    return {"model": "scripted", "finish_reason": "stop", "assistant_message": message, "usage": _usage(story)}


#: Text fields that are empty when the surface or the situation has nothing to say.
_MAY_BE_EMPTY = frozenset({"sender_id", "parent_subagent_id", "new_session_id", "api_request_id", "tool_call_id"})

_IDS_OF_SESSION = ("session_id", "old_session_id", "session_key", "parent_session_id")
#: What is not listed has a value of its type.
_BY_NAME: dict[str, Callable[[SampleSession], Any]] = {
    "telemetry_schema_version": _is(OBSERVER_SCHEMA),
    "middleware_schema_version": _is(MIDDLEWARE_SCHEMA),
    **dict.fromkeys(_IDS_OF_SESSION, lambda story: story.session_id),
    "task_id": lambda story: f"task-{story.round}",
    **dict.fromkeys(("turn_id", "parent_turn_id"), lambda story: story.turn_id),
    **dict.fromkeys(("platform", "surface"), _is("cli")),
    "model": _is("scripted"),
    "provider": _is("custom"),
    "base_url": _is("http://127.0.0.1:8000/v1"),
    "api_mode": _is("chat_completions"),
    "user_message": _says("List the files."),
    **dict.fromkeys(("conversation_history", "request_messages"), lambda story: story.messages()),
    "request": lambda story: story.sanitised_request(),
    "original_request": lambda story: story.provider_kwargs(),
    "tool_name": lambda story: "todo" if story.flavour == "minimal" else "terminal",
    **dict.fromkeys(("args", "original_args"), lambda story: story.args()),
    "middleware_trace": lambda story: story.trace(),
    "interrupted": _is(False),
    "reason": _is("new_session"),
    "new_session_id": lambda story: f"{story.session_id}_next",
    "sender_id": _is("user-1"),
    "sender_state": _is("known"),
    **dict.fromkeys(("assistant_response", "response_text", "final_response"), _says("Here are the files.")),
    **dict.fromkeys(("attempt", "retry_count", "returncode", "assistant_tool_call_count"), _is(0)),
    "changed_paths": lambda story: [] if story.flavour == "minimal" else ["src/main.py"],
    "message_count": lambda story: len(story.messages()),
    "approx_input_tokens": _is(120),
    "request_char_count": _is(480),
    "max_tokens": _is(4096),
    "started_at": _is(_NOW),
    "ended_at": _is(_NOW + 0.5),
    "api_duration": _is(0.5),
    "finish_reason": _is("stop"),
    "response_model": _is("scripted-2026"),
    "response": _response,
    "usage": _usage,
    "assistant_message": lambda story: model_response(story).choices[0].message,
    "assistant_content_chars": lambda story: len(story.text("Here are the files.")),
    "status_code": _is(429),
    "max_retries": _is(3),
    "error": _is({"type": "ProviderError", "message": "too many requests"}),
    "result": tool_output,
    "duration_ms": _is(12),
    "status": _is("ok"),
    **dict.fromkeys(("error_type", "error_message"), _is(None)),
    "command": _says("ls -l"),
    "output": _says("a.txt\n"),
    "env_type": _is("local"),
    "description": _is("deletes files"),
    "pattern_key": _is("rm-recursive"),
    "pattern_keys": _is(["rm-recursive"]),
    "choice": _is("once"),
    "decided_by": _is("aux_llm"),
    "error_code": _is("rate_limit_exceeded"),
    "error_body": lambda story: {} if story.flavour == "minimal" else {"message": "too many requests"},
    **dict.fromkeys(("approx_tokens", "num_messages"), _is(4)),
    "context_length": _is(128_000),
    "iteration": _is(1),
    "delta": _says("Here are"),
    "kind": _is("text"),
    **dict.fromkeys(("final_text", "text"), _says("Here are the files.")),
    "aux_task": _is("compression"),
    **dict.fromkeys(("plugin", "purpose"), _is("")),
    "streaming": _is(False),
    "system_prompt": _says("You are an agent."),
    "invalidation_reason": _is("the steps of the turn are used up"),
    "alias_used": _is("help"),
    "args_raw": _says("new"),
    "parent_subagent_id": _is("sa-0-0a1b2c3d"),
    "child_session_id": lambda story: f"{story.session_id}_child",
    "child_subagent_id": _is("sa-1-4e5f6a7b"),
    "child_role": _is("leaf"),
    "child_goal": _says("Count the files."),
    "child_summary": _says("There is one file."),
    "child_status": _is("completed"),
    "event": lambda story: SimpleNamespace(text=story.text("hello"), source=SimpleNamespace(platform="cli")),
    "gateway": lambda _story: SimpleNamespace(name="gateway"),
    "session_store": lambda _story: SimpleNamespace(),
}

#: Fields whose meaning depends on where they appear.
_SPECIAL: dict[tuple[str, str], Callable[[SampleSession], Any]] = {
    ("llm_request", "request"): lambda story: story.provider_kwargs(),
    ("llm_execution", "request"): lambda story: story.provider_kwargs(),
    ("on_session_end", "reason"): _is(""),
    ("on_session_end", "api_request_id"): _is(""),
    ("on_session_finalize", "reason"): _is("shutdown"),
    ("api_request_error", "reason"): _is("rate_limit"),
    ("agent_loop_stopped", "reason"): _is("max_iterations"),
    ("post_auxiliary_call", "error"): _is(None),
    ("on_stream_end", "error"): _is(None),
    ("transform_api_error_classification", "error"): lambda _story: ProviderError("too many", reason="rate_limit"),
    ("transform_api_error_classification", "error_type"): _is("ProviderError"),
    ("transform_api_error_classification", "error_message"): _is("too many requests"),
    ("pre_command", "command"): _is("help"),
}
