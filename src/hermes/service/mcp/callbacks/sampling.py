"""Model answers for MCP servers, through the user's providers and within the budget of a plugin, ``mcp:NAME``."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from hermes.agent.llm.plugin_calls import PluginModels
from hermes.base.scope import Scope, current_scope
from hermes.service.mcp.errors import McpError

if TYPE_CHECKING:
    from hermes.agent.runtime import Runtime
    from hermes.base.config.load import FreshConfig
    from hermes.base.config.schema.mcp import McpServerConfig
    from hermes.base.config.schema.sections import Config
    from hermes.contract.llm import PluginLlmCompleteResult

log = logging.getLogger("hermes.mcp")

_MINUTE = 60.0
_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING}


class SamplingModels:
    """Asks models for servers. Thread-safe."""

    def __init__(self, runtime: Runtime, config: FreshConfig) -> None:
        self._models = PluginModels(
            runtime.models,
            runtime.store,
            runtime.workers,
            config=_ServerPermissions(config),  # pyright: ignore[reportArgumentType]
            endpoints_of=runtime.open_sessions.endpoints,
        )
        self._asked: dict[str, deque[float]] = {}

    def ask(
        self,
        server: str,
        entry: McpServerConfig,
        scope: Scope,
        messages: Sequence[Mapping[str, Any]],
        *,
        max_tokens: int,
        temperature: float | None,
        wishes: Sequence[str],
    ) -> PluginLlmCompleteResult:
        """An answer. ``wishes`` are models that the server would like, best first; only allowed ones count."""
        settings = entry.sampling
        self._check_rate(server, settings.max_rpm)
        allowed = {model.lower(): model for model in settings.allowed_models}
        model = next((allowed[wish.lower()] for wish in wishes if wish.lower() in allowed), settings.model)
        token = current_scope.set(scope)
        try:
            answer = self._models.access(f"mcp:{server}").complete(
                list(messages),
                model=model or None,
                max_tokens=min(max_tokens, settings.max_tokens_cap),
                temperature=temperature,
                timeout=settings.timeout,
                purpose="mcp sampling",
            )
        finally:
            current_scope.reset(token)
        log.log(_LEVELS[settings.log_level], "the MCP server %s had an answer of the model %s", server, answer.model)
        return answer

    def _check_rate(self, server: str, most: int) -> None:
        asked, now = self._asked.setdefault(server, deque()), time.monotonic()
        while asked and now - asked[0] > _MINUTE:
            asked.popleft()
        if most and len(asked) >= most:
            raise McpError(f"at most {most} model answers a minute (mcp_servers.{server}.sampling.max_rpm)")
        asked.append(now)

    def close(self) -> None:
        """Record the calls that are not recorded yet."""
        self._models.close()


class _ServerPermissions:
    """The configuration, with the models that the user lets each server use as permissions of a plugin."""

    def __init__(self, config: FreshConfig) -> None:
        self._config = config

    def current(self) -> Config:
        """The configuration now."""
        config = self._config.current()
        entries = dict(config.plugins.entries)
        for name, entry in config.mcp_servers.items():
            sampling, plugin = entry.sampling, f"mcp:{name}"
            own = dict(entries.get(plugin, {}))
            models = [*sampling.allowed_models, *([sampling.model] if sampling.model else [])]
            llm: dict[str, Any] = own.get("llm") or {}
            own["llm"] = {**llm, "allow_model_override": bool(models), "allowed_models": models}
            entries[plugin] = own
        return msgspec.structs.replace(config, plugins=msgspec.structs.replace(config.plugins, entries=entries))
