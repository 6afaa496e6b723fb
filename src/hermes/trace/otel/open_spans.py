"""The spans that are under way, found again by the ids of the contract."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from hermes.sanitize import redact_text
from hermes.trace.formats.genai import AGENT_SPAN, Attributes, inference_span, tool_span
from hermes.trace.formats.spans import Vocabulary
from hermes.trace.parent import incoming
from hermes.trace.records import Usage

#: Session, turn and call: a provider may use the same call id in every turn.
CallKey = tuple[str, str, str]

_MAX_ERROR_CHARS = 500

w3c = TraceContextTextMapPropagator()


@dataclass(slots=True)
class OpenTurn:
    """A turn under way and what its requests have come to."""

    session_id: str
    span: Span
    #: What makes another span a child of the turn's.
    context: Context
    model: str
    started: float = field(default_factory=time.perf_counter)
    model_calls: int = 0
    tool_calls: int = 0
    usage: Usage = field(default_factory=Usage)
    #: The class of the last request's failure, until one is answered.
    failure: str = ""


@dataclass(frozen=True, slots=True)
class Child:
    """A delegated agent: the call that it belongs to, and who it is."""

    context: Context
    subagent_id: str
    role: str


class OpenSpans:
    """Begins and ends spans, described in the words of each vocabulary.

    There are no locks: every change of a table is a single operation, and a process may be forked at any moment.
    """

    def __init__(
        self,
        tracer: trace.Tracer,
        words: Sequence[Vocabulary],
        outermost: Mapping[str, str] | None = None,
    ) -> None:
        self._tracer = tracer
        self._words = words
        #: The trace that this process was started in.
        self._outermost = outermost
        self.turns: dict[str, OpenTurn] = {}
        self.requests: dict[str, Span] = {}
        self.tools: dict[CallKey, Span] = {}
        self.children: dict[str, Child] = {}
        #: Whether spans have ended since somebody last set it to false.
        self.has_news = False

    def turn_span(self, turn_id: str) -> Span | None:
        """The span of a turn under way."""
        turn = self.turns.get(turn_id)
        return turn.span if turn else None

    def described(self, what: str, about: Mapping[str, Any]) -> Attributes:
        """Something in the words of every vocabulary; the last one has the last word."""
        attributes: Attributes = {}
        for vocabulary in self._words:
            attributes.update(getattr(vocabulary, what)(**about))
        return attributes

    def tell(self, span: Span, what: str, **about: Any) -> None:
        """Add that to a span, unless nobody will see it."""
        if span.is_recording():
            span.set_attributes(self.described(what, about))

    # -- beginning ----------------------------------------------------------------------------------------------

    def begin_turn(
        self, session_id: str, turn_id: str, model: str = "", platform: str = "", sender_id: str = ""
    ) -> OpenTurn:
        """A turn, inside the call that delegated it or inside whatever runs it."""
        child = self.children.get(session_id)
        about = {
            "session_id": session_id,
            "turn_id": turn_id,
            "model": model,
            "platform": platform,
            "subagent_id": child.subagent_id if child else "",
            "role": child.role if child else "",
            "user_id": sender_id,
        }
        parent = child.context if child else self._outer_context()
        span = self._tracer.start_span(AGENT_SPAN, parent, SpanKind.INTERNAL, self.described("agent", about))
        turn = OpenTurn(session_id, span, trace.set_span_in_context(span, parent), model)
        return self.turns.setdefault(turn_id, turn)

    def begin_request(self, about: dict[str, Any], platform: str, started_at: float) -> None:
        """A request to a model. A turn that was cut off and goes on has no other beginning."""
        turn_id, model = about["turn_id"], about["model"]
        turn = self.turns.get(turn_id) or self.begin_turn(about["session_id"], turn_id, model, platform)
        turn.model_calls += 1
        self.requests[about["api_request_id"]] = self._tracer.start_span(
            inference_span(model),
            turn.context,
            SpanKind.CLIENT,
            self.described("inference", about),
            start_time=_nanoseconds(started_at),
        )

    def begin_tool(self, key: CallKey, name: str, api_request_id: str = "", seconds_ago: float = 0.0) -> Span:
        """A tool call, inside its turn or inside the tool that makes it."""
        session_id, turn_id, tool_call_id = key
        turn = self.turns.get(turn_id) or (self.begin_turn(session_id, turn_id) if turn_id else None)
        if turn is not None:
            turn.tool_calls += 1
        # A call that a tool makes itself has the id of that tool's call before its own.
        outer = (session_id, turn_id, tool_call_id.rpartition("/")[0])
        about = {
            "session_id": session_id,
            "turn_id": turn_id,
            "tool_call_id": tool_call_id,
            "name": name,
            "api_request_id": api_request_id,
        }
        self.tools[key] = span = self._tracer.start_span(
            tool_span(name),
            self._inside(outer),
            SpanKind.INTERNAL,
            self.described("tool", about),
            start_time=_nanoseconds(time.time() - seconds_ago) if seconds_ago else None,
        )
        return span

    def begin_child(self, child_session_id: str, key: CallKey, subagent_id: str, role: str) -> None:
        """The turns of this session will belong to the call."""
        self.children[child_session_id] = Child(self._inside(key), subagent_id, role)

    def _inside(self, key: CallKey) -> Context:
        """Inside a tool call if it is under way, else inside its turn."""
        span, turn = self.tools.get(key), self.turns.get(key[1])
        if span is not None:
            return trace.set_span_in_context(span)
        return turn.context if turn is not None else self._outer_context()

    def _outer_context(self) -> Context:
        """What a turn is part of: the request being served, the code that runs it, or what started the process."""
        headers: Mapping[str, str] | None = incoming()
        if not headers:
            current = otel_context.get_current()
            if trace.get_current_span(current).get_span_context().is_valid:
                return current
            headers = self._outermost
        return w3c.extract(dict(headers), Context()) if headers else Context()

    # -- ending -------------------------------------------------------------------------------------------------

    def event(self, key: CallKey, name: str, attributes: dict[str, str]) -> None:
        """Something that happened to a tool call, or else to its turn."""
        span = self.tools.get(key) or self.turn_span(key[1])
        if span is not None:
            span.add_event(name, {name: text for name, text in attributes.items() if text})

    def end(self, span: Span, error_type: str = "", words: str = "", *, is_error: bool = True, at: float = 0.0) -> None:
        """The span is over. What was stopped or not allowed has a class, and is no error."""
        if error_type:
            text = redact_text(words)[:_MAX_ERROR_CHARS]
            span.set_attributes(
                self.described("failure", {"error_type": error_type, "text": text, "is_error": is_error})
            )
            if is_error:
                span.set_status(StatusCode.ERROR, text or None)
        span.end(_nanoseconds(at))
        self.has_news = True

    def abandon(self, session_id: str) -> None:
        """Nothing more comes from a session: what is still open will never end otherwise."""
        for turn_id, turn in list(self.turns.items()):
            if turn.session_id == session_id and self.turns.pop(turn_id, None):
                self.end(turn.span, "abandoned", "the session ended first")
        for key, span in list(self.tools.items()):
            if key[0] == session_id and self.tools.pop(key, None):
                self.end(span, "abandoned", "the session ended first")


def _nanoseconds(seconds: float) -> int | None:
    return int(seconds * 1e9) if seconds else None
