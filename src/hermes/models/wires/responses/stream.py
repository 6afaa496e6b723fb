"""OpenAI Responses: assembles one answer from the events of a stream, or from one document."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import msgspec

from hermes.base.errors import ProviderError
from hermes.models.costs.usage import response_usage
from hermes.models.endpoint import Endpoint
from hermes.models.failures import error_in_body
from hermes.models.reply import Completion, Reply, chat_completion, check_call_count, unfinished_reply
from hermes.models.wires.body_parser import Assembly, Unreadable, decode_json
from hermes.models.wires.provider_state import STATE_FIELD, Items, call_marker, is_marker, provider_state, text_marker
from hermes.models.wires.wire import Delta, ReasoningDelta, TextDelta, ToolCallDelta

#: Of a reasoning item, what the server takes back.
_REASONING_FIELDS = ("type", "id", "summary", "content", "encrypted_content")


class ResponseOutput:
    """The items of one response: the text, the reasoning and the calls in them, and what goes back of them."""

    def __init__(self, items: Iterable[object]) -> None:
        self.texts: list[str] = []
        self.refusals: list[str] = []
        self.reasoning: list[str] = []
        self.calls: list[dict[str, Any]] = []
        self._kept: Items = []
        self._phases = False
        for item in items:
            if isinstance(item, dict):
                self._add(cast("dict[str, Any]", item))

    def message(self) -> dict[str, Any]:
        """The assistant message."""
        return {
            "role": "assistant",
            "content": "".join(self.texts) or None,
            "reasoning": "\n\n".join(self.reasoning) or None,
            "refusal": "".join(self.refusals) or None,
            "tool_calls": self.calls or None,
        }

    def items(self) -> Items:
        """What the next request must have; nothing when a plain message says it all."""
        if not self._phases and all(map(is_marker, self._kept)):
            return []
        if len(self.texts) == 1:  # no need to keep the text twice
            for item in self._kept:
                if item["type"] == "text":
                    del item["text"]
        return self._kept

    def _add(self, item: dict[str, Any]) -> None:
        kind = item.get("type")
        if kind == "message":
            self._add_message(item)
        elif kind == "function_call":
            self._add_call(item)
        elif kind == "reasoning":
            self._add_reasoning(item)
        elif kind:
            self._kept.append(item)

    def _add_message(self, item: dict[str, Any]) -> None:
        parts = _objects(item.get("content"))
        refusal = "".join(_text(part, "refusal") for part in parts if part.get("type") == "refusal")
        if refusal:
            self.refusals.append(refusal)
        text = "".join(_text(part, "text") for part in parts if part.get("type") != "refusal")
        if text:
            place = text_marker(text)
            if item.get("phase"):
                place["phase"] = item["phase"]
                self._phases = True
            self.texts.append(text)
            self._kept.append(place)

    def _add_call(self, item: dict[str, Any]) -> None:
        call_id = _text(item, "call_id") or _text(item, "id")
        function = {"name": _text(item, "name"), "arguments": _text(item, "arguments")}
        self.calls.append({"id": call_id or None, "type": "function", "function": function})
        self._kept.append(call_marker(call_id))

    def _add_reasoning(self, item: dict[str, Any]) -> None:
        parts = _objects(item.get("summary")) or _objects(item.get("content"))
        self.reasoning.extend(filter(None, (_text(part, "text") for part in parts)))
        if item.get("encrypted_content") or item.get("content"):  # else only the server's own memory would know it
            self._kept.append({name: item[name] for name in _REASONING_FIELDS if item.get(name) is not None})


def _objects(value: object) -> list[dict[str, Any]]:
    return [part for part in cast("list[Any]", value) if isinstance(part, dict)] if isinstance(value, list) else []


def _text(fields: dict[str, Any], name: str) -> str:
    value = fields.get(name)
    return value if isinstance(value, str) else ""


class ResponsesEvent(msgspec.Struct):
    """One event of the stream, reduced to the fields that are read."""

    type: str = ""
    delta: Any = None
    output_index: int | str | None = None
    summary_index: Any = None
    item: Any = None
    response: Any = None
    code: Any = None
    message: Any = None
    error: Any = None


_EVENT = msgspec.json.Decoder(ResponsesEvent)
_THOUGHT = ("reasoning", "thoughts")
#: The events with a piece of an item: the kind of the item, and which of its parts the piece belongs to.
_PIECES = {
    "response.output_text.delta": ("message", "pieces"),
    "response.refusal.delta": ("message", "refusals"),
    "response.function_call_arguments.delta": ("function_call", "pieces"),
    "response.reasoning_summary_text.delta": _THOUGHT,
    "response.reasoning_text.delta": _THOUGHT,
}
_UNFINISHED = {"max_output_tokens": "length", "content_filter": "content_filter"}


class _OutputItem(msgspec.Struct):
    """An output item in the making."""

    item: dict[str, Any]
    #: Which of the tool calls it is, if it is one.
    position: int
    #: Text of a message, or arguments of a call.
    pieces: list[str] = []
    refusals: list[str] = []
    thoughts: list[str] = []

    def so_far(self) -> dict[str, Any]:
        """The item with what has arrived of it."""
        kind = self.item.get("type")
        if kind == "function_call":
            return {**self.item, "arguments": "".join(self.pieces) or self.item.get("arguments") or ""}
        if kind == "reasoning":
            return {**self.item, "summary": [{"text": "".join(self.thoughts)}]} if self.thoughts else self.item
        if kind != "message" or not (self.pieces or self.refusals):
            return self.item
        said = {"type": "output_text", "text": "".join(self.pieces)}
        return {**self.item, "content": [said, {"type": "refusal", "refusal": "".join(self.refusals)}]}


class ResponseAssembly(Assembly):
    """Adds event after event; gives the pieces out as deltas and the whole in the shape of a chat completion."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._response: dict[str, Any] = {}
        self._slots: dict[object, _OutputItem] = {}
        self._calls = 0

    def event(self, payload: bytes, deltas: list[Delta]) -> None:
        """Take the data of one event. Unknown kinds are ignored."""
        if payload.startswith(b"[DONE]"):
            return  # a habit of another format; the response itself says when it is complete
        event = decode_json(payload, _EVENT)
        kind = event.type
        if kind in _PIECES:
            if event.delta and isinstance(event.delta, str):
                self._piece(event, event.delta, deltas)
        elif kind == "response.reasoning_summary_part.added" and event.summary_index:
            self._piece(event, "\n\n", deltas)
        elif kind == "response.output_item.added":
            self._begin(event, deltas)
        elif kind == "response.output_item.done":
            self._end(event, deltas)
        elif event.response is not None:
            self._whole(kind, event.response)
        elif kind == "error" or event.error:
            raise error_in_body(self._endpoint, event.error or {"code": event.code, "message": event.message})

    def document(self, fields: dict[str, Any]) -> Completion:
        """The answer that came as one document."""
        if not isinstance(fields.get("output"), list):
            raise Unreadable("no list of output items")
        self._whole("", fields)
        if not self.complete:
            raise Unreadable(f"a response that is still {fields.get('status')}")
        return self.response()

    def response(self) -> Completion:
        """The finished answer in the shape of a chat completion."""
        output = self._output()
        message = output.message()
        state = provider_state(self._endpoint, output.items())
        if state is not None:
            message[STATE_FIELD] = state
        response = self._response
        head = {"id": response.get("id"), "created": response.get("created_at"), "model": response.get("model")}
        finish_reason = self._finish_reason(bool(output.calls))
        return chat_completion(head, message, finish_reason, response_usage(response.get("usage")))

    def partial(self) -> Reply:
        """What there is of an answer that will not be finished."""
        output = self._output()
        finish_reason = self._finish_reason(bool(output.calls)) if self.complete else "incomplete"
        usage = response_usage(self._response.get("usage"))
        return unfinished_reply(self._response, output.message(), finish_reason, usage)

    # -- events -------------------------------------------------------------------------------------------------

    def _piece(self, event: ResponsesEvent, text: str, deltas: list[Delta]) -> None:
        kind, part = _PIECES.get(event.type, _THOUGHT)
        slot = self._slot(event, kind)
        getattr(slot, part).append(text)
        if kind == "function_call":
            deltas.append(ToolCallDelta(slot.position, "", "", text))
        else:
            deltas.append(ReasoningDelta(text) if kind == "reasoning" else TextDelta(text))

    def _begin(self, event: ResponsesEvent, deltas: list[Delta]) -> None:
        slot = self._slot(event, "")
        if isinstance(event.item, dict):
            slot.item = cast("dict[str, Any]", event.item)
        if slot.item.get("type") == "function_call":
            slot.position, self._calls = self._calls, self._calls + 1
            check_call_count(self._calls)
            call_id, name = slot.item.get("call_id"), slot.item.get("name")
            deltas.append(ToolCallDelta(slot.position, str(call_id or ""), str(name or ""), ""))

    def _end(self, event: ResponsesEvent, deltas: list[Delta]) -> None:
        """Take an item that is whole; a server that sends no pieces of it has said it all here."""
        if not isinstance(event.item, dict):
            return
        slot = self._slot(event, "")
        was_in_pieces = bool(slot.pieces or slot.refusals)
        slot.item = cast("dict[str, Any]", event.item)
        if not was_in_pieces:
            said = ResponseOutput([slot.item])
            deltas.extend(TextDelta(text) for text in said.texts + said.refusals)
        slot.pieces, slot.refusals, slot.thoughts = [], [], []

    def _slot(self, event: ResponsesEvent, kind: str) -> _OutputItem:
        self.started = True
        slot = self._slots.get(event.output_index)
        if slot is None:
            slot = self._slots[event.output_index] = _OutputItem({"type": kind}, self._calls)
        return slot

    def _whole(self, kind: str, response: object) -> None:
        """Take the response object, which comes at the beginning and, with everything in it, at the end."""
        if not isinstance(response, dict):
            return
        self.started = True
        fields = self._response = cast("dict[str, Any]", response)
        status = kind.removeprefix("response.") if kind else str(fields.get("status") or "completed")
        if status == "failed" or fields.get("error"):
            raise error_in_body(self._endpoint, fields.get("error") or {"message": "the response failed"})
        if status == "cancelled":
            raise ProviderError(f"{self._endpoint.provider}: the response was cancelled", reason="server_error")
        self.complete = self.over = status in ("completed", "incomplete")

    # -- the whole ----------------------------------------------------------------------------------------------

    def _output(self) -> ResponseOutput:
        items: Any = self._response.get("output") if self.complete else None
        if isinstance(items, list) and items:
            return ResponseOutput(cast("list[object]", items))
        # Some servers leave the list at the end empty: everything in it was sent before.
        return ResponseOutput([slot.so_far() for slot in self._slots.values()])

    def _finish_reason(self, has_calls: bool) -> str:
        details: Any = self._response.get("incomplete_details")
        if self._response.get("status") == "incomplete" or details:
            reason = cast("dict[str, Any]", details).get("reason") if isinstance(details, dict) else None
            return _UNFINISHED.get(str(reason), "length")
        return "tool_calls" if has_calls else "stop"
