"""Types of ``ctx.llm``: input blocks, results, usage and the refusal."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


class PluginLlmTrustError(PermissionError):
    """The configuration does not let the plugin choose that provider, model, agent or profile."""


class PluginLlmBudgetError(PluginLlmTrustError):
    """The plugin has spent what the configuration lets it spend on models."""


@dataclass
class PluginLlmTextInput:
    """A piece of text for a structured call."""

    text: str
    type: str = "text"


@dataclass
class PluginLlmImageInput:
    """An image for a structured call: its bytes, or an address, which wins."""

    data: bytes | None = None
    url: str | None = None
    mime_type: str = "image/png"
    file_name: str = ""
    type: str = "image"


@dataclass
class PluginLlmUsage:
    """What a call took, as far as the provider says."""

    #: Everything that the model read, cached or not.
    input_tokens: int = 0
    output_tokens: int = 0
    total_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    #: ``None`` when neither the provider nor the price table knows.
    cost_usd: float | None = None


@dataclass
class PluginLlmCompleteResult:
    """A model's answer in text."""

    text: str
    provider: str
    #: The model that really answered.
    model: str
    #: Whose model and credentials were used; ``default`` unless the call named another agent.
    agent_id: str
    usage: PluginLlmUsage = field(default_factory=PluginLlmUsage)
    #: ``plugin_id``, ``purpose`` and ``profile``; empty where nothing was given.
    audit: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass
class PluginLlmStructuredResult(PluginLlmCompleteResult):
    """A model's answer as data. ``audit`` also has ``schema_name``, empty when the call gave none."""

    #: The JSON value, when ``content_type`` is ``json``.
    parsed: Any = None
    #: ``json``, or ``text`` when the answer could not be read as JSON.
    content_type: str = "text"
