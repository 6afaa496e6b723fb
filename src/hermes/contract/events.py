"""Typed events: everything that happens in a session, as frozen structs.

The events of ``HOOK_EVENTS`` are what observer hooks are emitted with: a hook's keywords are its event's fields, and
``contract/hooks.py`` says which of them are sanitised or raw. The same types, and a few that exist only while a turn
streams, are what the listener of a turn receives (``TurnEvent``).

A field that is costly to build is ``msgspec.UNSET`` when no subscriber takes it. Frozen means that the fields cannot
be assigned; containers inside them belong to the runtime and must not be changed.
"""

from __future__ import annotations

from functools import cache
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

from msgspec import NODEFAULT, UNSET, Struct, UnsetType

from hermes.contract.response import Record

ToolStatus = Literal["ok", "error", "blocked", "cancelled", "timeout"]


class Event(Struct, frozen=True, kw_only=True):
    """Something that started, ended or is to be decided."""


class _SessionScoped(Event, frozen=True, kw_only=True):
    session_id: str


class _TurnScoped(_SessionScoped, frozen=True, kw_only=True):
    task_id: str
    turn_id: str


# -- sessions ---------------------------------------------------------------------------------------------------


class SessionStarted(_SessionScoped, frozen=True, kw_only=True):
    """A new session starts (``on_session_start``)."""

    model: str
    platform: str


class SessionResumed(_SessionScoped, frozen=True, kw_only=True):
    """A stored session is continued (``on_session_resume``)."""

    model: str
    platform: str


class _SessionBoundary(_SessionScoped, frozen=True, kw_only=True):
    platform: str
    reason: str
    old_session_id: str
    new_session_id: str


class SessionFinalized(_SessionBoundary, frozen=True, kw_only=True):
    """A session identity is closed (``on_session_finalize``)."""


class SessionReset(_SessionBoundary, frozen=True, kw_only=True):
    """A surface moved from one session to a new one (``on_session_reset``)."""


# -- turns ------------------------------------------------------------------------------------------------------


class TurnStarted(_TurnScoped, frozen=True, kw_only=True):
    """A turn begins (``pre_llm_call``). A listener also receives it for a turn that is resumed; the hook does not."""

    user_message: str | list[Any]
    conversation_history: list[dict[str, Any]]
    is_first_turn: bool
    model: str
    platform: str
    sender_id: str = ""
    #: Whether an earlier process left the turn unfinished. Not a hook field.
    resumed: bool = False


class TurnAnswered(_TurnScoped, frozen=True, kw_only=True):
    """A turn has its final answer (``post_llm_call``)."""

    user_message: str | list[Any]
    assistant_response: str
    conversation_history: list[dict[str, Any]]
    finish_reason: str
    model: str
    platform: str


class TurnEnded(_TurnScoped, frozen=True, kw_only=True):
    """A turn is over, whatever its outcome (``on_session_end``)."""

    api_request_id: str
    completed: bool
    interrupted: bool
    reason: str
    finish_reason: str
    model: str
    platform: str


class LoopStopped(_TurnScoped, frozen=True, kw_only=True):
    """The loop of a turn is stopped before the model has ended it (``agent_loop_stopped``)."""

    session_key: str
    platform: str
    reason: str
    invalidation_reason: str


class AnswerTransform(_TurnScoped, frozen=True, kw_only=True):
    """A final answer may be replaced before it is shown (``transform_llm_output``)."""

    response_text: str
    model: str
    platform: str


class AnswerVerification(_TurnScoped, frozen=True, kw_only=True):
    """A turn that changed files is about to end (``pre_verify``)."""

    platform: str
    model: str
    coding: bool
    attempt: int
    final_response: str
    changed_paths: list[str]


# -- model attempts ---------------------------------------------------------------------------------------------


class _AttemptScoped(_TurnScoped, frozen=True, kw_only=True):
    api_request_id: str
    platform: str
    model: str
    provider: str
    base_url: str
    api_mode: str
    api_call_count: int
    started_at: float
    middleware_trace: list[dict[str, str]]
    request: dict[str, Any] | UnsetType = UNSET


