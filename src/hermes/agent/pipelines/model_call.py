"""One step's request to a model, with every attempt: the only way a conversation reaches a provider."""

from __future__ import annotations

import contextlib
import logging
import time
from typing import TYPE_CHECKING, Any, cast

import msgspec
from msgspec import UNSET

from hermes.agent.events import Listener, ignore_events
from hermes.agent.llm.model_runtime import OUTPUT_LIMITS, ModelRuntime
from hermes.agent.pipelines.attempt import Attempt, DigestingWire, MessageTexts, size_of
from hermes.agent.pipelines.error_class import first_failure, reclassify
from hermes.base.errors import Interrupted, ProviderError
from hermes.base.sanitize import Memo, sanitise
from hermes.base.scope import Scope
from hermes.contract.events import (
    AttemptAnswered,
    AttemptFailed,
    AttemptStarted,
    BudgetReached,
    EndpointSkipped,
    InterimMessage,
    ModelSwitched,
    ReasoningDelta,
    RetryScheduled,
    TextDelta,
    TextWithdrawn,
)
from hermes.contract.response import Record, chat_response
from hermes.hooks.observers import Emitter
from hermes.journal.bodies import prepare_struct
from hermes.journal.crash import crash_point
from hermes.journal.records import FailureRecord, PluginDecision, ReplyRecord, StoredCall, StoredReply, decisions_of
from hermes.journal.turns.steps import Message, TurnJournal
from hermes.models.endpoint import Endpoint
from hermes.models.failures import describe
from hermes.models.reply import Completion, Reply, normalise, reply_from, to_response
from hermes.models.retry import Failure, Send, Sleep, retry
from hermes.models.vision import able_to_read
from hermes.models.wires.wire import Delta, ModelRequest

if TYPE_CHECKING:
    from collections.abc import Callable

    from hermes.agent.llm.budgets import CallBudget, Reservation
    from hermes.agent.pipelines.stream_report import StreamReport

log = logging.getLogger("hermes.model")

ToolDefinition = dict[str, Any]

#: The parts of a request that the journal holds elsewhere, or that steer only the client.
_NOT_PARAMETERS = frozenset(("messages", "input", "system", "instructions", "tools", "timeout", "http_client"))


class Answered(msgspec.Struct):
    """A reply and the attempt it came from, as the journal stores them."""

    reply: Reply
    provider: str
    #: The number of the attempt in its turn, or in old records its id.
    attempt: int = 0
    api_request_id: str = ""


prepare_struct(Answered)


class ModelCall(msgspec.Struct):
    """One step: attempts with retries and fallbacks until a reply, journaled as step ``model:n``."""

    runtime: ModelRuntime
    journal: TurnJournal
    scope: Scope
    key: str
    messages: list[Message]
    tools: list[ToolDefinition]
    user_message: Any
    listener: Listener
    #: The parts of the conversation that are sanitised already, so that only new ones cost time.
    memo: Memo
    #: What the turn sent before.
    texts: MessageTexts
    #: What else can be done while the server answers.
    while_waiting: Callable[[], None] | None
    #: False withholds the text while it streams, because a hook may still replace it.
    show_text: bool = True
    #: Whether the surface can show that text was withdrawn, so that an attempt may be repeated after it.
    may_withdraw_text: bool = False
    #: Model calls that the budgets have to leave for a last answer.
    spare_calls: int = 0
    #: Whether this is that last answer, which may be as short as the budgets make it.
    is_last: bool = False
    #: Text of a failed attempt is still shown as if it counted.
    _has_stale_text: bool = False

    def run(self) -> Answered:
        """The reply, recorded but not yet committed. Raises ``ProviderError`` when every attempt failed."""
        runtime = self.runtime
        endpoints = able_to_read(runtime.endpoints, self.messages)
        policy = runtime.source.attempts(endpoints, runtime.max_retries, self.journal.commit_soon)
        return retry(policy, self.scope.interrupt, self._attempt, self._on_wait)

    def _on_wait(self, wait: Sleep, left: float) -> None:
        self.journal.commit_soon()
        if self._has_stale_text:
            self._withdraw()
        if wait.endpoint is not None:
            there, is_first = wait.endpoint, left == wait.seconds
            self.listener(
                RetryScheduled(there.provider, there.model, left, wait.retry, wait.max_retries, is_first=is_first)
            )

    def _withdraw(self) -> None:
        self._has_stale_text = False
        self.listener(TextWithdrawn())

    def _attempt(self, send: Send) -> Answered | Failure:
        endpoint = send.endpoint
        if self._has_stale_text:
            self._withdraw()
        if send.instead_of is not None and send.after is not None:
            if send.number == 1:  # no request was sent there, so no attempt has reported the failure
                self.listener(EndpointSkipped(send.instead_of.provider, send.instead_of.model, str(send.after)))
            self._report_switch(endpoint, send.instead_of, describe(send.after.reason, send.instead_of.model))
        attempt = ConversationAttempt(self, endpoint, retry_count=send.attempt - 1)
        try:
            reply = attempt.run()
        except Exception as raised:
            error = provider_failure(raised)
            if error is None:
                raise
            self._has_stale_text = attempt.text_was_shown and self.may_withdraw_text
            return Failure(error, attempt.text_was_shown, safe_to_repeat=self.may_withdraw_text)
        if send.is_return:
            self._report_switch(endpoint, None, "")
        return Answered(reply, endpoint.provider, attempt.count, attempt.scope.api_request_id)

    def _report_switch(self, endpoint: Endpoint, before: Endpoint | None, reason: str) -> None:
        log.warning(
            "%s continues with %s at %s (%s)", self.key, endpoint.model, endpoint.provider, reason or "it is back"
        )
        old = (before.provider, before.model) if before is not None else ("", "")
        self.listener(ModelSwitched(endpoint.provider, endpoint.model, *old, reason))


