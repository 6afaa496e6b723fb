"""The OpenAI-compatible wire: how the bytes of a chat completion are read."""

from __future__ import annotations

from hermes.models.endpoint import Endpoint
from hermes.models.wires.body_parser import BodyParser
from hermes.models.wires.chat.stream import ChatAssembly


class ChatParser(BodyParser):
    """Reads one answer. With ``tools``, calls that the model wrote into its text are found there."""

    def __init__(self, endpoint: Endpoint, *, streaming: bool, tools: bool = False) -> None:
        super().__init__(endpoint, ChatAssembly(endpoint, tools=tools), streaming=streaming)