class AttemptStarted(_AttemptScoped, frozen=True, kw_only=True):
    """A request is about to be sent to a provider (``pre_api_request``)."""

    user_message: str | list[Any]
    conversation_history: list[dict[str, Any]]
    request_messages: list[dict[str, Any]]
    message_count: int
    tools: list[dict[str, Any]]
    tool_count: int
    approx_input_tokens: int
    request_char_count: int
    max_tokens: int | None


class AttemptAnswered(_AttemptScoped, frozen=True, kw_only=True):
    """A provider answered (``post_api_request``)."""

    api_duration: float
    ended_at: float
    finish_reason: str
    message_count: int
    response_model: str
    usage: dict[str, int] | None
    cost_usd: float | None
    assistant_content_chars: int
    assistant_tool_call_count: int
    assistant_message: Record | UnsetType = UNSET
    response: dict[str, Any] | UnsetType = UNSET


class AttemptFailed(_AttemptScoped, frozen=True, kw_only=True):
    """An attempt at a provider failed; a retry or another model may follow (``api_request_error``)."""

    api_duration: float
    ended_at: float
    status_code: int | None
    retry_count: int
    max_retries: int
    retryable: bool
    reason: str
    error: dict[str, Any]


class ErrorClassification(Event, frozen=True, kw_only=True):
    """A failed attempt may be classified by a plugin (``transform_api_error_classification``)."""

    provider: str
    model: str
    status_code: int | None
    error_type: str
    error_code: str
    error_message: str
    error_body: dict[str, Any]
    error: object
    approx_tokens: int
    context_length: int
    num_messages: int


class _StreamScoped(_TurnScoped, frozen=True, kw_only=True):
    api_request_id: str
    iteration: int
    model: str
    provider: str
    platform: str
    surface: str


class StreamStarted(_StreamScoped, frozen=True, kw_only=True):
    """An answer begins to stream (``on_stream_start``)."""


class StreamDelta(_StreamScoped, frozen=True, kw_only=True):
    """The next piece of an answer (``on_stream_delta``)."""

    delta: str
    kind: str


class StreamEnded(_StreamScoped, frozen=True, kw_only=True):
    """An answer that streamed is over, whatever its outcome (``on_stream_end``)."""

    final_text: str
    finished: bool
    error: str | None


class InterimMessage(_StreamScoped, frozen=True, kw_only=True):
    """The model said something beside tool calls (``on_interim_message``)."""

    text: str
    already_streamed: bool


# -- model calls beside the conversation ------------------------------------------------------------------------


class _AuxiliaryScoped(_TurnScoped, frozen=True, kw_only=True):
    aux_task: str
    plugin: str
    purpose: str
    api_request_id: str
    platform: str
    model: str
    provider: str
    base_url: str
    api_mode: str
    api_call_count: int
    retry_count: int
    streaming: bool
    message_count: int
    started_at: float


class AuxiliaryStarted(_AuxiliaryScoped, frozen=True, kw_only=True):
    """A request beside the conversation is about to be sent (``pre_auxiliary_call``)."""

    request_messages: list[dict[str, Any]]
    system_prompt: str
    tool_count: int
    approx_input_tokens: int
    request_char_count: int
    max_tokens: int | None
    request: dict[str, Any] | UnsetType = UNSET


class AuxiliaryEnded(_AuxiliaryScoped, frozen=True, kw_only=True):
    """An attempt beside the conversation is over, whatever its outcome (``post_auxiliary_call``)."""

    api_duration: float
    ended_at: float
    finish_reason: str | None
    response_model: str | None
    usage: dict[str, int] | None
    cost_usd: float | None
    assistant_content_chars: int
    assistant_tool_call_count: int
    error: str | None
    error_type: str | None
    response: dict[str, Any] | UnsetType | None = UNSET


# -- tool calls -------------------------------------------------------------------------------------------------


