"""Which request format an endpoint speaks."""

from __future__ import annotations

from functools import cache

from hermes.providers.chat_completions import ChatCompletions
from hermes.providers.endpoint import ApiMode, Endpoint
from hermes.providers.wire import Wire

_CHAT_COMPLETIONS = ChatCompletions()


def wire_for(endpoint: Endpoint) -> Wire:
    """The request format of an endpoint. Formats other than the usual one are imported when first used."""
    if endpoint.api_mode == "chat_completions":
        return _CHAT_COMPLETIONS
    return _other(endpoint.api_mode)


@cache
def _other(api_mode: ApiMode) -> Wire:
    if api_mode == "anthropic_messages":
        from hermes.providers.anthropic_messages import AnthropicMessages

        return AnthropicMessages()
    from hermes.providers.responses import Responses

    return Responses()
