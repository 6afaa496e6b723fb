"""Span sink: tracked events as OpenTelemetry spans, described by a vocabulary."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple, Protocol

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from hermes.contract import events
from hermes.trace.formats.genai import Attributes
from hermes.trace.otel.ids import ContractIds
from hermes.trace.parent import incoming
from hermes.trace.tracker import (
    WAITS,
    ApprovalEvent,
    MomentEvent,
    OpenAttempt,
    OpenChild,
    OpenItem,
    OpenTool,
    OpenTurn,
    TraceSink,
    Tracker,
)

w3c = TraceContextTextMapPropagator()


class SpanStart(NamedTuple):
    """A span as it begins."""

    name: str
    attributes: Attributes
    kind: SpanKind = SpanKind.INTERNAL


class SpanEnd(NamedTuple):
    """What is known of a span when it ends. Without ``is_error`` its status stays unset."""

    attributes: Attributes
    is_error: bool = False
    message: str = ""


class SpanMoment(NamedTuple):
    """Something that happens at one moment: an event of a span, or a span of its own without duration."""

    name: str
    attributes: Attributes
    is_span: bool = False


class SpanVocabulary(Protocol):
    """The names and attributes of spans. Methods that describe content are only called for spans that are recorded."""

    def turn(self, turn: OpenTurn) -> SpanStart: ...
    def turn_content(self, turn: OpenTurn, event: events.TurnStarted | events.TurnAnswered) -> Attributes: ...
    def turn_end(self, turn: OpenTurn, event: events.TurnEnded | None, why: str) -> SpanEnd: ...

    def attempt(self, attempt: OpenAttempt) -> SpanStart: ...
    def attempt_content(self, attempt: OpenAttempt) -> Attributes: ...
    def answer(self, event: events.AttemptAnswered) -> Attributes: ...
    def failure(self, event: events.AttemptFailed) -> SpanEnd: ...

    def tool(self, tool: OpenTool) -> SpanStart: ...
    def tool_end(self, event: events.ToolEnded) -> SpanEnd: ...

    def abandoned(self, why: str) -> SpanEnd:
        """An attempt or a tool call that never ended."""
        ...

    def moment(self, subject: OpenItem, event: MomentEvent) -> SpanMoment | None: ...


class SpanSink(TraceSink):
    """Starts and ends spans. ``outer_context`` gives what a turn that no call delegated is part of."""

    def __init__(
        self, tracer: trace.Tracer, vocabulary: SpanVocabulary, outer_context: Callable[[], Context] = Context
    ) -> None:
        self._tracer = tracer
        self._words = vocabulary
        self._outer_context = outer_context
        #: None when the application's own provider makes the ids.
        ids = getattr(tracer, "id_generator", None)
        self._ids = ids if isinstance(ids, ContractIds) else None
        #: The turns that are open, each with the ids of the calls that had a span with the call's own id.
        self._named: dict[tuple[str, str], set[str]] = {}

    # -- turns --------------------------------------------------------------------------------------------------

    def turn_started(self, turn: OpenTurn, event: events.TurnStarted | None, at: float) -> None:
        self._start(turn, turn.child.parent if turn.child is not None else None, self._words.turn(turn), at)
        if event is not None and turn.span.is_recording():
            turn.span.set_attributes(self._words.turn_content(turn, event))

    def turn_answered(self, turn: OpenTurn, event: events.TurnAnswered) -> None:
        if turn.span.is_recording():
            turn.span.set_attributes(self._words.turn_content(turn, event))

    def turn_ended(self, turn: OpenTurn, event: events.TurnEnded | None, at: float, why: str = "") -> None:
        self._named.pop((turn.session_id, turn.id), None)
        if why == WAITS:
            self._leave(turn.span, at)
            return
        self._end(turn.span, self._words.turn_end(turn, event, why), at)

    # -- attempts -----------------------------------------------------------------------------------------------

    def attempt_started(self, attempt: OpenAttempt, at: float) -> None:
        self._start(attempt, attempt.turn, self._words.attempt(attempt), at)
        if attempt.span.is_recording():
            attempt.span.set_attributes(self._words.attempt_content(attempt))

    def attempt_answered(self, attempt: OpenAttempt | None, event: events.AttemptAnswered, at: float) -> None:
        if attempt is not None:
            is_recorded = attempt.span.is_recording()
            self._end(attempt.span, SpanEnd(self._words.answer(event) if is_recorded else {}), at)

    def attempt_failed(self, attempt: OpenAttempt | None, event: events.AttemptFailed, at: float) -> None:
        if attempt is not None:
            self._end(attempt.span, self._words.failure(event), at)

    def attempt_abandoned(self, attempt: OpenAttempt, at: float, why: str) -> None:
        self._end(attempt.span, self._words.abandoned(why), at)

    # -- tool calls, approvals and child agents -----------------------------------------------------------------

    def tool_started(self, tool: OpenTool, at: float) -> None:
        self._start(tool, tool.parent, self._words.tool(tool), at)

    def tool_ended(self, tool: OpenTool, event: events.ToolEnded | None, at: float, why: str = "") -> None:
        if why == WAITS:
            self._leave(tool.span, at)
            return
        if not tool.span.is_recording():
            tool.span.end()
            return
        self._end(tool.span, self._words.abandoned(why) if event is None else self._words.tool_end(event), at)

    def approval(self, subject: OpenTool | OpenTurn | None, event: ApprovalEvent, at: float) -> None:
        self._moment(subject, event, at)

    def child_started(self, child: OpenChild, at: float) -> None:
        self._moment(child.parent, child.event, at)

    def child_ended(self, parent: OpenTool | OpenTurn | None, event: events.ChildEnded, at: float) -> None:
        self._moment(parent, event, at)

    def _moment(self, subject: OpenTool | OpenTurn | None, event: MomentEvent, at: float) -> None:
        moment = self._words.moment(subject, event) if subject is not None and subject.span.is_recording() else None
        if subject is None or moment is None:
            return
        if moment.is_span:
            begin, attributes = nanoseconds(at), moment.attributes
            span = self._tracer.start_span(moment.name, subject.context, attributes=attributes, start_time=begin)
            span.end(begin)
        else:
            subject.span.add_event(moment.name, moment.attributes, nanoseconds(at))

    # -- spans --------------------------------------------------------------------------------------------------

    def _start(self, item: OpenItem, parent: OpenItem | None, start: SpanStart, at: float) -> None:
        context = self._outer_context() if parent is None else parent.context
        with self._own_id(item):
            item.span = self._tracer.start_span(
                start.name, context, start.kind, attributes=start.attributes, start_time=nanoseconds(at)
            )
        item.context = trace.set_span_in_context(item.span, context)

    def _own_id(self, item: OpenItem) -> AbstractContextManager[None]:
        """Turns and their calls have ids that another process gives them too, should they go on there."""
        if self._ids is None:
            return nullcontext()
        if isinstance(item, OpenTurn):
            if not item.is_whole:
                return nullcontext()
            self._named[item.session_id, item.id] = set()
            return self._ids.of(item.session_id, item.id)
        if isinstance(item, OpenTool) and isinstance(item.parent, OpenTurn):
            call, named = item.event.tool_call_id, self._named.get((item.session_id, item.parent.id))
            if named is not None and call not in named:
                named.add(call)
                return self._ids.of(item.session_id, item.parent.id, call)
        return nullcontext()

    def _leave(self, span: Span, at: float) -> None:
        """It waits. Whoever goes on with it ends it; where the ids are not ours no one else could."""
        if self._ids is None:
            self._end(span, SpanEnd({"hermes.status": "waiting"}), at)

    @staticmethod
    def _end(span: Span, end: SpanEnd, at: float) -> None:
        span.set_attributes(end.attributes)
        if end.is_error:
            span.set_status(StatusCode.ERROR, end.message or None)
        span.end(nanoseconds(at))


class SpanMiddleware:
    """Middleware that lets code inside a tool, and the provider, join the spans of a tracker."""

    def __init__(self, tracker: Callable[[], Tracker]) -> None:
        self._tracker = tracker

    def run_tool(self, *, next_call: Callable[..., Any], session_id: str, turn_id: str, tool_call_id: str) -> Any:
        """Spans that the tool's own code makes become children of the call's."""
        tool = self._tracker().tool(session_id, turn_id, tool_call_id)
        if tool is None:
            return next_call()
        token = otel_context.attach(trace.set_span_in_context(tool.span))
        try:
            return next_call()
        finally:
            otel_context.detach(token)

    def send_request(self, *, next_call: Callable[..., Any], api_request_id: str, request: dict[str, Any]) -> Any:
        """Add ``traceparent`` to the request, so that the provider knows which trace it belongs to."""
        attempt = self._tracker().attempt(api_request_id)
        if attempt is None:
            return next_call()
        headers: dict[str, str] = dict(request.get("extra_headers") or {})
        w3c.inject(headers, trace.set_span_in_context(attempt.span))
        return next_call({**request, "extra_headers": headers})


class FlushSink(TraceSink):
    """Calls ``flush`` when the program ends and spans have ended since it was last called."""

    def __init__(self, flush: Callable[[], None]) -> None:
        self._flush = flush
        self._has_news = False

    def turn_ended(self, turn: OpenTurn, event: events.TurnEnded | None, at: float, why: str = "") -> None:
        self._has_news = True

    def session_ended(self, event: events.SessionFinalized, at: float, *, is_child: bool) -> None:
        # A child is over in the middle of its parent's turn, which must not wait for a collector.
        if event.reason == "shutdown" and not is_child and self._has_news:
            self._has_news = False
            self._flush()


def surrounding_context(outermost: Mapping[str, str] | None) -> Context:
    """What a turn is part of: the request being served, the code that runs it, or what started the process."""
    headers: Mapping[str, str] | None = incoming()
    if not headers:
        current = otel_context.get_current()
        if trace.get_current_span(current).get_span_context().is_valid:
            return current
        headers = outermost
    return w3c.extract(dict(headers), Context()) if headers else Context()


def nanoseconds(seconds: float) -> int:
    """A time of the contract as OpenTelemetry has it."""
    return int(seconds * 1e9)