class _ToolScoped(_TurnScoped, frozen=True, kw_only=True):
    tool_name: str
    args: dict[str, Any]
    api_request_id: str
    tool_call_id: str
    middleware_trace: list[dict[str, str]]


class ToolStarted(_ToolScoped, frozen=True, kw_only=True):
    """A tool call starts. The hook (``pre_tool_call``) fires before its gates, a listener hears of it behind them."""


class ToolEnded(_ToolScoped, frozen=True, kw_only=True):
    """A tool call is over, whatever its outcome (``post_tool_call``)."""

    result: str
    duration_ms: int
    status: ToolStatus
    error_type: str | None
    error_message: str | None


class TerminalOutputTransform(_TurnScoped, frozen=True, kw_only=True):
    """The output of a command may be replaced before it is cleaned (``transform_terminal_output``)."""

    command: str
    output: str
    returncode: int
    env_type: str
    tool_call_id: str


# -- approvals --------------------------------------------------------------------------------------------------


class _ApprovalScoped(_TurnScoped, frozen=True, kw_only=True):
    command: str
    description: str
    pattern_key: str
    pattern_keys: list[str]
    session_key: str
    surface: str
    tool_call_id: str
    redelivered: bool | UnsetType = UNSET


class ApprovalRequested(_ApprovalScoped, frozen=True, kw_only=True):
    """A person or a model is about to be asked about a command (``pre_approval_request``)."""


class ApprovalAnswered(_ApprovalScoped, frozen=True, kw_only=True):
    """The answer to that question, or that there was none in time (``post_approval_response``)."""

    choice: str
    decided_by: str | UnsetType = UNSET


# -- child agents -----------------------------------------------------------------------------------------------


class _ChildScoped(_TurnScoped, frozen=True, kw_only=True):
    tool_call_id: str
    parent_session_id: str
    parent_turn_id: str
    parent_subagent_id: str
    child_session_id: str
    child_subagent_id: str
    child_role: str
    child_goal: str
    #: Which task of the delegating call it has, from 0. Not a hook field.
    task_index: int = 0


class ChildStarted(_ChildScoped, frozen=True, kw_only=True):
    """A delegated child agent starts (``subagent_start``). ``session_id`` is the parent's."""


class ChildEnded(_ChildScoped, frozen=True, kw_only=True):
    """A delegated child agent is over, whatever its outcome (``subagent_stop``)."""

    child_summary: str
    child_status: str
    duration_ms: int
    #: The failure as text, when there was one. Not a hook field.
    child_error: str | None = None


# -- gateway ----------------------------------------------------------------------------------------------------


class GatewayMessage(Event, frozen=True, kw_only=True):
    """A message arrived on a chat platform (``pre_gateway_dispatch``)."""

    event: object
    gateway: object
    session_store: object
    sender_state: str = "known"
    pairing: bool = False


# -- commands ---------------------------------------------------------------------------------------------------


class CommandStarted(_SessionScoped, frozen=True, kw_only=True):
    """A slash command is about to run (``pre_command``)."""

    session_key: str
    platform: str
    surface: str
    command: str
    alias_used: str
    args_raw: str


# -- only while a turn streams ----------------------------------------------------------------------------------


class TextDelta(Struct, frozen=True, gc=False):
    """A piece of the answer."""

    text: str


class ReasoningDelta(Struct, frozen=True, gc=False):
    """A piece of the model's reasoning, which is not part of the answer."""

    text: str


class EndpointSkipped(Struct, frozen=True):
    """A model was not asked at all, because of what it failed with a short time ago."""

    provider: str
    model: str
    error: str


class ModelSwitched(Struct, frozen=True):
    """Another model continues in place of one that failed, or the model of first choice is back."""

    provider: str
    model: str
    #: The one it replaces; empty when the first choice is back.
    from_provider: str
    from_model: str
    #: What was wrong with that one, in a few words.
    reason: str


class ContextCompacted(Struct, frozen=True):
    """The older part of the conversation was condensed, to make room in the model's context window."""

    messages_before: int
    messages_after: int
    tokens_before: int
    tokens_after: int


