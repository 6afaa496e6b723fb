"""``agent.plugin_llm``: the types of ``ctx.llm``. ``providers``: register a model provider without ``ctx``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hermes.base.errors import PluginError
from hermes.contract import llm as contract
from hermes.plugins.llm.access import PluginLlm
from hermes.plugins.model_provider import ProviderProfile

if TYPE_CHECKING:
    from hermes.plugins.compat.names import Names
    from hermes.plugins.services import PluginHost


def plugin_llm(_host: PluginHost) -> Names:
    """``agent.plugin_llm``."""
    kinds = (
        PluginLlm,
        contract.PluginLlmBudgetError,
        contract.PluginLlmCompleteResult,
        contract.PluginLlmImageInput,
        contract.PluginLlmStructuredResult,
        contract.PluginLlmTextInput,
        contract.PluginLlmTrustError,
        contract.PluginLlmUsage,
    )
    return {kind.__name__: kind for kind in kinds}


def providers(host: PluginHost) -> Names:
    """``providers``."""

    def register_provider(profile: Any) -> None:
        """``ctx.register_model_provider`` of the plugin that is being loaded."""
        loading = [context for context in host.contexts.values() if context.loading]
        if not loading:
            raise PluginError("register_provider works while a plugin is loaded; later use ctx.register_model_provider")
        loading[-1].register_model_provider(profile)

    return {"ProviderProfile": ProviderProfile, "register_provider": register_provider}


def providers_base(_host: PluginHost) -> Names:
    """``providers.base``."""
    return {"ProviderProfile": ProviderProfile}
