"""``ctx.llm`` on the host's side: every plugin's model access, over the providers of the conversation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hermes.agent.llm.call import CallParts, PluginCall
from hermes.agent.llm.ledger import PluginLedger
from hermes.agent.llm.question import Question, chat_messages
from hermes.agent.llm.route import Routes
from hermes.agent.llm.source import ModelSource
from hermes.agent.workers import Workers
from hermes.config.fresh import FreshConfig
from hermes.contract.llm import PluginLlmCompleteResult, PluginLlmStructuredResult
from hermes.journal.store import Store
from hermes.models.endpoint import Endpoint
from hermes.plugins.llm.structured import StructuredQuestion
from hermes.scope import new_id

if TYPE_CHECKING:
    from hermes.local.service import LocalService


class PluginModels:
    """Gives plugins access to models, for one host. All calls of a process share the connections and the accounts."""

    def __init__(
        self,
        source: ModelSource,
        store: Store,
        workers: Workers,
        *,
        config: FreshConfig,
        local: LocalService,
        endpoints_of: Callable[[str], Sequence[Endpoint]],
    ) -> None:
        self.ledger = PluginLedger(store, workers)
        routes = Routes(source, endpoints_of)
        self._parts = CallParts(source, config, routes, self.ledger, new_id("run_"))

    def access(self, plugin: str) -> PluginModelAccess:
        """What one plugin calls."""
        return PluginModelAccess(self._parts, plugin)

    def close(self) -> None:
        """Record the calls that are not recorded yet."""
        self.ledger.close()


class PluginModelAccess:
    """The four methods of ``ctx.llm``, for one plugin. The synchronous ones wait in their caller's thread alone."""

    __slots__ = ("_parts", "_plugin")

    def __init__(self, parts: CallParts, plugin: str) -> None:
        self._parts = parts
        self._plugin = plugin

    def __repr__(self) -> str:
        return f"PluginModelAccess(plugin={self._plugin!r})"

    def complete(self, messages: Sequence[Mapping[str, Any]], **options: Any) -> PluginLlmCompleteResult:
        """Answer a conversation in text."""
        with PluginCall(self._parts, self._plugin, "complete", options) as call:
            call.ask(Question(chat_messages(messages)))
            return PluginLlmCompleteResult(**call.result(call.answer()))

    async def acomplete(self, messages: Sequence[Mapping[str, Any]], **options: Any) -> PluginLlmCompleteResult:
        """``complete`` for a running event loop."""
        with PluginCall(self._parts, self._plugin, "complete", options) as call:
            call.ask(Question(chat_messages(messages)))
            return PluginLlmCompleteResult(**call.result(await call.answer_async()))

    def complete_structured(self, **options: Any) -> PluginLlmStructuredResult:
        """Answer instructions and inputs with data."""
        with PluginCall(self._parts, self._plugin, "complete_structured", options) as call:
            wanted = StructuredQuestion.from_options(options)
            call.ask(Question(wanted.messages, wanted.response_format))
            return call.structured_result(call.answer(), wanted)

    async def acomplete_structured(self, **options: Any) -> PluginLlmStructuredResult:
        """``complete_structured`` for a running event loop."""
        with PluginCall(self._parts, self._plugin, "complete_structured", options) as call:
            wanted = StructuredQuestion.from_options(options)
            call.ask(Question(wanted.messages, wanted.response_format))
            return call.structured_result(await call.answer_async(), wanted)