class ConversationAttempt(Attempt):
    """An attempt of a conversation: it runs middleware, fires a start and a single end event, and is journaled."""

    def __init__(self, call: ModelCall, endpoint: Endpoint, *, retry_count: int) -> None:
        runtime = call.runtime
        asked = ModelRequest(
            call.messages,
            call.tools or None,
            max_tokens=runtime.max_tokens,
            temperature=runtime.temperature,
            reasoning_effort=runtime.reasoning_effort,
            cache_key=call.scope.session_id,
        )
        budgets, spare = runtime.source.budgets, call.spare_calls
        budget = budgets and budgets.for_call(call.scope, spare_calls=spare, allow_less=call.is_last)
        super().__init__(runtime.source, endpoint, asked, call.scope.interrupt, budget=budget)
        self.call = call
        self.retry_count = retry_count
        self.hooks = runtime.source.hooks
        self.redactor = runtime.source.redactor
        self.count = call.journal.attempts_made + 1
        self.scope = call.scope.child(api_request_id=attempt_id(call.journal.id, self.count))
        self.text_was_shown = False
        self.trace: list[dict[str, str]] = []
        self.decisions: list[PluginDecision] = []
        is_seen = self.hooks.pre_api_request or self.hooks.llm_request or self.hooks.llm_execution
        self._sent = DigestingWire(self.wire, None if is_seen else call.texts)
        #: The request before middleware; the same object when there is none.
        self.original = self.request
        hooks = self.hooks
        is_followed = hooks.on_stream_start or hooks.on_stream_delta or hooks.on_stream_end
        self._stream = None if is_followed is None else self._report_stream()

    def prepare(self) -> None:
        """Run the request middleware."""
        chain = self.hooks.llm_request
        if chain is not None:
            outcome = chain.run(self.request, self._fields(), self._problem)
            self.request, self.original, self.trace = outcome.payload, outcome.original, outcome.trace
            self.decisions += (PluginDecision(name, "llm_request", "changed") for name in outcome.changed_by)

    def _problem(self, request: dict[str, Any]) -> str | None:
        """Why a request that middleware made cannot be sent, or None; a server may still refuse it."""
        name = "input" if "input" in self.request else "messages"
        conversation: object = request.get(name)
        if not conversation or not isinstance(conversation, list | str if name == "input" else list):
            return f"{name} is not a list of messages"
        if isinstance(conversation, list) and not all(
            isinstance(one, dict) for one in cast("list[object]", conversation)
        ):
            return f"one of the {name} is not a dict"
        if not isinstance(request.get("model"), str) or not request["model"]:
            return "model is not text"
        try:
            self.wire.http_request(self.endpoint, request)
        except Exception as error:
            return str(error) or type(error).__name__
        return None

    def reserve(self, budget: CallBudget) -> Reservation:
        """Hold the room, and show a limit that only warns."""
        held = super().reserve(budget)
        if held.warning:
            self.call.listener(BudgetReached(held.warning))
        return held

    def execute(self) -> Reply:
        """Fire the start event and send the request, through the execution middleware if there is any."""
        if self.hooks.pre_api_request is not None:
            self._emit_start(self.hooks.pre_api_request)
        crash_point()
        chain = self.hooks.llm_execution
        if chain is None:
            return reply_from(self.send(self.request))
        context = {**self._fields(), "original_request": self.original, "middleware_trace": self.trace}
        prepared = self.request
        answer = chain.run(prepared, self._send_for_middleware, context, accept=normalise)
        plugins = [callback.plugin for callback in chain.callbacks]
        if not self._sent.sha256:
            self.decisions += decisions_of(chain.kind, plugins, "answered")
        elif self.request is not prepared and self.request != prepared:
            self.decisions += decisions_of(chain.kind, plugins, "changed")
        return normalise(answer)

    def _send_for_middleware(self, request: dict[str, Any]) -> Record:
        """Send what execution middleware passed on, which is then the request that hooks see."""
        self.request = request
        return chat_response(self.send(request))

    def send(self, request: dict[str, Any]) -> Completion:
        """Send the request; what came before it is recorded while the server answers."""
        return self.transport.send(
            self.endpoint,
            self._sent,
            request,
            interrupt=self.interrupt,
            on_delta=self._on_delta,
            on_wait=self._while_waiting,
        )

    def _while_waiting(self) -> None:
        """What costs no time while the server answers: the record of everything before this request, and more."""
        _ = self._sent.sha256
        self.call.journal.commit_soon()
        if self.call.while_waiting is not None:
            self.call.while_waiting()

    def judge(self, error: BaseException) -> None:
        """Ask plugins for the class of the failure."""
        emit = self.hooks.transform_api_error_classification
        if emit is not None:
            plugin = reclassify(self, error, emit, self.redactor)
            if plugin is not None:
                self.decisions.append(PluginDecision(plugin, emit.hook, "changed"))

    def close(self, error: BaseException | None) -> None:
        """Fire the end event and journal the outcome."""
        if self._stream is not None:
            self._stream.end(error)
        if error is not None:
            self._close_failed(error)
        elif self.reply is not None:
            crash_point()
            self._close_answered(self.reply)

    def _on_delta(self, delta: Delta) -> None:
        if self.first_piece_at is None:
            self.first_piece_at = time.time()
        if self._stream is not None:
            self._stream.piece(delta)
        if isinstance(delta, TextDelta):
            if self.call.show_text and self.call.listener is not ignore_events:
                self.text_was_shown = True
                self.call.listener(delta)
        elif isinstance(delta, ReasoningDelta):
            self.call.listener(delta)

    def _report_stream(self) -> StreamReport:
        from hermes.agent.pipelines.stream_report import StreamReport  # few plugins follow a stream

        source = self.call.runtime.source
        with_reasoning = source.config.plugins.stream_reasoning_deltas
        return StreamReport(self.hooks, self.redactor, self._stream_fields(), with_reasoning=with_reasoning)

    def _stream_fields(self) -> dict[str, Any]:
        """The fields that every event about a stream has."""
        return {
            **self.scope.ids("api_request_id", "platform"),
            "iteration": self.count,
            "model": self.endpoint.model,
            "provider": self.endpoint.provider,
            "surface": self.scope.platform,
        }

    # -- events -------------------------------------------------------------------------------------------------

    def _fields(self) -> dict[str, Any]:
        """The fields that every event of an attempt has."""
        return {
            **self.scope.ids("api_request_id", "platform"),
            "model": self.request.get("model") or self.endpoint.model,
            "provider": self.endpoint.provider,
            "base_url": self.endpoint.base_url,
            "api_mode": self.endpoint.api_mode,
            "api_call_count": self.count,
        }

    def _emit_start(self, emit: Emitter[AttemptStarted]) -> None:
        messages: list[Any] = self.request.get("messages") or self.request.get("input") or []
        size = size_of(messages) + size_of(self.request.get("tools"))
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
                max_tokens=next((self.request[name] for name in OUTPUT_LIMITS if self.request.get(name)), None),
                started_at=self.started_at,
                middleware_trace=self.trace,
                request=self._sanitised_request() if emit.wants("request") else UNSET,
            )
        )

    def _close_answered(self, reply: Reply) -> None:
        duration = self.ended_at - self.started_at
        has_observers = self.hooks.post_api_request is not None or self.call.listener is not ignore_events
        answered = self._answered(reply, self.ended_at) if has_observers else None
        if self.hooks.post_api_request is not None and answered is not None:
            # Cancelling the turn may end the wait for an async callback; the reply is journaled all the same.
            with contextlib.suppress(Interrupted):
                self.hooks.post_api_request(answered)
        if not self.call.tools:
            reply.tool_calls = []  # none can run, so the record must not have one that was never closed
        if self.hooks.on_interim_message is not None and reply.tool_calls and reply.content.strip():
            text = self.redactor.mask_known(reply.content)
            said = InterimMessage(**self._stream_fields(), text=text, already_streamed=self.text_was_shown)
            self.hooks.on_interim_message(said)
        self.call.journal.model_call(self.row(self.scope.api_request_id, self.call.key, self.redactor, None))
        stored = _stored(reply)

        def make() -> tuple[ReplyRecord, dict[str, Any]]:
            record = ReplyRecord(
                reply=stored,
                attempt=self.count,
                provider=self.endpoint.provider,
                request_sha256=self._sent.sha256,
                decisions=self.decisions,
            )
            return record, self._parameters()

        self.call.journal.step_later(self.call.key, "model", make)
        model = reply.model or self.endpoint.model
        spent = f"{reply.usage.prompt_tokens} in, {reply.usage.output_tokens} out" if reply.usage else "usage unknown"
        told = (self.call.key, model, reply.finish_reason, duration, spent)
        self.call.journal.log_recorded(log, "%s answered by %s: %s, %.3f s, %s", *told)
        if answered is not None:
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
        known = provider_failure(error)
        reason = known.reason if known else "interrupted" if isinstance(error, Interrupted) else "error"
        failed = self._failed(error, known, reason, self.ended_at)
        if self.hooks.api_request_error is not None:
            with contextlib.suppress(Interrupted):
                self.hooks.api_request_error(failed)
        log.warning("%s failed at %s (%s): %s", self.call.key, self.endpoint.provider, reason, error)
        journal = self.call.journal
        row = self.row(self.scope.api_request_id, self.call.key, self.redactor, error)
        journal.model_call(row)
        partial = getattr(error, "partial", None)
        record = FailureRecord(
            reason=reason,
            error=row.error,
            partial=partial,
            request_sha256=self._sent.sha256,
            decisions=self.decisions,
        )
        journal.event("attempt_failed", self.call.key, record, self._parameters())
        journal.commit_soon()
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

    # -- records ------------------------------------------------------------------------------------------------

    def _parameters(self) -> dict[str, Any]:
        """The parameters of the request, without secrets. Steps mostly have the same ones."""
        rest = {name: value for name, value in self.request.items() if name not in _NOT_PARAMETERS}
        return {"parameters": self.call.memo.repeated(rest, self._sanitised)}

    def _sanitised_request(self) -> dict[str, Any]:
        body = {name: value for name, value in self.request.items() if name not in ("timeout", "http_client")}
        return {"method": "POST", "body": sanitise(body, redactor=self.redactor, memo=self.call.memo)}

    def _sanitised_response(self, reply: Reply, usage: dict[str, int] | None) -> dict[str, Any]:
        calls = [{"id": call.id, "name": call.name, "arguments": call.arguments} for call in reply.tool_calls]
        message = {"role": "assistant", "content": reply.content, "tool_calls": calls}
        return self._sanitised(
            {"model": reply.model, "finish_reason": reply.finish_reason, "assistant_message": message, "usage": usage}
        )

    def _sanitised(self, payload: dict[str, Any]) -> dict[str, Any]:
        return sanitise(payload, redactor=self.redactor)


