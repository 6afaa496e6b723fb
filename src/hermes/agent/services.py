"""What plugins may ask of the host: the implementation of ``HostServices`` behind ``ctx``."""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hermes.agent.dispatch import dispatch_tool
from hermes.scope import Scope, current_scope

if TYPE_CHECKING:
    from hermes.agent.llm.access import PluginModels
    from hermes.agent.runtime import Runtime
    from hermes.config.fresh import FreshConfig
    from hermes.local.service import LocalService
    from hermes.plugins.llm.access import ModelAccess

log = logging.getLogger("hermes.host")


class Services:
    """The services of one host to its plugins. Thread-safe."""

    def __init__(
        self, runtime: Runtime, *, cwd: Path, platform: str, fresh_config: FreshConfig, local: LocalService
    ) -> None:
        #: What the modules with upstream's names read.
        self.home, self.config, self.redactor = runtime.home, runtime.config, runtime.redactor
        self._runtime = runtime
        self._cwd = cwd
        self._platform = platform
        self._fresh_config = fresh_config
        self._local = local
        self._models: PluginModels | None = None
        self._models_lock = threading.Lock()

    @property
    def profile_name(self) -> str:
        """The active profile: ``default``, or ``custom`` for another home."""
        return "default" if self.home == Path("~/.hermes").expanduser() else "custom"

    def dispatch_tool(self, name: str, args: dict[str, Any], **_kwargs: Any) -> str:
        """Run a tool in the session of the caller, through the same pipeline as the model's own calls."""
        scope = current_scope.get() or Scope(platform=self._platform)
        session = self._runtime.open_sessions.get(scope.session_id)
        cwd, journal = (self._cwd, None) if session is None else (session.cwd, session.journal)
        return dispatch_tool(self._runtime, scope, cwd, name, args, journal)

    def inject_message(self, content: str, role: str) -> bool:
        """Add a message to the running turn of the caller's session; False when there is none."""
        text = content if role == "user" else f"[{role}] {content}"
        scope = current_scope.get()
        # Without a scope a child session cannot be meant: only its parent talks to it.
        candidates = [
            session
            for session in self._runtime.open_sessions
            if (session.level == 0 if scope is None else session.id == scope.session_id)
        ]
        if len(candidates) == 1 and candidates[0].steer(text):
            return True
        log.warning("a plugin's message was not taken: no running conversation that it could belong to")
        return False

    def llm(self, plugin_id: str) -> ModelAccess:
        """The model access of one plugin."""
        if self._models is None:
            from hermes.agent.llm.access import PluginModels  # most runs have no plugin that asks

            runtime = self._runtime
            with self._models_lock:
                self._models = self._models or PluginModels(
                    *(runtime.models, runtime.store, runtime.workers),
                    config=self._fresh_config,
                    local=self._local,
                    endpoints_of=runtime.open_sessions.endpoints,
                )
        return self._models.access(plugin_id)

    def close(self) -> None:
        """Close what the plugins used of it."""
        if self._models is not None:
            self._models.close()
