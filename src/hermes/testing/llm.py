"""Stand-ins for ``ctx.llm``: one that answers from a script, and one that records what a plugin asks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from hermes.agent.llm.plugin_options import PluginCallOptions, chat_messages
from hermes.contract.llm import (
    PluginLlmCompleteResult,
    PluginLlmStructuredResult,
    PluginLlmTrustError,
    PluginLlmUsage,
)
from hermes.plugins.llm.access import ModelAccess
from hermes.plugins.llm.structured import StructuredQuestion
from hermes.plugins.llm.trust import refusal

Result = PluginLlmCompleteResult | PluginLlmStructuredResult


@dataclass
class LlmCall:
    """One call of a plugin's."""

    #: ``complete``, ``complete_structured``, ``acomplete`` or ``acomplete_structured``.
    method: str
    #: What the plugin gave, without what it left open.
    options: dict[str, Any]
    #: The conversation of ``complete`` and ``acomplete``.
    messages: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    result: Result | None = None
    error: BaseException | None = None

    def __enter__(self) -> LlmCall:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        self.error = error


#: Text, data that is answered as JSON, an exception that is raised, or a function from the call to one of these.
Answer = str | Mapping[str, Any] | BaseException | Callable[[LlmCall], Any]


class _Calls:
    """The calls so far, in order."""

    def __init__(self) -> None:
        self.calls: list[LlmCall] = []

    def _begin(self, method: str, options: dict[str, Any], messages: Iterable[Mapping[str, Any]] = ()) -> LlmCall:
        given = {name: value for name, value in options.items() if value is not None and value is not False}
        call = LlmCall(method, given, [dict(message) for message in messages])
        self.calls.append(call)
        return call


class RecordingLlm(_Calls):
    """Passes calls on to another model access (a fake, or ``host.services.llm("my-plugin")``) and keeps them."""

    def __init__(self, access: ModelAccess) -> None:
        super().__init__()
        self._access = access

    def complete(self, messages: Sequence[Mapping[str, Any]], **options: Any) -> PluginLlmCompleteResult:
        """Answer a conversation in text."""
        with self._begin("complete", options, messages) as call:
            call.result = result = self._access.complete(messages, **options)
            return result

    async def acomplete(self, messages: Sequence[Mapping[str, Any]], **options: Any) -> PluginLlmCompleteResult:
        """``complete`` for a running event loop."""
        with self._begin("acomplete", options, messages) as call:
            call.result = result = await self._access.acomplete(messages, **options)
            return result

    def complete_structured(self, **options: Any) -> PluginLlmStructuredResult:
        """Answer instructions and inputs with data."""
        with self._begin("complete_structured", options) as call:
            call.result = result = self._access.complete_structured(**options)
            return result

    async def acomplete_structured(self, **options: Any) -> PluginLlmStructuredResult:
        """``complete_structured`` for a running event loop."""
        with self._begin("acomplete_structured", options) as call:
            call.result = result = await self._access.acomplete_structured(**options)
            return result


class FakeLlm(_Calls):
    """A model that answers from a script, without a network, and keeps what it was asked.

    ``answers`` is one answer for every call, or a list of them that is used in order. What the real one checks is
    checked here too: the arguments, the JSON schema, and what ``settings`` (``plugins.entries.<plugin>.llm``) allow.
    """

    def __init__(
        self,
        answers: Answer | list[Answer] = "",
        *,
        settings: Mapping[str, Any] | None = None,
        plugin_id: str = "plugin",
        provider: str = "fake",
        model: str = "fake-model",
    ) -> None:
        super().__init__()
        self._answers: Answer | None = None if isinstance(answers, list) else answers
        self._script: list[Answer] = answers if isinstance(answers, list) else []
        self._used = 0
        self._plugin_id = plugin_id
        self._entries = {plugin_id: {"llm": dict(settings or {})}}
        self._provider = provider
        self._model = model

    def complete(self, messages: Sequence[Mapping[str, Any]], **options: Any) -> PluginLlmCompleteResult:
        """Answer a conversation in text."""
        return self._complete("complete", messages, options)

    async def acomplete(self, messages: Sequence[Mapping[str, Any]], **options: Any) -> PluginLlmCompleteResult:
        """``complete`` for a running event loop."""
        return self._complete("acomplete", messages, options)

    def complete_structured(self, **options: Any) -> PluginLlmStructuredResult:
        """Answer instructions and inputs with data."""
        return self._complete_structured("complete_structured", options)

    async def acomplete_structured(self, **options: Any) -> PluginLlmStructuredResult:
        """``complete_structured`` for a running event loop."""
        return self._complete_structured("acomplete_structured", options)

    def _complete(self, method: str, messages: object, options: dict[str, Any]) -> PluginLlmCompleteResult:
        with self._begin(method, options, chat_messages(messages)) as call:
            call.result = result = PluginLlmCompleteResult(**self._fields(call, options))
            return result

    def _complete_structured(self, method: str, options: dict[str, Any]) -> PluginLlmStructuredResult:
        with self._begin(method, options) as call:
            question = StructuredQuestion.from_options(options)
            call.messages = question.messages
            fields = self._fields(call, options)
            fields["audit"]["schema_name"] = options.get("schema_name") or ""
            parsed, content_type = question.read(fields["text"])
            call.result = result = PluginLlmStructuredResult(**fields, parsed=parsed, content_type=content_type)
            return result

    def _fields(self, call: LlmCall, given: dict[str, Any]) -> dict[str, Any]:
        options = PluginCallOptions.read(given)
        refused = refusal(self._plugin_id, self._entries, **options.choices)
        if refused is not None:
            raise PluginLlmTrustError(refused)
        text = _as_text(self._next(call), call)
        words = sum(len(str(message.get("content")).split()) for message in call.messages)
        usage = PluginLlmUsage(words, len(text.split()), words + len(text.split()))
        return {
            "text": text,
            "provider": options.provider or self._provider,
            "model": options.model or self._model,
            "agent_id": options.agent_id or "default",
            "usage": usage,
            "audit": {"plugin_id": self._plugin_id, "purpose": options.purpose, "profile": options.profile},
        }

    def _next(self, call: LlmCall) -> object:
        if self._answers is not None:
            return self._answers
        if self._used == len(self._script):
            raise AssertionError(f"the script has {self._used} answers, and the plugin asks once more: {call}")
        self._used += 1
        return self._script[self._used - 1]


def _as_text(answer: object, call: LlmCall) -> str:
    if callable(answer):
        answer = answer(call)
    if isinstance(answer, BaseException):
        raise answer
    return answer if isinstance(answer, str) else msgspec.json.encode(answer).decode()
