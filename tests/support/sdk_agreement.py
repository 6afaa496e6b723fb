"""One answer read by an official SDK and by us, and what both are asked with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from hermes.base.scope import Interrupt
from hermes.models.driver import Driver
from hermes.models.endpoint import ApiMode
from hermes.models.reply import Reply, normalise
from hermes.models.wires.wire import ModelRequest
from hermes.testing import ScriptedProvider, ScriptedReply
from support.sdk_types import Model, as_document, endpoint_at

TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "ls",
        "description": "List files",
        "parameters": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
    },
}

WholeT = TypeVar("WholeT", bound=Model)
WholeT_co = TypeVar("WholeT_co", bound=Model, covariant=True)


class Theirs(Protocol[WholeT_co]):
    """Asks a server by way of the SDK."""

    def __call__(self, server: ScriptedProvider, *, stream: bool) -> WholeT_co: ...


@dataclass(frozen=True)
class Ours:
    """Asks a server by way of one of our wires."""

    driver: Driver
    api_mode: ApiMode
    model: str

    def __call__(self, server: ScriptedProvider, *, stream: bool) -> Reply:
        endpoint, wire = endpoint_at(server.base_url, self.api_mode, self.model)
        kwargs = wire.kwargs(endpoint, ModelRequest([{"role": "user", "content": "hi"}], stream=stream))
        return normalise(self.driver.send(endpoint, wire, kwargs, interrupt=Interrupt()))


@dataclass(frozen=True)
class Readers(Generic[WholeT]):
    """Who reads one answer, and ``agree``, which fails unless they read the same."""

    ours: Ours
    theirs: Theirs[WholeT]
    agree: Callable[[Reply, WholeT], None]

    def agree_on_document(self, whole: WholeT) -> None:
        """Fail unless both read the same in an answer that comes as one document."""
        with ScriptedProvider(as_document(whole)) as server:
            self.agree(self.ours(server, stream=False), self.theirs(server, stream=False))

    def agree_on_stream(self, streamed: ScriptedReply, whole: WholeT) -> None:
        """Fail unless both read the same in a stream, and we what we read in the document that it stands for."""
        with ScriptedProvider(streamed) as server:
            reply = self.ours(server, stream=True)
            self.agree(reply, self.theirs(server, stream=True))
        with ScriptedProvider(as_document(whole)) as server:
            assert self.ours(server, stream=False) == reply


def halves(words: str) -> list[str]:
    """A text in the pieces that it is streamed in."""
    return [piece for piece in (words[: len(words) // 2], words[len(words) // 2 :]) if piece]


def given_back(reply: Reply) -> list[dict[str, Any]]:
    """A conversation in which an answer goes back to the model."""
    calls = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        for call in reply.tool_calls
    ]
    answer = {"role": "assistant", "content": reply.content, "tool_calls": calls, "carry": reply.provider_state}
    return [{"role": "user", "content": "hi"}, answer]
