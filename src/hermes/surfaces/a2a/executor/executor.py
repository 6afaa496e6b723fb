"""A Hermes model as an A2A agent: one message in, one model request, one message out."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import a2a.types
import a2a.utils
import msgspec
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue

from hermes.base.version import __version__
from hermes.contract.response import to_plain
from hermes.models.reply import text_of
from hermes.models.wires.chat.thinking import ThinkSplitter
from hermes.surfaces.a2a.executor.heartbeat import Heartbeat, busy
from hermes.surfaces.a2a.executor.openai_client import OpenAIClient

if TYPE_CHECKING:
    from a2a.types import Message, TaskStatusUpdateEvent

log = logging.getLogger("hermes.a2a")

#: Names of models that reason on request. Hermes 3 does not, and must not be asked to.
_HERMES4_PATTERNS = ("hermes-4", "hermes4")

_VALID_RESPONSE_FORMAT_TYPES = frozenset({"json_schema", "json_object", "text"})

#: How long a cancel waits for its request to end.
_STOP_SECONDS = 1.0

_OPEN = "<think>"
_CLOSE = "</think>"
_PREVIEW_CHARS = 512


def _reasoning_supported(model: str) -> bool:
    """Whether this is a Hermes 4 model, at any provider."""
    name = model.lower()
    return any(pattern in name for pattern in _HERMES4_PATTERNS)


def _validate_response_format(rf: object) -> str | None:
    """The first problem of a ``response_format``; None when it can be sent."""
    if not isinstance(rf, dict):
        return f"must be a dict, got {type(rf).__name__}"
    fields = cast("dict[str, Any]", rf)
    kind = fields.get("type")
    if not isinstance(kind, str) or kind not in _VALID_RESPONSE_FORMAT_TYPES:
        return f"type must be one of {sorted(_VALID_RESPONSE_FORMAT_TYPES)!r}, got {kind!r}"
    if kind != "json_schema":
        return None
    described = fields.get("json_schema")
    if not isinstance(described, dict):
        return "json_schema must be a dict when type='json_schema'"
    description = cast("dict[str, Any]", described)
    if not isinstance(description.get("name"), str):
        return "json_schema.name must be a string"
    if not isinstance(description.get("schema"), dict | None):
        return "json_schema.schema must be a dict if present"
    return None


@dataclass(frozen=True, slots=True)
class ProviderConfig:
    """The capabilities of a model, known by its name."""

    model: str
    reasoning_supported: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "reasoning_supported", _reasoning_supported(self.model))


class HermesA2AExecutor(AgentExecutor):
    """Answers each message with one request to an OpenAI-compatible server; close it when done.

    ``system_blocks`` (persona, tools, reasoning policy) are sent as one system message each, and then
    ``system_prompt`` is not used. ``tools`` and ``response_format`` are sent as they are; the calls a model makes
    are the reply, as JSON. The reasoning of a Hermes 4 model is asked for and goes to a span, never into the reply.
    ``_client`` is any object with ``chat.completions.create``; without it, ``base_url`` and ``api_key`` are used,
    else ``OPENAI_BASE_URL`` and ``OPENAI_API_KEY``.
    """

    def __init__(
        self,
        model: str,
        system_prompt: str | None = None,
        system_blocks: Sequence[str | None] | None = None,
        base_url: str | None = None,
        api_key: str | None = None,
        heartbeat: Heartbeat | None = None,
        response_format: dict[str, Any] | None = None,
        tools: Sequence[dict[str, Any]] | None = None,
        _client: Any = None,
    ) -> None:
        self.model = model
        self.system_prompt = system_prompt
        self._system_blocks = None if system_blocks is None else list(system_blocks)
        self._heartbeat = heartbeat
        self._response_format = response_format
        self._provider = ProviderConfig(model)
        self._tools = list(tools or ())
        self._own_client = OpenAIClient(base_url=base_url, api_key=api_key) if _client is None else None
        self._client: Any = self._own_client or _client
        #: The running requests, with the ids of their tasks.
        self._running: dict[asyncio.Future[Any], str] = {}

    async def aclose(self) -> None:
        """Close the connections of the executor's own client."""
        if self._own_client is not None:
            await self._own_client.close()

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Answer the message of ``context`` with exactly one message, whatever happens."""
        try:
            reply = await self._reply(context)
        except Exception as error:
            # Only the class leaves: the text of an error may hold a key or data of the provider.
            name = type(error).__name__
            log.error("hermes_executor: API error [model=%s]: %s", self.model, name, exc_info=True)
            reply = f"Agent error: {name}"
        await event_queue.enqueue_event(text_message(reply, context_id=context.context_id))

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Stop the model request of the task, and report the task as canceled."""
        task = context.current_task
        task_id = (task.id if task else context.task_id) or ""
        context_id = (task.context_id if task else context.context_id) or ""
        stopped = [call for call, owner in self._running.items() if owner == task_id]
        for call in stopped:
            call.cancel()
        # Before the wait: once ``execute`` has ended, the SDK closes the queue.
        await event_queue.enqueue_event(canceled_event(task_id, context_id))
        if stopped:
            await asyncio.wait(stopped, timeout=_STOP_SECONDS)

    # -- the request --------------------------------------------------------------------------------------------

    async def _reply(self, context: RequestContext) -> str:
        parts = list(context.message.parts) if context.message else []
        user_input = " ".join(filter(None, map(part_text, parts))).strip()
        if not user_input:
            log.warning("HermesA2AExecutor: no text in message parts: %.500s", parts)
            return "Error: message contained no text content."
        if self._response_format is not None:
            detail = _validate_response_format(self._response_format)
            if detail is not None:
                return f"Error: invalid response_format — {detail}"
        with busy(self._heartbeat, user_input):
            response = await self._ask(user_input, context.task_id or "")
            reply = self._read(response, context)
        return reply.encode("utf-8", "replace").decode()  # a lone surrogate cannot be sent

    def _build_messages(self, user_input: str) -> list[dict[str, Any]]:
        blocks = [self.system_prompt] if self._system_blocks is None else self._system_blocks
        messages = [{"role": "system", "content": block} for block in blocks if block]
        return [*messages, {"role": "user", "content": user_input}]

    async def _ask(self, user_input: str, task_id: str) -> Any:
        kwargs: dict[str, Any] = {
            "model": self.model,
            "messages": self._build_messages(user_input),
            "extra_body": {"reasoning": {"enabled": True}} if self._provider.reasoning_supported else None,
        }
        if self._response_format is not None:
            kwargs["response_format"] = self._response_format
        if self._tools:  # some servers refuse an empty list
            kwargs["tools"] = self._tools
        # As its own asyncio task: a cancel ends the request, not the tasks of the SDK.
        call = asyncio.ensure_future(self._client.chat.completions.create(**kwargs))
        self._running[call] = task_id
        try:
            return await call
        finally:
            del self._running[call]

    # -- the answer ---------------------------------------------------------------------------------------------

    def _read(self, response: Any, context: RequestContext) -> str:
        message = response.choices[0].message
        thoughts, content = split_thinking(
            text_of(message.content), may_lack_opening=self._provider.reasoning_supported
        )
        reasoning = text_of(getattr(message, "reasoning", None)) or thoughts.strip() or None
        details: object = getattr(message, "reasoning_details", None)
        if reasoning or details:
            size, shown = len(reasoning or ""), reasoning or ""
            log.info("hermes_executor: reasoning trace [model=%s len=%d]: %.200s...", self.model, size, shown)
            self._log_reasoning(context, reasoning, details)
        answer = content.strip()
        calls = getattr(message, "tool_calls", None)
        if calls and not answer:
            log.info("hermes_executor: tool_calls response [model=%s n=%d]", self.model, len(calls))
            return msgspec.json.encode([_tool_call(call) for call in calls]).decode()
        return answer or "(no response generated)"

    def _log_reasoning(self, context: RequestContext, reasoning: str | None, reasoning_details: object) -> None:
        """Record the reasoning for operators; failing to do so does not fail the turn."""
        try:
            record_reasoning(
                model=self.model,
                context_id=context.context_id or "",
                reasoning=reasoning,
                details=reasoning_details,
            )
        except Exception:
            log.debug("hermes_executor: the reasoning left no span", exc_info=True)


