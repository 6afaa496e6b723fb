"""What plugins may ask of the host that runs them; the host implements it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from hermes.plugins.llm.access import ModelAccess


class HostServices(Protocol):
    """The part of a host that ``ctx`` reaches up to."""

    @property
    def profile_name(self) -> str:
        """The active profile: ``default``, a profile's id, or ``custom``."""
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
