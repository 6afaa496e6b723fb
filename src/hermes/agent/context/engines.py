"""Which engine makes room in conversations that grow too long, and how long they may grow."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from hermes.agent.context.compressor import Compressor
from hermes.agent.context.window import DEFAULT_LENGTH, Window
from hermes.agent.llm.models import Models
from hermes.agent.llm.side_call import SideModel
from hermes.agent.workers import Workers
from hermes.config.sections import Config
from hermes.errors import PluginError
from hermes.hooks.table import Hooks
from hermes.journal.turns import Message
from hermes.models.billing import known_model
from hermes.models.endpoint import Endpoint
from hermes.plugins.registry import PluginSet
from hermes.scope import Scope
from hermes.tools.registry import ToolRegistry

if TYPE_CHECKING:
    from hermes.agent.context.plugin_engine import PluginEngine
    from hermes.agent.context.summary import Ask

log = logging.getLogger("hermes.context")

#: The side job that writes summaries, as configured under ``auxiliary``.
TASK = "compression"


class Contexts:
    """The context engine of a host, and a window for each of its conversations."""

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
        #: The engine that the configuration asks a plugin for; empty for our own.
        self.wanted = "" if name == Compressor.name else name
        #: That engine, once it is found.
        self.engine: PluginEngine | None = None

    def choose(self, plugins: PluginSet, tools: ToolRegistry, hooks: Hooks) -> list[str]:
        """Take the engine that the configuration names, with its tools. Returns what the user should know."""
        name = self.wanted
        if not name:
            return []
        offer = plugins.take("context_engine", name)
        if offer is None:
            offered = sorted({Compressor.name, *(entry.name for entry in plugins.waiting("context_engine"))})
            notice = (
                f"context engine {name!r} (context.engine) was not found, {Compressor.name!r} is used; "
                f"there are: {', '.join(offered)}"
            )
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
        """The toolset that comes with the engine, whichever others are chosen."""
        return [] if self.engine is None else self.engine.toolsets

    def window(self, session_id: str, platform: str) -> Window:
        """The window of one conversation."""
        return Window(self, session_id, platform, self._config.compression, self.engine)

    def length_for(self, endpoint: Endpoint) -> int:
        """How many tokens a model takes: as configured, as the price data has it, or the usual."""
        if endpoint.context_length:
            return endpoint.context_length
        known = known_model(endpoint)
        return (known.context_window if known is not None else None) or DEFAULT_LENGTH

    def asker(self, scope: Scope, endpoints: Sequence[Endpoint]) -> tuple[Ask, int]:
        """What reaches the model that writes summaries, and how much that can read at once."""

        def ask(messages: list[Message]) -> str:
            return self._side.ask(TASK, messages, scope=scope, main=endpoints).content

        return ask, self.length_for(self._models.side_job(TASK, endpoints)[0])
