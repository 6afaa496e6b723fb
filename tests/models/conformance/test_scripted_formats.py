"""The scripted provider against the official SDKs' types: what it says is what a real server could say."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from anthropic.types import Message, RawMessageStreamEvent
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from hermes.testing.scripted.formats import FORMATS
from hermes.testing.scripted.replies import ScriptedCall, ScriptedReply, text, tool_calls

REPLIES = {
    "text": text("Hello there"),
    "a limit": text("And so", finish_reason="length"),
    "calls": tool_calls([("ls", {"path": "a"}), ("pwd", {})], content="I look."),
    "thoughts": ScriptedReply(content="Four.", thoughts="So it is", calls=(ScriptedCall("ls"),)),
    "counts": text("x", usage={"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11}),
}
#: By path: the type of a document and the type of an event.
TYPES: dict[str, tuple[Any, Any]] = {
    "/v1/chat/completions": (ChatCompletion, ChatCompletionChunk),
    "/v1/responses": (Response, ResponseStreamEvent),
    "/v1/messages": (Message, RawMessageStreamEvent),
}


@pytest.mark.parametrize("path", TYPES)
@pytest.mark.parametrize("name", REPLIES)
def test_what_is_said_fits_the_types(name: str, path: str) -> None:
    document, event = (TypeAdapter[Any](kind) for kind in TYPES[path])
    document.validate_json(FORMATS[path].document(REPLIES[name], 1, "m"))
    pieces = FORMATS[path].stream(REPLIES[name], 1, "m", {"stream_options": {"include_usage": True}})
    payloads = [piece.partition(b"data: ")[2] for piece in pieces]
    read = [
        event.validate_json(payload) for payload in payloads if payload.startswith(b"{") and b'"ping"' not in payload
    ]
    assert len(read) >= len(pieces) - 1
    for piece, payload in zip(pieces, payloads, strict=True):
        named = piece.startswith(b"event: ")
        assert not named or piece.startswith(b"event: " + msgspec.json.decode(payload)["type"].encode() + b"\n")
