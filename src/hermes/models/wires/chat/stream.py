"""Chat completions: assembles one answer from the events of a stream, or from one document."""

from __future__ import annotations

from typing import Any, cast

import msgspec

from hermes.models.endpoint import Endpoint
from hermes.models.failures import error_in_body
from hermes.models.reply import Completion, Reply, text_of, thoughts_of, unfinished_reply
from hermes.models.wires.body_parser import Assembly, Unreadable, decode_json
from hermes.models.wires.chat.extras import ChatExtras
from hermes.models.wires.chat.thinking import ThinkSplitter, without_thoughts
from hermes.models.wires.chat.tool_calls import CallSlots, TextCall, ToolCallSplitter
from hermes.models.wires.provider_state import STATE_FIELD, provider_state
from hermes.models.wires.wire import Delta, ReasoningDelta, TextDelta


class ChunkDelta(msgspec.Struct):
    """The new part of an answer. Values are taken as they come: servers differ in what they send for "nothing"."""

    content: Any = None
    reasoning: Any = None
    reasoning_content: Any = None
    reasoning_details: Any = None
    extra_content: Any = None
    refusal: Any = None
    tool_calls: Any = None
    #: The one call of servers that still speak the format before there were several.
    function_call: Any = None


class ChunkChoice(msgspec.Struct):
    """The answer a delta belongs to."""

    delta: ChunkDelta | None = None
    message: ChunkDelta | None = None
    finish_reason: Any = None
    index: Any = 0
    usage: Any = None


class Chunk(msgspec.Struct):
    """One event."""

    choices: list[ChunkChoice] | None = None
    usage: Any = None
    error: Any = None
    x_groq: Any = None


def misplaced_usage(chunk: Chunk, choice: ChunkChoice) -> dict[str, Any] | None:
    """Usage from the two places where some servers put it instead of the top."""
    usage: Any = choice.usage
    if not usage and isinstance(chunk.x_groq, dict):
        usage = cast("dict[str, Any]", chunk.x_groq).get("usage")
    return cast("dict[str, Any]", usage) if isinstance(usage, dict) else None


_CHUNK = msgspec.json.Decoder(Chunk)
_OBJECT = msgspec.json.Decoder(dict[str, Any])


