"""One step's request to a model, with every attempt: the only way a conversation reaches a provider."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict, cast

import msgspec
from msgspec import UNSET

from hermes.agent.events import Listener, ignore_events
from hermes.contract.events import (
    AttemptAnswered,
    AttemptFailed,
    AttemptStarted,
    EndpointSkipped,
    ModelSwitched,
    ReasoningDelta,
    TextDelta,
)
from hermes.contract.response import Record
from hermes.errors import Interrupted, ProviderError
from hermes.hooks.table import Hooks
from hermes.journal.crash import crash_point
from hermes.journal.turns import Message, ModelCallRow, TurnJournal
from hermes.models.billing import priced
from hermes.models.endpoint import Endpoint
from hermes.models.failures import in_words
from hermes.models.health import Health
from hermes.models.reply import Reply, normalise, to_response
from hermes.models.retry import Failure, KeyRing, Send, attempts, retry
from hermes.models.vision import able_to_read
from hermes.models.wires.wire import Delta, ModelRequest, Transport, Wire
from hermes.sanitize import Memo, Redactor, sanitise
from hermes.scope import Scope

log = logging.getLogger("hermes.model")

ToolDefinition = dict[str, Any]

#: What the limit of an answer is called on one wire or another.
_LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens")


@dataclass(frozen=True, slots=True)
class ModelRuntime:
    """What model calls need from the host: where models are, how to reach them, how patient to be."""

    hooks: Hooks
    transport: Transport
    wire_for: Callable[[Endpoint], Wire]
    endpoints: Sequence[Endpoint]
    redactor: Redactor
    max_retries: int = 3
    max_tokens: int | None = None
    temperature: float | None = None
    #: How hard the model should think, as its provider names it; empty leaves it to the model.
    reasoning_effort: str = ""
    #: Where keys come from when a provider may have several.
    keys: KeyRing | None = None
    #: Which endpoints failed lately.
    health: Health | None = None

    @property
    def model(self) -> str:
        """The model of the first choice."""
        return self.endpoints[0].model


class Answered(msgspec.Struct):
    """A reply and the attempt that gave it, as the journal keeps them."""

    reply: Reply
    api_request_id: str
    provider: str


@dataclass(slots=True)
class ModelCall:
    """One step: attempts with retries and fallbacks until a reply, journaled as step ``model:n``."""

    runtime: ModelRuntime
    journal: TurnJournal
    scope: Scope
    key: str
    messages: list[Message]
    tools: list[ToolDefinition]
    user_message: Any
    listener: Listener
    #: What sanitising the conversation has cost already, so that only what is new costs again.
    memo: Memo
    #: False withholds the text while it streams, because a hook may still replace it.
    show_text: bool = True

    def run(self) -> Answered:
        """The reply, recorded but not yet committed. Raises ``ProviderError`` when every attempt failed."""
        runtime = self.runtime
        endpoints = able_to_read(runtime.endpoints, self.messages)
        policy = attempts(endpoints, runtime.max_retries, keys=runtime.keys, health=runtime.health)
        return retry(policy, self.scope.interrupt, self._attempt)

    def _attempt(self, send: Send) -> Answered | Failure:
        endpoint = send.endpoint
        if send.instead_of is not None and send.after is not None:
            if send.number == 1:  # that one was not even asked, so nothing else has said what is wrong
                self.listener(EndpointSkipped(send.instead_of.provider, send.instead_of.model, str(send.after)))
            self._tell_of_switch(endpoint, send.instead_of, in_words(send.after.reason, send.instead_of.model))
        attempt = Attempt(self, endpoint, retry_count=send.attempt - 1)
        try:
            reply = attempt.run()
        except ProviderError as error:
            return Failure(error, text_was_shown=attempt.text_was_shown)
        if send.is_return:
            self._tell_of_switch(endpoint, None, "")
        return Answered(reply, attempt.scope.api_request_id, endpoint.provider)

    def _tell_of_switch(self, endpoint: Endpoint, before: Endpoint | None, reason: str) -> None:
        log.warning(
            "%s goes on with %s at %s (%s)", self.key, endpoint.model, endpoint.provider, reason or "it is back"
        )
        old = (before.provider, before.model) if before is not None else ("", "")
        self.listener(ModelSwitched(endpoint.provider, endpoint.model, *old, reason))


class _AttemptFields(TypedDict):
    """The fields that every event of an attempt has."""

    session_id: str
    task_id: str
    turn_id: str
    api_request_id: str
    platform: str
    model: str
    provider: str
    base_url: str
    api_mode: str
    api_call_count: int


class Attempt:
    """One request to one endpoint, from its start event to its single end event."""

    def __init__(self, call: ModelCall, endpoint: Endpoint, *, retry_count: int) -> None:
        self.call = call
        self.endpoint = endpoint
        self.retry_count = retry_count
        self.hooks = call.runtime.hooks
        self.wire = call.runtime.wire_for(endpoint)
        self.count = call.journal.attempts_made + 1
        self.scope = call.scope.child(api_request_id=f"{call.journal.id}:api:{self.count}")
        self.text_was_shown = False
        self.trace: list[dict[str, str]] = []
        self.request: dict[str, Any] = {}
        self.started_at = 0.0
        self.first_piece_at: float | None = None

    def run(self) -> Reply:
        original = self._build_request()
        self.started_at = time.time()
        try:
            self._emit_start()
            crash_point()
            reply = priced(normalise(self._execute(original)), self.endpoint, self.started_at)
        except BaseException as error:
            self._close_failed(error)
            raise
        crash_point()
        self._close_answered(reply)
        return reply

    # -- the request --------------------------------------------------------------------------------------------

    def _build_request(self) -> dict[str, Any]:
        """Build the effective request; returns the original one, which is the same object when nobody rewrote it."""
        runtime = self.call.runtime
        asked = ModelRequest(
            self.call.messages,
            self.call.tools or None,
            max_tokens=runtime.max_tokens,
            temperature=runtime.temperature,
            reasoning_effort=runtime.reasoning_effort,
        )
        original = self.wire.kwargs(self.endpoint, asked)
        chain = self.hooks.llm_request
        if chain is None:
            self.request = original
            return original
        outcome = chain.run(original, dict[str, Any](self._fields()))
        self.request, self.trace = outcome.payload, outcome.trace
        return outcome.original

    def _execute(self, original: dict[str, Any]) -> object:
        chain = self.hooks.llm_execution
        if chain is None:
            return self._send(self.request)
        context = dict[str, Any](self._fields())
        context["original_request"] = original
        context["middleware_trace"] = self.trace
        return chain.run(self.request, self._send, context)

    def _send(self, request: dict[str, Any]) -> Record:
        self.request = request  # what execution middleware passed on is what was really asked
        return self.call.runtime.transport.send(
            self.endpoint, self.wire, request, interrupt=self.scope.interrupt, on_delta=self._on_delta
        )

    def _on_delta(self, delta: Delta) -> None:
        if self.first_piece_at is None:
            self.first_piece_at = time.time()
        if isinstance(delta, TextDelta):
            if self.call.show_text:
                self.text_was_shown = self.call.listener is not ignore_events
                self.call.listener(delta)
        elif isinstance(delta, ReasoningDelta):
            self.call.listener(delta)

    # -- events -------------------------------------------------------------------------------------------------

    def _fields(self) -> _AttemptFields:
        scope = self.scope
        return {
            "session_id": scope.session_id,
            "task_id": scope.task_id,
            "turn_id": scope.turn_id,
            "api_request_id": scope.api_request_id,
            "platform": scope.platform,
            "model": self.request.get("model") or self.endpoint.model,
            "provider": self.endpoint.provider,
            "base_url": self.endpoint.base_url,
            "api_mode": self.endpoint.api_mode,
            "api_call_count": self.count,
        }

    def _emit_start(self) -> None:
        emit = self.hooks.pre_api_request
        if emit is None:
            return
        messages: list[Any] = self.request.get("messages") or self.request.get("input") or []
        size = _size(messages) + _size(self.request.get("tools"))
        emit(
            AttemptStarted(
                **self._fields(),
                user_message=self.call.user_message,
                conversation_history=self.call.messages,
                request_messages=messages,
                message_count=len(messages),
                tools=self.call.tools,
                tool_count=len(self.request.get("tools") or ()),
                approx_input_tokens=size // 4,
                request_char_count=size,
                max_tokens=next((self.request[name] for name in _LIMITS if self.request.get(name)), None),
                started_at=self.started_at,
                middleware_trace=self.trace,
                request=self._sanitised_request() if emit.wants("request") else UNSET,
            )
        )

    def _close_answered(self, reply: Reply) -> None:
        ended_at = time.time()
        duration = ended_at - self.started_at
        # Cancelling the turn may end the wait for an async callback; the reply is there and stays on record.
        answered = self._answered(reply, ended_at)
        if self.hooks.post_api_request is not None:
            with contextlib.suppress(Interrupted):
                self.hooks.post_api_request(answered)
        self._journal_answer(reply, duration)
        model = reply.model or self.endpoint.model
        spent = f"{reply.usage.prompt_tokens} in, {reply.usage.output_tokens} out" if reply.usage else "usage not told"
        log.info("%s answered by %s: %s, %.3f s, %s", self.call.key, model, reply.finish_reason, duration, spent)
        self.call.listener(answered)

    def _answered(self, reply: Reply, ended_at: float) -> AttemptAnswered:
        emit = self.hooks.post_api_request
        usage = reply.usage.as_hook_payload() if reply.usage else None
        return AttemptAnswered(
            **self._fields(),
            api_duration=ended_at - self.started_at,
            started_at=self.started_at,
            ended_at=ended_at,
            finish_reason=reply.finish_reason,
            message_count=len(self.call.messages),
            response_model=reply.model or self.endpoint.model,
            response=self._sanitised_response(reply, usage) if emit and emit.wants("response") else UNSET,
            usage=usage,
            cost_usd=reply.usage.cost_usd if reply.usage else None,
            assistant_message=(
                to_response(reply).choices[0].message if emit and emit.wants("assistant_message") else UNSET
            ),
            assistant_content_chars=len(reply.content),
            assistant_tool_call_count=len(reply.tool_calls),
            middleware_trace=self.trace,
            request=self._sanitised_request() if emit and emit.wants("request") else UNSET,
        )

    def _close_failed(self, error: BaseException) -> None:
        ended_at = time.time()
        known = error if isinstance(error, ProviderError) else None
        reason = known.reason if known else "interrupted" if isinstance(error, Interrupted) else "error"
        failed = self._failed(error, known, reason, ended_at)
        if self.hooks.api_request_error is not None:
            with contextlib.suppress(Interrupted):
                self.hooks.api_request_error(failed)
        log.warning("%s failed at %s (%s): %s", self.call.key, self.endpoint.provider, reason, error)
        self._journal_failure(error, reason, ended_at - self.started_at)
        if known is not None:
            self.call.listener(failed)

    def _failed(self, error: BaseException, known: ProviderError | None, reason: str, ended_at: float) -> AttemptFailed:
        emit = self.hooks.api_request_error
        return AttemptFailed(
            **self._fields(),
            api_duration=ended_at - self.started_at,
            started_at=self.started_at,
            ended_at=ended_at,
            status_code=known.status_code if known else None,
            retry_count=self.retry_count,
            max_retries=self.call.runtime.max_retries,
            retryable=bool(known and known.retryable),
            reason=reason,
            error=self._sanitised({"type": type(error).__name__, "message": str(error)}),
            middleware_trace=self.trace,
            request=self._sanitised_request() if emit and emit.wants("request") else UNSET,
        )

    def _sanitised_request(self) -> dict[str, Any]:
        body = {name: value for name, value in self.request.items() if name not in ("timeout", "http_client")}
        redactor = self.call.runtime.redactor
        return {"method": "POST", "body": sanitise(body, redactor=redactor, memo=self.call.memo)}

    def _sanitised_response(self, reply: Reply, usage: dict[str, int] | None) -> dict[str, Any]:
        calls = [{"id": call.id, "name": call.name, "arguments": call.arguments} for call in reply.tool_calls]
        message = {"role": "assistant", "content": reply.content, "tool_calls": calls}
        return self._sanitised(
            {"model": reply.model, "finish_reason": reply.finish_reason, "assistant_message": message, "usage": usage}
        )

    def _sanitised(self, payload: dict[str, Any]) -> dict[str, Any]:
        return sanitise(payload, redactor=self.call.runtime.redactor)

    # -- the journal --------------------------------------------------------------------------------------------

    def _journal_answer(self, reply: Reply, duration: float) -> None:
        journal = self.call.journal
        usage = reply.usage
        journal.model_call(
            ModelCallRow(
                api_request_id=self.scope.api_request_id,
                key=self.call.key,
                provider=self.endpoint.provider,
                model=reply.model or self.endpoint.model,
                status="ok",
                started_at=self.started_at,
                duration=duration,
                finish_reason=reply.finish_reason,
                first_token=self.first_piece_at - self.started_at if self.first_piece_at else None,
                **(usage.as_columns() if usage else {}),
            )
        )
        body = Answered(reply, self.scope.api_request_id, self.endpoint.provider)
        journal.step(self.call.key, "done", "model", body)

    def _journal_failure(self, error: BaseException, reason: str, duration: float) -> None:
        journal = self.call.journal
        # A server may echo what it was sent.
        text = self.call.runtime.redactor.redact(f"{type(error).__name__}: {error}")
        journal.model_call(
            ModelCallRow(
                api_request_id=self.scope.api_request_id,
                key=self.call.key,
                provider=self.endpoint.provider,
                model=self.endpoint.model,
                status="interrupted" if isinstance(error, Interrupted) else "error",
                started_at=self.started_at,
                duration=duration,
                error=text,
            )
        )
        partial = getattr(error, "partial", None)
        journal.event("attempt_failed", self.call.key, {"reason": reason, "error": text, "partial": partial})
        journal.commit()


def _size(value: Any) -> int:
    """About how many characters part of a request has, without encoding it."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return sum(len(str(name)) + _size(item) + 6 for name, item in cast("dict[str, Any]", value).items())
    if isinstance(value, list):
        return sum(_size(item) + 2 for item in cast("list[Any]", value))
    return 4