class ChildActivity(Struct, frozen=True):
    """A child agent starts a tool call of its own. For the display of a running turn; hooks have the call itself."""

    child_session_id: str
    task_index: int
    tool_name: str
    args: dict[str, Any]


class RetryScheduled(Struct, frozen=True):
    """The same model is asked again in ``seconds``. It comes once when the wait begins, and every second after that."""

    provider: str
    model: str
    seconds: float
    #: Which retry it is, and how many there are at most.
    retry: int
    max_retries: int
    is_first: bool = True


class TextWithdrawn(Struct, frozen=True):
    """The text that was shown last came from an attempt that failed; another attempt follows and starts anew."""


class BudgetReached(Struct, frozen=True):
    """A limit of the configuration is reached that only warns; ``text`` says which."""

    text: str


class CheckpointMissing(Struct, frozen=True):
    """Changes to files are made without a checkpoint; ``text`` says why."""

    text: str


#: Everything the listener of a turn may receive.
TurnEvent = (
    TurnStarted
    | TextDelta
    | ReasoningDelta
    | ToolStarted
    | ToolEnded
    | AttemptAnswered
    | AttemptFailed
    | EndpointSkipped
    | ModelSwitched
    | ChildStarted
    | ChildEnded
    | ChildActivity
    | ContextCompacted
    | BudgetReached
    | CheckpointMissing
    | RetryScheduled
    | TextWithdrawn
)

#: Hook -> the event its keywords are made from.
HOOK_EVENTS: dict[str, type[Event]] = {
    "on_session_start": SessionStarted,
    "on_session_resume": SessionResumed,
    "on_session_end": TurnEnded,
    "on_session_finalize": SessionFinalized,
    "on_session_reset": SessionReset,
    "agent_loop_stopped": LoopStopped,
    "pre_llm_call": TurnStarted,
    "post_llm_call": TurnAnswered,
    "transform_llm_output": AnswerTransform,
    "pre_verify": AnswerVerification,
    "pre_api_request": AttemptStarted,
    "post_api_request": AttemptAnswered,
    "api_request_error": AttemptFailed,
    "transform_api_error_classification": ErrorClassification,
    "on_stream_start": StreamStarted,
    "on_stream_delta": StreamDelta,
    "on_stream_end": StreamEnded,
    "on_interim_message": InterimMessage,
    "pre_auxiliary_call": AuxiliaryStarted,
    "post_auxiliary_call": AuxiliaryEnded,
    "pre_tool_call": ToolStarted,
    "post_tool_call": ToolEnded,
    "transform_tool_result": ToolEnded,
    "transform_terminal_output": TerminalOutputTransform,
    "pre_approval_request": ApprovalRequested,
    "post_approval_response": ApprovalAnswered,
    "subagent_start": ChildStarted,
    "subagent_stop": ChildEnded,
    "pre_gateway_dispatch": GatewayMessage,
    "pre_command": CommandStarted,
}

_E = TypeVar("_E", bound=Event)


def event_from(kind: type[_E], fields: dict[str, Any]) -> _E:
    """An event from hook keywords. Fields that are not given are empty; names that are not its own are left out."""
    values: dict[str, Any] = {}
    for name, empty in empty_fields(kind).items():
        value = fields.get(name, empty)
        values[name] = value.copy() if value is empty and isinstance(value, list | dict) else value
    return kind(**values)


@cache
def empty_fields(kind: type[Event]) -> dict[str, Any]:
    """The value of each field that is not given: its default, else the empty value of its type."""
    from msgspec.structs import fields  # only what reads keywords needs it

    return {field.name: _empty(field.type) if field.default is NODEFAULT else field.default for field in fields(kind)}


def _empty(declared: Any) -> Any:
    options = get_args(declared) if get_origin(declared) in (UnionType, Union) else (declared,)
    if type(None) in options:
        return None
    first = options[0]
    return get_args(first)[0] if get_origin(first) is Literal else (get_origin(first) or first)()
