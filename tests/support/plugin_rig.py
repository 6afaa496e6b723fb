"""Folders of plugins, and a host's parts to load them into."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from hermes.base.config.schema.sections import PluginsConfig
from hermes.base.sanitize import Redactor
from hermes.hooks.table import Hooks
from hermes.hooks.threads.runner import PluginLimits
from hermes.plugins.loading.loader import load_plugins
from hermes.plugins.registry import PluginSet
from hermes.tools.builtin import builtin_tools
from hermes.tools.registry import ToolRegistry


def giving(value: Any) -> Callable[[dict[str, Any]], Any]:
    """A tool handler that returns ``value``."""

    def handler(args: dict[str, Any]) -> Any:
        return value

    return handler


class Rig:
    """A host's parts without a host: what it takes to load plugins, and what they asked of it."""

    def __init__(self, tmp_path: Path) -> None:
        self.home = tmp_path / "home"
        self.cwd = tmp_path / "project"
        self.bundled = tmp_path / "bundled"
        self.config = PluginsConfig()
        self.hooks = Hooks(PluginLimits(self.config))
        self.tools = ToolRegistry(builtin_tools())
        self.asked: list[Any] = []
        self.redactor = Redactor()

    def write(
        self, path: str, source: str | None = "def register(ctx): pass", manifest: str | None = "", where: str = "user"
    ) -> Path:
        """Put a plugin into one of the folders that are searched."""
        root = {"user": self.home / "plugins", "project": self.cwd / ".hermes/plugins", "bundled": self.bundled}[where]
        folder = root / path
        folder.mkdir(parents=True)
        if manifest is not None:
            (folder / "plugin.yaml").write_text(manifest)
        if source is not None:
            (folder / "__init__.py").write_text(source)
        return folder

    def load(self, *extra: str, enabled: list[str] | None = None, **options: Any) -> PluginSet:
        if enabled is not None:
            self.config.enabled = enabled
        return load_plugins(
            home=self.home,
            plugins_config=self.config,
            tools=self.tools,
            hooks=self.hooks,
            services=self,
            extra=extra,
            cwd=self.cwd,
            **options,
        )

    # What plugins may ask of a host.

    @property
    def profile_name(self) -> str:
        return "work"

    @property
    def http(self) -> Any:
        raise AssertionError("no plugin here sends requests")

    def dispatch_tool(self, name: str, args: dict[str, Any], **kwargs: Any) -> str:
        self.asked.append((name, args, kwargs))
        return "dispatched"

    def inject_message(self, content: str, role: str) -> bool:
        self.asked.append((role, content))
        return content != "nobody listens"

    def llm(self, plugin_id: str) -> Any:
        return ["model access of", plugin_id]
