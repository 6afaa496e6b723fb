"""``providers``: how a plugin registers a model provider without ``ctx``, as soon as it is imported."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hermes.errors import PluginError
from hermes.plugins.model_provider import ProviderProfile

if TYPE_CHECKING:
    from hermes.plugins.compat.host import Names
    from hermes.plugins.context import Parts


def names(parts: Parts) -> Names:
    """``providers``."""

    def register_provider(profile: Any) -> None:
        """``ctx.register_model_provider`` of the plugin that is being loaded."""
        loading = [context for context in parts.contexts.values() if context.loading]
        if not loading:
            raise PluginError("register_provider works while a plugin is loaded; later use ctx.register_model_provider")
        loading[-1].register_model_provider(profile)

    return {"ProviderProfile": ProviderProfile, "register_provider": register_provider}


def base(_parts: Parts) -> Names:
    """``providers.base``."""
    return {"ProviderProfile": ProviderProfile}
