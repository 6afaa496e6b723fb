"""Selects the wire of an endpoint by its ``api_mode``."""

from __future__ import annotations

from functools import cache

from hermes.models.endpoint import ApiMode, Endpoint
from hermes.models.wires.chat.wire import ChatCompletions
from hermes.models.wires.wire import Wire

_CHAT_COMPLETIONS = ChatCompletions()


def wire_for(endpoint: Endpoint) -> Wire:
    """The request format of an endpoint. Formats other than the usual one are imported when first used."""
    if endpoint.api_mode == "chat_completions":
        return _CHAT_COMPLETIONS
    return _other(endpoint.api_mode)


@cache
def _other(api_mode: ApiMode) -> Wire:
    if api_mode == "anthropic_messages":
        from hermes.models.wires.anthropic.wire import AnthropicMessages

        return AnthropicMessages()
    from hermes.models.wires.responses.wire import Responses

    return Responses()
