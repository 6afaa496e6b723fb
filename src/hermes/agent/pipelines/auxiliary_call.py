"""Attempts beside the conversation, such as a summary or a plugin's question: reported as a start and a single end."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from msgspec import UNSET, Struct

from hermes.agent.llm.model_runtime import OUTPUT_LIMITS
from hermes.agent.pipelines.attempt import Attempt, request_content, size_of
from hermes.base.errors import Interrupted
from hermes.base.sanitize import sanitise
from hermes.contract.events import AuxiliaryEnded, AuxiliaryStarted

if TYPE_CHECKING:
    from hermes.agent.llm.budgets import CallBudget
    from hermes.agent.llm.models import Models
    from hermes.base.scope import Interrupt, Scope
    from hermes.models.endpoint import Endpoint
    from hermes.models.reply import Reply
    from hermes.models.wires.wire import ModelRequest

#: A callback of these hooks that asks a model itself would be told of that, for ever.
_is_telling: ContextVar[bool] = ContextVar("hermes_auxiliary_hooks", default=False)


class AuxiliaryCall(Struct, frozen=True):
    """Whose call it is, and which attempt of it."""

    task: str
    scope: Scope
    #: The id of the attempt, in events and in the journal.
    request_id: str
    number: int = 1
    plugin: str = ""
    purpose: str = ""


class AuxiliaryAttempt(Attempt):
    """An attempt that ``pre_auxiliary_call`` and ``post_auxiliary_call`` report. Subclasses record it."""

    def __init__(
        self,
        models: Models,
        endpoint: Endpoint,
        asked: ModelRequest,
        interrupt: Interrupt,
        call: AuxiliaryCall,
        *,
        timeout: float,
        budget: CallBudget | None = None,
    ) -> None:
        super().__init__(models, endpoint, asked, interrupt, timeout=timeout, budget=budget)
        self.call = call
        self.redactor = models.redactor
        self.hooks = models.hooks

    def execute(self) -> Reply:
        """Fire the start event and send the request."""
        if self.hooks.pre_auxiliary_call is not None and not _is_telling.get():
            self._tell_start()
        return super().execute()

    def judge(self, error: BaseException) -> None:
        """Ask plugins for the class of the failure."""
        emit = self.hooks.transform_api_error_classification
        if emit is not None:
            from hermes.agent.pipelines.error_class import reclassify  # few plugins classify failures

            reclassify(self, error, emit, self.redactor)

    def close(self, error: BaseException | None) -> None:
        """Fire the end event."""
        if self.hooks.post_auxiliary_call is not None and not _is_telling.get():
            self._tell_end(error)

    def _tell_start(self) -> None:
        emit, request = self.hooks.pre_auxiliary_call, self.request
        assert emit is not None
        messages = self._messages()
        size = size_of(messages)
        started = AuxiliaryStarted(
            **self._fields(),
            request_messages=messages,
            system_prompt=_system_prompt(request, messages),
            tool_count=len(request.get("tools") or ()),
            approx_input_tokens=size // 4,
            request_char_count=size,
            max_tokens=next((request[name] for name in OUTPUT_LIMITS if request.get(name)), None),
            request=self._sanitised_request() if emit.wants("request") else UNSET,
        )
        with _telling():
            emit(started)

    def _tell_end(self, error: BaseException | None) -> None:
        emit, reply = self.hooks.post_auxiliary_call, self.reply if error is None else None
        assert emit is not None
        usage = reply.usage.as_hook_payload() if reply and reply.usage else None
        ended = AuxiliaryEnded(
            **self._fields(),
            api_duration=self.ended_at - self.started_at,
            ended_at=self.ended_at,
            finish_reason=reply.finish_reason if reply else None,
            response_model=(reply.model or self.endpoint.model) if reply else None,
            usage=usage,
            cost_usd=reply.usage.cost_usd if reply and reply.usage else None,
            assistant_content_chars=len(reply.content) if reply else 0,
            assistant_tool_call_count=len(reply.tool_calls) if reply else 0,
            error=None if error is None else self.redactor.redact(f"{type(error).__name__}: {error}"),
            error_type=None if error is None else type(error).__name__,
            response=self._sanitised_response(reply, usage) if emit.wants("response") else UNSET,
        )
        # Cancelling the turn may end the wait for an async callback; the attempt is recorded all the same.
        with _telling(), contextlib.suppress(Interrupted):
            emit(ended)

    def _fields(self) -> dict[str, Any]:
        """The fields that both events have."""
        call, endpoint = self.call, self.endpoint
        return {
            **call.scope.ids("platform"),
            "aux_task": call.task,
            "plugin": call.plugin,
            "purpose": self.redactor.redact(call.purpose),
            "api_request_id": call.request_id,
            "model": self.request.get("model") or endpoint.model,
            "provider": endpoint.provider,
            "base_url": endpoint.base_url,
            "api_mode": endpoint.api_mode,
            "api_call_count": call.number,
            "retry_count": call.number - 1,
            "streaming": False,
            "message_count": len(self._messages()),
            "started_at": self.started_at,
        }

    def _messages(self) -> list[dict[str, Any]]:
        return self.request.get("messages") or self.request.get("input") or []

    def _sanitised_request(self) -> dict[str, Any]:
        body = sanitise(request_content(self.request), redactor=self.redactor)
        return {"method": "POST", "body": body}

    def _sanitised_response(self, reply: Reply | None, usage: dict[str, int] | None) -> dict[str, Any] | None:
        if reply is None:
            return None
        calls = [{"id": call.id, "name": call.name, "arguments": call.arguments} for call in reply.tool_calls]
        message = {"role": "assistant", "content": reply.content, "tool_calls": calls}
        response = {
            "model": reply.model,
            "finish_reason": reply.finish_reason,
            "assistant_message": message,
            "usage": usage,
        }
        return sanitise(response, redactor=self.redactor)


def _system_prompt(request: dict[str, Any], messages: list[dict[str, Any]]) -> str:
    """The system prompt, wherever the wire has it."""
    first = messages[0] if messages else {}
    places = (request.get("system"), request.get("instructions"), first.get("role") == "system" and first["content"])
    return next((text for text in places if isinstance(text, str)), "")


@contextlib.contextmanager
def _telling() -> Generator[None]:
    token = _is_telling.set(True)
    try:
        yield
    finally:
        _is_telling.reset(token)
