"""``agent.plugin_llm``: the types of ``ctx.llm``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hermes.contract import llm as contract
from hermes.plugins.llm.access import PluginLlm

if TYPE_CHECKING:
    from hermes.plugins.compat.host import Names
    from hermes.plugins.context import Parts


def names(_parts: Parts) -> Names:
    """The facade, its inputs, its results and its refusal."""
    return {
        "PluginLlm": PluginLlm,
        "PluginLlmBudgetError": contract.PluginLlmBudgetError,
        "PluginLlmCompleteResult": contract.PluginLlmCompleteResult,
        "PluginLlmImageInput": contract.PluginLlmImageInput,
        "PluginLlmStructuredResult": contract.PluginLlmStructuredResult,
        "PluginLlmTextInput": contract.PluginLlmTextInput,
        "PluginLlmTrustError": contract.PluginLlmTrustError,
        "PluginLlmUsage": contract.PluginLlmUsage,
    }
