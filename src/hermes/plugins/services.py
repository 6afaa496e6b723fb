"""The host as plugins see it: the services they may ask for, and the registries they join."""

from __future__ import annotations

from collections.abc import MutableMapping
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

if TYPE_CHECKING:
    from hermes.base.sanitize import Redactor
    from hermes.hooks.table import Hooks
    from hermes.plugins.http import PluginHttp
    from hermes.plugins.llm.access import ModelAccess
    from hermes.plugins.registry import PluginSet
    from hermes.tools.registry import ToolRegistry


class HostServices(Protocol):
    """The services of a host that ``ctx`` passes on."""

    @property
    def profile_name(self) -> str:
        """The active profile: ``default``, a profile's id, or ``custom``."""
        ...

    @property
    def http(self) -> PluginHttp:
        """HTTP requests over the host's client."""
        ...

    @property
    def redactor(self) -> Redactor:
        """Masks every secret of the home."""
        ...

    def dispatch_tool(self, name: str, args: dict[str, Any], **kwargs: Any) -> str:
        """Run a tool through the same pipeline as the model's own calls and return its result."""
        ...

    def inject_message(self, content: str, role: str) -> bool:
        """Add a message to the running conversation; False when there is none that takes it."""
        ...

    def llm(self, plugin_id: str) -> ModelAccess:
        """The model access of one plugin, subject to what the config grants it."""
        ...


class PluginHost(Struct, frozen=True, weakref=True):
    """One host for its plugins: what they register with, its services, and what was made for them."""

    tools: ToolRegistry
    hooks: Hooks
    services: HostServices
    plugins: PluginSet
    #: Plugins' settings by key, from ``plugins.entries``.
    entries: MutableMapping[str, Any]
    #: Names of slash commands that plugins may not take.
    reserved_commands: frozenset[str] = frozenset()
    #: The ``ctx`` of every plugin that was loaded or tried, by key. Its class stands above this one.
    contexts: dict[str, Any] = {}
    #: The compatibility modules that plugins have imported, by name.
    compat_modules: dict[str, ModuleType] = {}
    #: The top-level packages that its plugins have imported.
    followed: set[str] = set()