class ChatAssembly(Assembly):
    """Adds chunk after chunk; gives the pieces out as deltas and the whole as a response."""

    def __init__(self, endpoint: Endpoint, *, tools: bool) -> None:
        self._endpoint = endpoint
        self._finish_reason = ""
        self._has_choice = False
        self._envelope: dict[str, Any] = {}
        self._content: list[str] = []
        self._reasoning: list[str] = []
        self._refusal: list[str] = []
        self._calls = CallSlots()
        self._usage: dict[str, Any] | None = None
        self._think = ThinkSplitter()
        #: Looks for tool calls in the text; only where tools were offered can there be any.
        self._written = ToolCallSplitter() if tools else None
        self._extras = ChatExtras()

    def event(self, payload: bytes, deltas: list[Delta]) -> None:
        """Take the data of one event."""
        if payload.startswith(b"[DONE]"):
            self.over = True
            self._flush(deltas)
            return
        chunk = decode_json(payload, _CHUNK)
        if chunk.error:
            raise error_in_body(self._endpoint, chunk.error)
        if not self.started:
            first = decode_json(payload, _OBJECT)
            self.started = True
            # Its id, model and the like are those of the whole answer.
            self._envelope = {name: value for name, value in first.items() if name not in ("choices", "usage")}
        self._add(chunk, deltas)

    def document(self, fields: dict[str, Any]) -> Completion:
        """The answer that came as one document, its text sorted as a stream's would be."""
        choices = fields.get("choices")
        first: Any = cast("list[Any]", choices)[0] if isinstance(choices, list) and choices else None
        choice = cast("dict[str, Any]", first) if isinstance(first, dict) else {}
        if not isinstance(choice.get("message"), dict):
            raise Unreadable("an empty list of choices" if choices == [] else "no choices with a message")
        self._settle(choice, choice["message"])
        return fields

    def response(self) -> Completion:
        """The finished answer in the shape of a chat completion that was not streamed."""
        if not self._has_choice:
            raise Unreadable("a stream without choices")
        self._flush([])
        message = self._message(*without_thoughts("".join(self._content), "".join(self._reasoning)))
        for slot in self._calls.slots:
            self._extras.add_mark(slot.id, slot.mark)
        self._add_provider_state(message)
        choice = {"index": 0, "message": message, "finish_reason": self._reason_to_finish()}
        return {**self._envelope, "object": "chat.completion", "choices": [choice], "usage": self._usage}

    def partial(self) -> Reply:
        """What there is of an answer that will not be finished."""
        self._flush([])
        message = self._message("".join(self._content), "".join(self._reasoning))
        return unfinished_reply(self._envelope, message, self._finish_reason or "incomplete", self._usage)

    def _message(self, content: str, reasoning: str) -> dict[str, Any]:
        return {
            "role": "assistant",
            "content": content or None,
            "reasoning": reasoning or None,
            "refusal": "".join(self._refusal) or None,
            "tool_calls": self._calls.messages() or None,
        }

    # -- events -------------------------------------------------------------------------------------------------

    def _add(self, chunk: Chunk, deltas: list[Delta]) -> None:
        if chunk.usage:
            self._usage = chunk.usage
        if not chunk.choices or chunk.choices[0].index:
            return  # one answer was asked for; a second choice is ignored
        choice = chunk.choices[0]
        self._has_choice = True
        delta = choice.delta or choice.message
        if delta is not None:
            self._add_delta(delta, deltas)
        if choice.finish_reason:
            self.complete, self._finish_reason = True, str(choice.finish_reason)
            self._flush(deltas)
            self._usage = self._usage or misplaced_usage(chunk, choice)

    def _add_delta(self, delta: ChunkDelta, deltas: list[Delta]) -> None:
        thoughts = delta.reasoning or delta.reasoning_content
        if thoughts and isinstance(thoughts, str):
            self._thought(thoughts, deltas)
        if delta.reasoning_details:
            self._extras.add_details(delta.reasoning_details)
        if delta.extra_content:
            self._extras.add_text_mark(delta.extra_content)
        if delta.content:
            self._add_content(delta.content, deltas)
        if delta.refusal and isinstance(delta.refusal, str):
            self._refusal.append(delta.refusal)
            deltas.append(TextDelta(delta.refusal))
        if isinstance(delta.tool_calls, list):
            pieces = cast("list[Any]", delta.tool_calls)
            deltas.extend(self._calls.add(cast("dict[str, Any]", one)) for one in pieces if isinstance(one, dict))
        elif isinstance(delta.function_call, dict):
            deltas.append(self._calls.add({"index": 0, "function": cast("dict[str, Any]", delta.function_call)}))

    def _add_content(self, content: object, deltas: list[Delta]) -> None:
        """Content is text, or parts: of text, and with some servers of reasoning."""
        if not isinstance(content, str):
            thoughts = thoughts_of(content)
            if thoughts:
                self._thought(thoughts, deltas)
            content = text_of(content)
        self._add_text(content, deltas)

    def _add_text(self, text: str, deltas: list[Delta]) -> None:
        if self._think.passive:
            self._answer(text, deltas)
            return
        for kind, piece in self._think.feed(text):
            if kind == "reasoning":
                self._thought(piece, deltas)
            else:
                self._answer(piece, deltas)

    def _thought(self, text: str, deltas: list[Delta]) -> None:
        self._reasoning.append(text)
        deltas.append(ReasoningDelta(text))

    def _answer(self, text: str, deltas: list[Delta]) -> None:
        for piece in (text,) if self._written is None else self._written.feed(text):
            self._answer_piece(piece, deltas)

    def _answer_piece(self, piece: str | TextCall, deltas: list[Delta]) -> None:
        if isinstance(piece, TextCall):
            deltas.append(self._calls.add_written(piece))
        elif piece:
            self._content.append(piece)
            deltas.append(TextDelta(piece))

    def _flush(self, deltas: list[Delta]) -> None:
        """Give out text that was held back in case a tag followed."""
        for kind, text in self._think.finish():
            if kind == "reasoning":
                self._thought(text, deltas)
            else:
                self._answer(text, deltas)
        if self._written is not None:
            for piece in self._written.finish():
                self._answer_piece(piece, deltas)

    # -- the whole ----------------------------------------------------------------------------------------------

    def _settle(self, choice: dict[str, Any], message: dict[str, Any]) -> None:
        """Content as text, with inline reasoning and written tool calls moved to their own fields."""
        given: Any = message.get("tool_calls")
        calls = cast("list[Any]", given) if isinstance(given, list) else []
        if not calls and isinstance(message.get("function_call"), dict):
            calls = message["tool_calls"] = [{"id": None, "type": "function", "function": message["function_call"]}]
        for call in calls:
            if isinstance(call, dict):
                fields = cast("dict[str, Any]", call)
                self._extras.add_mark(str(fields.get("id") or ""), fields.get("extra_content"))
        self._extras.add_details(message.get("reasoning_details"))
        self._extras.add_text_mark(message.get("extra_content"))
        if message.get("content") is not None:
            self._add_content(message["content"], [])
            self._flush([])
            message["content"], thoughts = without_thoughts("".join(self._content), "".join(self._reasoning))
            if thoughts and not message.get("reasoning"):
                message["reasoning"] = thoughts
        if self._calls.slots:
            message["tool_calls"] = [*calls, *self._calls.messages()]
            choice["finish_reason"] = "tool_calls"
        self._add_provider_state(message)

    def _reason_to_finish(self) -> str:
        if self._written is not None and self._written.found and self._finish_reason in ("", "stop"):
            return "tool_calls"  # the server took the calls for text
        return self._finish_reason or ("tool_calls" if self._calls.slots else "stop")

    def _add_provider_state(self, message: dict[str, Any]) -> None:
        state = provider_state(self._endpoint, self._extras.items())
        if state is not None:
            message[STATE_FIELD] = state