def _tool_call(call: object) -> dict[str, Any]:
    function = getattr(call, "function", None)
    arguments = _field(function, "arguments", "{}")
    return {
        "id": _field(call, "id", ""),
        "type": _field(call, "type", "function"),
        "function": {
            "name": _field(function, "name", ""),
            # Some servers send the arguments as an object where the format has text.
            "arguments": arguments if isinstance(arguments, str) else msgspec.json.encode(to_plain(arguments)).decode(),
        },
    }


def _field(value: object, name: str, default: str) -> Any:
    found = getattr(value, name, None)
    return default if found is None else found


# -- reasoning --------------------------------------------------------------------------------------------------------


def split_thinking(content: str, *, may_lack_opening: bool) -> tuple[str, str]:
    """Split a text into reasoning and answer.

    With ``may_lack_opening``, the text before a lone closing tag is reasoning too: some chat templates open the block
    themselves, so the opening tag is not in the output of the model.
    """
    if may_lack_opening:
        before, closed, _ = content.partition(_CLOSE)
        if closed and _OPEN not in before:
            content = _OPEN + content
    splitter = ThinkSplitter()
    pieces = splitter.feed(content) + splitter.finish()
    thoughts = [piece for kind, piece in pieces if kind == "reasoning"]
    answer = _take_blocks("".join(piece for kind, piece in pieces if kind == "text"), thoughts)
    return "\n".join(thoughts), answer


