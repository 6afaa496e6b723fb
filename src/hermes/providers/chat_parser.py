"""The OpenAI-compatible wire: how the bytes of a chat completion are read."""

from __future__ import annotations

from hermes.providers.body_parser import BodyParser
from hermes.providers.chat_assembly import ChatAssembly
from hermes.providers.endpoint import Endpoint


class ChatParser(BodyParser):
    """Reads one answer. With ``tools``, calls that the model wrote into its text are found there."""

    def __init__(self, endpoint: Endpoint, *, streaming: bool, tools: bool = False) -> None:
        super().__init__(endpoint, ChatAssembly(endpoint, tools=tools), streaming=streaming)