def attempt_id(turn_id: str, number: int) -> str:
    """The ``api_request_id`` of an attempt."""
    return f"{turn_id}:api:{number}"


def _stored(reply: Reply) -> StoredReply:
    """A reply as the journal stores it: of its usage, what says something."""
    usage: dict[str, Any] = msgspec.to_builtins(reply.usage) or {}
    used = {name: value for name, value in usage.items() if value and (name, value) != ("request_count", 1)}
    return StoredReply(
        content=reply.content,
        reasoning=reply.reasoning,
        tool_calls=[StoredCall(call.id, call.name, call.arguments) for call in reply.tool_calls],
        finish_reason=reply.finish_reason or "stop",
        model=reply.model,
        usage=used or None,
        response_id=reply.response_id,
        provider_state=reply.provider_state or None,
    )


def provider_failure(error: BaseException) -> ProviderError | None:
    """The failure of a provider that an error is, or that execution middleware has translated into it."""
    first = None if not isinstance(error, Exception) else first_failure(error)
    if first is None or first is error:
        return first
    text = f"{type(error).__name__}: {error}"
    status, wait = first.status_code, first.retry_after
    translated = ProviderError(text, reason=first.reason, status_code=status, retry_after=wait)
    translated.retryable, translated.recovery = first.retryable, first.recovery
    translated.__cause__ = error
    return translated
