"""The answers a scripted provider can give, and how they look on the wire."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypedDict, Unpack, cast

import msgspec

DEFAULT_USAGE: dict[str, Any] = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}


class ReplyOptions(TypedDict, total=False):
    """Delivery of a reply. Times are in seconds, sizes are bytes of the response body."""

    #: Wait before the response headers are sent.
    delay: float
    #: Answer only once this event is set; to hold an answer back while a test looks at what happens meanwhile.
    hold: threading.Event
    #: Wait before every piece of the body.
    chunk_delay: float
    #: How text and arguments are cut when streamed: a number of pieces, or the pieces themselves.
    chunks: int | Sequence[str]
    #: Send only this many bytes of the body, then close the connection.
    truncate_after: int
    #: Take the request and never answer.
    hang: bool
    #: Send this many bytes of the body, then stay silent.
    hang_after: int
    #: Close the connection without an answer.
    drop: bool
    #: The usage object; ``None`` leaves it out.
    usage: dict[str, Any] | None
    finish_reason: str
    model: str
    #: The response id.
    id: str
    headers: dict[str, str]


@dataclass(frozen=True, slots=True)
class ScriptedCall:
    """A tool call of a scripted reply. ``id=None`` gets one, ``id=""`` leaves it out; text arguments go as they are."""

    name: str
    arguments: dict[str, Any] | str = field(default_factory=dict[str, Any])
    id: str | None = None

    @property
    def argument_text(self) -> str:
        if isinstance(self.arguments, str):
            return self.arguments
        return msgspec.json.encode(self.arguments).decode()


@dataclass(frozen=True, slots=True)
class ScriptedReply:
    """One answer. Make it with ``text``, ``tool_call``, ``tool_calls``, ``reasoning``, ``failure`` or ``raw``."""

    content: str | None = None
    thoughts: str = ""
    calls: tuple[ScriptedCall, ...] = ()
    status: int = 200
    #: The body as it goes out, when it is not a completion.
    pieces: tuple[bytes, ...] | None = None
    content_type: str = ""
    #: Without a length or chunks: the end of the body is the end of the connection.
    until_close: bool = False
    options: ReplyOptions = field(default_factory=ReplyOptions)


def text(content: str, **options: Unpack[ReplyOptions]) -> ScriptedReply:
    """A plain answer."""
    return ScriptedReply(content=content, options=options)


def tool_call(
    name: str,
    arguments: dict[str, Any] | str | None = None,
    *,
    call_id: str | None = None,
    **options: Unpack[ReplyOptions],
) -> ScriptedReply:
    """A request to run one tool."""
    return ScriptedReply(calls=(ScriptedCall(name, {} if arguments is None else arguments, call_id),), options=options)


def tool_calls(
    calls: Iterable[ScriptedCall | tuple[str, dict[str, Any] | str]],
    *,
    content: str | None = None,
    **options: Unpack[ReplyOptions],
) -> ScriptedReply:
    """A request to run several tools, optionally with text before it."""
    made = tuple(call if isinstance(call, ScriptedCall) else ScriptedCall(*call) for call in calls)
    return ScriptedReply(content=content, calls=made, options=options)


def reasoning(thoughts: str, content: str | None = None, **options: Unpack[ReplyOptions]) -> ScriptedReply:
    """An answer with reasoning in its own field, before the text."""
    return ScriptedReply(content=content, thoughts=thoughts, options=options)


def failure(
    status: int,
    message: str = "scripted failure",
    *,
    code: str | int | None = None,
    error_type: str | None = None,
    **options: Unpack[ReplyOptions],
) -> ScriptedReply:
    """An HTTP error with an OpenAI-style error body."""
    error = {"message": message, "type": error_type, "param": None, "code": code}
    body = msgspec.json.encode({"error": error})
    return ScriptedReply(status=status, pieces=(body,), content_type="application/json", options=options)


def raw(
    body: bytes | Iterable[bytes],
    *,
    content_type: str = "text/event-stream",
    status: int = 200,
    until_close: bool = False,
    **options: Unpack[ReplyOptions],
) -> ScriptedReply:
    """Exactly these bytes. An iterable is sent piece by piece with chunked transfer encoding."""
    return ScriptedReply(
        status=status,
        pieces=(body,) if isinstance(body, bytes) else tuple(body),
        content_type=content_type,
        until_close=until_close,
        options=options,
    )


def dropped() -> ScriptedReply:
    """The connection is closed without an answer."""
    return ScriptedReply(content="", options={"drop": True})


def hanging() -> ScriptedReply:
    """The request is taken and never answered."""
    return ScriptedReply(content="", options={"hang": True})


def reply_from_json(item: Any) -> ScriptedReply:
    """A reply written as data: a string, or an object with ``text``, ``tool_calls`` or ``failure`` and options."""
    if isinstance(item, str):
        return text(item)
    if not isinstance(item, dict):
        raise ValueError(f"a scripted reply is a string or an object, found {type(item).__name__}")
    fields = dict(cast("dict[str, Any]", item))
    content, thoughts = fields.pop("text", None), fields.pop("reasoning", "")
    calls = tuple(ScriptedCall(**call) for call in fields.pop("tool_calls", ()))
    refused: Any = fields.pop("failure", None)
    unknown = set(fields) - ReplyOptions.__annotations__.keys()
    if unknown:
        raise ValueError(f"unknown fields in a scripted reply: {', '.join(sorted(unknown))}")
    options = cast("ReplyOptions", cast("object", fields))
    if refused is not None:
        return replace(failure(**refused), options=options)
    return ScriptedReply(content=content, thoughts=thoughts, calls=calls, options=options)


def completion(reply: ScriptedReply, number: int, model: str) -> bytes:
    """The reply as one chat completion document."""
    message: dict[str, Any] = {"role": "assistant", "content": reply.content}
    if reply.thoughts:
        message["reasoning"] = reply.thoughts
    if reply.calls:
        message["tool_calls"] = [_whole_call(call, at, number) for at, call in enumerate(reply.calls)]
    document = {**_envelope(reply, number, model), "object": "chat.completion"}
    document["choices"] = [{"index": 0, "message": message, "finish_reason": _finish_reason(reply)}]
    usage = reply.options.get("usage", DEFAULT_USAGE)
    if usage is not None:
        document["usage"] = usage
    return msgspec.json.encode(document)


def events(reply: ScriptedReply, number: int, model: str, *, include_usage: bool) -> list[bytes]:
    """The reply as server-sent events, one per piece."""
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{"reasoning": piece} for piece in in_pieces(reply.thoughts, None)]
    cut = reply.options.get("chunks")
    deltas += [{"content": piece} for piece in in_pieces(reply.content or "", cut)]
    for at, call in enumerate(reply.calls):
        deltas += _call_deltas(call, at, number, cut if isinstance(cut, int) else None)
    envelope = {**_envelope(reply, number, model), "object": "chat.completion.chunk"}
    choices: list[list[dict[str, Any]]] = [[{"index": 0, "delta": delta, "finish_reason": None}] for delta in deltas]
    choices.append([{"index": 0, "delta": {}, "finish_reason": _finish_reason(reply)}])
    documents: list[dict[str, Any]] = [{**envelope, "choices": choice} for choice in choices]
    usage = reply.options.get("usage", DEFAULT_USAGE)
    if include_usage and usage is not None:
        documents.append({**envelope, "choices": [], "usage": usage})
    return [b"data: " + msgspec.json.encode(document) + b"\n\n" for document in documents] + [b"data: [DONE]\n\n"]


def _envelope(reply: ScriptedReply, number: int, model: str) -> dict[str, Any]:
    options = reply.options
    return {"id": options.get("id", f"chatcmpl-{number}"), "created": 0, "model": options.get("model", model)}


def _finish_reason(reply: ScriptedReply) -> str:
    return reply.options.get("finish_reason", "tool_calls" if reply.calls else "stop")


def call_id(call: ScriptedCall, at: int, number: int) -> str:
    """The id of a scripted call: its own, or one made from its place; empty when it is to have none."""
    return f"call_{number}_{at}" if call.id is None else call.id


def _identity(call: ScriptedCall, at: int, number: int) -> dict[str, str]:
    own = call_id(call, at, number)
    return {"id": own} if own else {}


def _whole_call(call: ScriptedCall, at: int, number: int) -> dict[str, Any]:
    function = {"name": call.name, "arguments": call.argument_text}
    return {**_identity(call, at, number), "type": "function", "function": function}


def _call_deltas(call: ScriptedCall, at: int, number: int, cut: int | None) -> list[dict[str, Any]]:
    opening = {
        **_identity(call, at, number),
        "index": at,
        "type": "function",
        "function": {"name": call.name, "arguments": ""},
    }
    pieces = in_pieces(call.argument_text, cut or 2)
    return [{"tool_calls": [opening]}] + [
        {"tool_calls": [{"index": at, "function": {"arguments": piece}}]} for piece in pieces
    ]


def named_event(event: dict[str, Any]) -> bytes:
    """A server-sent event with the name of its type."""
    return b"event: " + str(event["type"]).encode() + b"\ndata: " + msgspec.json.encode(event) + b"\n\n"


def in_pieces(content: str, chunks: int | Sequence[str] | None) -> list[str]:
    """Text in pieces: those given, that many, or one per word."""
    if not content:
        return []
    if chunks is None:
        words = content.split(" ")
        return [word + " " for word in words[:-1]] + ([words[-1]] if words[-1] else [])
    if not isinstance(chunks, int):
        return list(chunks)
    size = max(-(-len(content) // max(chunks, 1)), 1)
    return [content[start : start + size] for start in range(0, len(content), size)]
