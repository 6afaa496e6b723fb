"""The context window of a session: how full it is, and the engine that compacts the conversation."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from hermes.agent.context.compressor import Compressor
from hermes.agent.context.tokens import estimate, tools_tokens
from hermes.agent.llm.models import Models
from hermes.agent.llm.side_call import SideModel
from hermes.agent.workers import Workers
from hermes.base.config.schema.sections import CompressionConfig, Config
from hermes.base.errors import PluginError, did_you_mean
from hermes.base.scope import Scope
from hermes.hooks.callback import describe
from hermes.hooks.table import Hooks
from hermes.journal.turns.steps import Message
from hermes.models.costs.price_lookup import known_model
from hermes.models.costs.usage import Usage
from hermes.models.endpoint import Endpoint
from hermes.models.local.endpoint import is_embedded, is_local
from hermes.plugins.registry import PluginSet
from hermes.tools.registry import ToolRegistry

if TYPE_CHECKING:
    from hermes.agent.context.plugin_engine import PluginEngine
    from hermes.agent.context.summary import Ask
    from hermes.agent.memory.memory import Memory
    from hermes.agent.pipelines.model_call import ToolDefinition
    from hermes.base.scope import Interrupt

log = logging.getLogger("hermes.context")

#: The window of a model whose length is not known.
DEFAULT_LENGTH = 128_000
#: From this length of a request on, the server of a model whose window is not known is asked for it.
ASK_FROM_TOKENS = 3_000
#: A refusal of less than this says more about the request than about the window: an image too many, say.
_LEAST_LENGTH = 8_000
#: The auxiliary task that writes summaries, as configured under ``auxiliary``.
TASK = "compression"


class ToldWindows(Protocol):
    """What servers tell about the windows of their models: now, or when a run was recorded."""

    def known(self, endpoint: Endpoint) -> int | None:
        """The window of a model, as far as it was told before."""
        ...

    def find(self, endpoint: Endpoint, interrupt: Interrupt) -> int | None:
        """The window of a model; None when its server does not tell."""
        ...


class Contexts:
    """The context engine of a host, and a context window for each of its sessions."""

    def __init__(
        self,
        config: Config,
        models: Models,
        side: SideModel,
        workers: Workers,
        messages_of: Callable[[str], list[Message]],
    ) -> None:
        self._config = config
        self._models = models
        self._side = side
        self._workers = workers
        #: The messages of an open session, for the tools of an engine.
        self._messages_of = messages_of
        name = config.context.engine.strip()
        #: The plugin engine that the configuration names; empty for the built-in one.
        self.wanted = "" if name == Compressor.name else name
        #: What servers said about the windows of their models; made when the first one is asked.
        self.servers: ToldWindows | None = None
        #: That engine, once it is found.
        self.engine: PluginEngine | None = None

    def choose(self, plugins: PluginSet, tools: ToolRegistry, hooks: Hooks) -> list[str]:
        """Take the engine that the configuration names, with its tools. Returns notices for the user."""
        name = self.wanted
        if not name:
            return []
        offer = plugins.take("context_engine", name)
        if offer is None:
            offered = sorted({Compressor.name, *(entry.name for entry in plugins.waiting("context_engine"))})
            hint = did_you_mean(name, offered, then=f"{Compressor.name!r} is used")
            notice = f"context.engine: there is no context engine {name!r}{hint}"
            log.warning("%s", notice)
            return [notice]
        from hermes.agent.context.plugin_engine import PluginEngine  # few hosts have one

        self.engine = PluginEngine(offer.value, name, offer.plugin, self._workers)
        for tool in self.engine.tools(self._messages_of, hooks.loop):
            try:
                tools.add(tool)
                self.engine.toolsets = [tool.toolset]
            except PluginError as error:
                log.warning("context engine %r: %s", name, error)
        return []

    @property
    def toolsets(self) -> list[str]:
        """The toolset of the engine, which is always offered."""
        return [] if self.engine is None else self.engine.toolsets

    def window(self, session_id: str, platform: str) -> ContextWindow:
        """The window of one conversation."""
        return ContextWindow(self, session_id, platform, self._config.compression, self.engine)

    def length_for(self, endpoint: Endpoint) -> int:
        """How many tokens a model takes: as configured, as its server said, as the price data has it, or the usual."""
        return endpoint.context_length or self.told_by_server(endpoint) or _listed(endpoint) or DEFAULT_LENGTH

    def told_by_server(self, endpoint: Endpoint) -> int | None:
        """The window that the server of a model told earlier."""
        return None if self.servers is None else self.servers.known(endpoint)

    def seen_by(self, endpoint: Endpoint) -> int:
        """How many tokens of a conversation a model sees: the embedded one only what its wire keeps."""
        if is_embedded(endpoint):
            from hermes.models.local.prompt.conversation import MOST_TOKENS  # only that model needs it

            return MOST_TOKENS
        return self.length_for(endpoint)

    def ask_server(self, endpoint: Endpoint, interrupt: Interrupt) -> int | None:
        """The window that a server reports, where nothing else says how long it is. Asked for once."""
        if endpoint.context_length or is_local(endpoint) or _listed(endpoint):
            return None
        if self.servers is None:
            from hermes.models.windows import ServerWindows  # only long conversations with unknown models need it

            self.servers = ServerWindows(self._models.home, self._models.driver.http)
        return self.servers.find(endpoint, interrupt)

    def asker(self, scope: Scope, endpoints: Sequence[Endpoint]) -> tuple[Ask, int]:
        """A function that asks the model for summaries, and how many tokens that model can read at once."""

        def ask(messages: list[Message]) -> str:
            return self._side.ask(TASK, messages, scope=scope, main=endpoints).content

        return ask, self.length_for(self._models.side_job(TASK, endpoints)[0])


class ContextWindow:
    """The context window of one session: what is in it, and when and how it is compacted."""

    def __init__(
        self,
        contexts: Contexts,
        session_id: str,
        platform: str,
        settings: CompressionConfig,
        engine: PluginEngine | None,
    ) -> None:
        #: Whether the conversation is compacted automatically.
        self.is_automatic = settings.enabled
        self._contexts = contexts
        self._session_id = session_id
        self._platform = platform
        self._compressor = Compressor(settings, DEFAULT_LENGTH)
        self._engine = engine
        self._endpoint: Endpoint | None = None
        #: The endpoint whose server was asked for its window.
        self._has_asked_for: Endpoint | None = None
        #: The counted tokens of the last request with its answer, and the message of that answer.
        self._counted = 0
        self._counted_messages = 0
        self._last_counted: Message | None = None
        self._prompt_tokens = 0
        self._compactions = 0

    # -- what is in it ------------------------------------------------------------------------------------------

    def use(self, endpoint: Endpoint) -> None:
        """Set the model that answers from now on."""
        if endpoint == self._endpoint:
            return
        is_new, self._endpoint = self._endpoint is None, endpoint
        length = self._contexts.length_for(endpoint)
        self._compressor.context_length = length
        if self._engine is not None:
            if is_new:
                start = {"model": endpoint.model, "platform": self._platform, "context_length": length}
                self._engine.call("on_session_start", self._session_id, **start)
            self._engine.model_changed(endpoint, length)

    def tokens(self, request: list[Message], tools: list[ToolDefinition]) -> int:
        """How long a request is: as counted for the last answer, with an estimate for what came since."""
        if self._is_counted(request):
            return self._counted + estimate(request[self._counted_messages :])
        return estimate(request) + tools_tokens(tools)

    def answered(self, usage: Usage | None, messages: int, answer: Message, *, is_replay: bool) -> None:
        """Count what a request and its answer took, which are now ``messages`` messages in all."""
        if usage is None or not usage.prompt_tokens:
            return
        self._counted, self._counted_messages, self._last_counted = usage.total_tokens, messages, answer
        self._prompt_tokens = usage.prompt_tokens
        if self._engine is not None and not is_replay:
            counts = {**usage.as_hook_payload(), "completion_tokens": usage.output_tokens}
            self._engine.call("update_from_response", counts)

    def status(self) -> dict[str, Any]:
        """How full it is, with the fields of ``ContextEngine.get_status``."""
        length = self._compressor.context_length
        own = {
            "last_prompt_tokens": self._prompt_tokens,
            "threshold_tokens": self._compressor.threshold_tokens,
            "context_length": length,
            "usage_percent": min(100.0, self._prompt_tokens / length * 100),
            "compression_count": self._compactions,
        }
        return own if self._engine is None else {**own, **self._engine.status()}

    def _is_counted(self, request: list[Message]) -> bool:
        at = self._counted_messages
        return 0 < at <= len(request) and request[at - 1] is self._last_counted

    # -- making room --------------------------------------------------------------------------------------------

    def is_full(self, request: list[Message], tokens: int) -> bool:
        """Whether room is to be made before a request of that length."""
        if not self.is_automatic:
            return False
        if self._engine is not None:
            answer = self._engine.should_compress(request[1:], tokens, is_counted=self._is_counted(request))
            if answer is not None:
                return answer
        return tokens >= self._compressor.threshold_tokens

    def ask(self, interrupt: Interrupt, on_wait: Callable[[], None] | None = None) -> int | None:
        """Ask the server for the window, once. None when it does not say, or was asked before.

        ``on_wait`` is called before the server is asked.
        """
        endpoint = self._endpoint
        if endpoint is None or self._has_asked_for == endpoint or not self.is_automatic:
            return None
        self._has_asked_for = endpoint
        if on_wait is not None:
            on_wait()
        return self._contexts.ask_server(endpoint, interrupt)

    def learn(self, told: int) -> None:
        """Take the window that the server of the model told."""
        endpoint = self._endpoint
        self._has_asked_for = endpoint
        if endpoint is None or told == self._compressor.context_length:
            return
        self._compressor.context_length = told
        if self._engine is not None:
            self._engine.model_changed(endpoint, told)

    def refused(self, tokens: int) -> None:
        """The provider found a request of that length too long: its window is no larger than that."""
        if _LEAST_LENGTH <= tokens < self._compressor.context_length:
            log.warning("the window of the model is smaller than %d tokens", self._compressor.context_length)
            self._compressor.context_length = tokens

    def compact(
        self,
        messages: list[Message],
        tokens: int,
        *,
        scope: Scope,
        endpoints: Sequence[Endpoint],
        task: Message | None = None,
        focus: str = "",
        halvings: int = 0,
        was_refused: bool = False,
        memory: Memory | None = None,
    ) -> list[Message] | None:
        """A shorter conversation, or None when there is none. See ``Compressor.compress`` for what guides it."""
        # An engine that was asked once in this step and did not save enough is not asked again.
        if self._engine is not None and halvings <= 1:
            shorter = self._engine.compress(messages, tokens, focus, scope.interrupt)
            if shorter is not None:
                self._compactions += 1
                return shorter
        ask, reader = self._contexts.asker(scope, endpoints)
        shorter = self._compressor.compress(
            messages,
            tokens,
            focus_topic=focus,
            halvings=halvings,
            task=task,
            notes=_notes(memory, messages),
            ask=ask,
            reader_tokens=min(reader, tokens >> halvings) if was_refused else reader,
        )
        if shorter is messages:
            return None
        self._compactions += 1
        return shorter

    # -- its end ------------------------------------------------------------------------------------------------

    def close(self, messages: list[Message], *, is_replaced: bool) -> None:
        """The conversation is over; ``is_replaced`` when another one takes its place."""
        if self._engine is None or self._endpoint is None:
            return
        self._engine.call("on_session_end", self._session_id, messages)
        if is_replaced:
            self._engine.call("on_session_reset")


def _listed(endpoint: Endpoint) -> int | None:
    known = known_model(endpoint)
    return known.context_window if known is not None else None


def _notes(memory: Memory | None, messages: list[Message]) -> str:
    """What a summary of these messages should not lose: open points, and what the memory wants."""
    from hermes.agent.tools.todo import open_points

    try:
        kept = "" if memory is None else memory.before_compress(messages)
    except Exception as error:  # memory must not stop the compaction
        log.warning("what memory wanted to add to the summary is left out: %s", describe(error))
        kept = ""
    return "\n\n".join(text for text in (open_points(messages), kept) if text)