def _take_blocks(text: str, thoughts: list[str]) -> str:
    """Move further blocks to the thoughts. A tag that is never closed belongs to the answer."""
    kept: list[str] = []
    before, opened, rest = text.partition(_OPEN)
    while opened and _CLOSE in rest:
        inside, _, text = rest.partition(_CLOSE)
        kept.append(before)
        thoughts.append(inside)
        before, opened, rest = text.partition(_OPEN)
    return "".join([*kept, before, opened, rest])


def record_reasoning(*, model: str, context_id: str, reasoning: str | None, details: object | None) -> None:
    """Record a span ``hermes.reasoning`` with the global OpenTelemetry tracer. Raises when it is not installed."""
    from opentelemetry import trace

    with trace.get_tracer("hermes.a2a", __version__).start_as_current_span("hermes.reasoning") as span:
        span.set_attribute("workspace.id", os.environ.get("WORKSPACE_ID", "unknown"))
        # No task is stored in this mode; the context id connects the turns.
        span.set_attribute("a2a.task_id", context_id)
        span.set_attribute("hermes.model", model)
        span.set_attribute("hermes.reasoning_length", len(reasoning or ""))
        if reasoning:
            span.set_attribute("hermes.reasoning_preview", reasoning[:_PREVIEW_CHARS])
        if details is not None:
            span.set_attribute("hermes.has_reasoning_details", True)


# -- either major version of the A2A SDK (0.3 and 1.x) -----------------------------------------------------------------


def text_message(text: str, *, context_id: str | None = None, task_id: str | None = None) -> Message:
    """A message of the agent with one text part."""
    make: Callable[..., Message] | None = getattr(a2a.utils, "new_agent_text_message", None)
    if make is None:  # 1.x, where the second positional argument is the media type
        from a2a.helpers import new_text_message as make
    return make(text, context_id=context_id, task_id=task_id)


def canceled_event(task_id: str, context_id: str) -> TaskStatusUpdateEvent:
    """The event that ends a task as canceled. Without its ids the SDK refuses it, or reports the task as failed."""
    types: Any = a2a.types
    state = getattr(types.TaskState, "TASK_STATE_CANCELED", None)
    if state is not None:
        status = types.TaskStatus(state=state)
        status.timestamp.GetCurrentTime()
        return types.TaskStatusUpdateEvent(task_id=task_id, context_id=context_id, status=status)
    from datetime import UTC, datetime

    status = types.TaskStatus(state=types.TaskState.canceled, timestamp=datetime.now(UTC).isoformat())
    return types.TaskStatusUpdateEvent(task_id=task_id, context_id=context_id, status=status, final=True)


def part_text(part: object) -> str:
    """The text of a message part, of either version or as plain data; empty when it is not text."""
    if isinstance(part, dict):
        fields = cast("dict[str, Any]", part)
        return _text(fields.get("text")) or (part_text(fields["root"]) if "root" in fields else "")
    return _text(getattr(part, "text", None)) or _text(getattr(getattr(part, "root", None), "text", None))


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
