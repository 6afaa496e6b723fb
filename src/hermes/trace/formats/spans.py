"""A recorded session as spans: one trace for each turn, with model requests, tool calls and child agents in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Literal, NamedTuple, Protocol

from hermes.trace.formats.genai import (
    AGENT_SPAN,
    AgentSubject,
    Attributes,
    InferenceSubject,
    ToolSubject,
    inference_span,
    tool_span,
)
from hermes.trace.records import (
    ApprovalRecord,
    AttemptRecord,
    Message,
    ModelStep,
    SessionRecord,
    SideCall,
    ToolCallRecord,
    ToolStep,
    TurnRecord,
    UsageRecord,
)


class Vocabulary(Protocol):
    """Says in attributes what a span is about. The modules ``genai`` and ``openinference`` are such."""

    def agent(self, turn: AgentSubject) -> Attributes: ...
    def inference(self, request: InferenceSubject) -> Attributes: ...
    def tool(self, call: ToolSubject) -> Attributes: ...
    def answer(self, *, model: str, finish_reason: str, usage: UsageRecord | None) -> Attributes: ...
    def turn_end(self, *, status: str, model_calls: int, tool_calls: int, usage: UsageRecord) -> Attributes: ...
    def failure(self, error_type: str) -> Attributes: ...
    def turn_content(self, user_message: Any = None, answer_text: str = "") -> Attributes: ...
    def instructions(self, system_prompt: str, tools: Sequence[dict[str, Any]] = ()) -> Attributes: ...
    def asked(self, messages: Iterable[Message]) -> Attributes: ...

    def answered(
        self, text: str, reasoning: str, calls: Iterable[ToolCallRecord], finish_reason: str
    ) -> Attributes: ...

    def called(self, args: dict[str, Any], result: str) -> Attributes: ...


@dataclass(frozen=True, slots=True)
class SpanEvent:
    """Something that happened in a span, at one moment."""

    name: str
    at: float
    attributes: Attributes


@dataclass(slots=True)
class Span:
    """One piece of work. Ids are the lower-case hexadecimal digits that OTLP/JSON has."""

    trace_id: str
    span_id: str
    parent_id: str
    name: str
    kind: Literal["internal", "client"]
    started_at: float
    ended_at: float
    attributes: Attributes
    #: What went well is left without a status, as the conventions ask; so is what the user stopped or did not allow.
    is_error: bool = False
    error: str = ""
    events: list[SpanEvent] = field(default_factory=list[SpanEvent])


class _SpanPlace(NamedTuple):
    """Where a request belongs; what is asked between two turns is a trace of its own."""

    session_id: str
    turn_id: str
    trace_id: str
    parent_id: str


@dataclass(frozen=True, slots=True)
class SpanTree:
    """Makes the spans of a session and its descendants, parents first.

    Ids follow from those of the session, so that exporting it again gives the same spans.
    """

    words: Vocabulary
    content: bool

    def spans(self, session: SessionRecord, callers: dict[tuple[str, str], Span] | None = None) -> Iterator[Span]:
        """``callers``: the tool calls of the delegating session, by turn and call id."""
        caller = (callers or {}).get((session.parent_turn_id, session.parent_tool_call_id))
        own_calls: dict[tuple[str, str], Span] = {}
        # A branch repeats the turns it was made from; they belong to the session where they happened.
        for position, turn in enumerate(one for one in session.turns if not one.copied):
            for span, call_id in self._turn(session, turn, caller, is_first=position == 0):
                if call_id:
                    own_calls[turn.id, call_id] = own_calls["", call_id] = span
                yield span
        for side in session.side_calls:
            trace_id = digest(16, "trace", session.id, side.attempt.api_request_id)
            yield self._side_call(side, _SpanPlace(session.id, "", trace_id, ""))
        for child in session.children:
            yield from self.spans(child, own_calls)

    def _turn(
        self, session: SessionRecord, turn: TurnRecord, caller: Span | None, *, is_first: bool
    ) -> Iterator[tuple[Span, str]]:
        """The spans of a turn, each with the id of its tool call, if it has one."""
        words = self.words
        root = Span(
            trace_id=caller.trace_id if caller else digest(16, "trace", session.id, turn.id),
            span_id=digest(8, "turn", session.id, turn.id),
            parent_id=caller.span_id if caller else "",
            name=AGENT_SPAN,
            kind="internal",
            started_at=turn.started_at,
            ended_at=_end_of(turn),
            attributes=words.agent(
                AgentSubject(session.id, turn.id, session.model, session.platform, session.subagent_id, session.role)
            ),
            is_error=turn.status == "failed",
            error=turn.error,
            events=[SpanEvent(f"hermes.{mark.name}", mark.at, _scalars(mark.data)) for mark in turn.marks],
        )
        below = [*self._requests(session, turn, root), *self._tools(session, turn, root)]
        spent = sum((step.usage for step in turn.steps if step.usage), UsageRecord())
        asked = sum(len(step.attempts) for step in turn.steps)
        calls = sum(1 for _ in turn.tools())
        root.attributes.update(words.turn_end(status=turn.status, model_calls=asked, tool_calls=calls, usage=spent))
        if turn.status == "failed":
            root.attributes["error.type"] = "turn_failed"
        if turn.undone:
            root.attributes["hermes.turn.undone"] = True
        if self.content:
            root.attributes.update(words.turn_content(turn.user_message, turn.answer))
            if is_first:
                root.attributes.update(words.instructions(session.system_prompt, session.tools))
        yield root, ""
        yield from below

    # -- requests -----------------------------------------------------------------------------------------------

    def _requests(self, session: SessionRecord, turn: TurnRecord, root: Span) -> Iterator[tuple[Span, str]]:
        number = 0
        place = _SpanPlace(session.id, turn.id, root.trace_id, root.span_id)
        before: ModelStep | None = None
        for step in turn.steps:
            for attempt in step.attempts:
                number += 1
                span = self._request(attempt, place, number)
                if self.content:
                    span.attributes.update(self.words.asked(_new_messages(session, turn, step, before)))
                if attempt.status == "ok":
                    span.attributes.update(
                        self.words.answer(model=step.model, finish_reason=step.finish_reason, usage=step.usage)
                    )
                    if self.content:
                        said = self.words.answered(step.text, step.reasoning, step.tool_calls, step.finish_reason)
                        span.attributes.update(said)
                yield span, ""
            before = step
        for side in turn.side_calls:
            yield self._side_call(side, place), ""

    def _side_call(self, side: SideCall, place: _SpanPlace) -> Span:
        span = self._request(side.attempt, place, 0)
        span.attributes["hermes.purpose"] = side.purpose
        if side.usage is not None:
            span.attributes.update(self.words.answer(model=side.attempt.model, finish_reason="", usage=side.usage))
        return span

    def _request(self, attempt: AttemptRecord, place: _SpanPlace, number: int) -> Span:
        ids = (place.session_id, place.turn_id, attempt.api_request_id)
        subject = InferenceSubject(*ids, attempt.provider, attempt.model, attempt=number)
        span = Span(
            trace_id=place.trace_id,
            span_id=digest(8, "request", place.session_id, attempt.api_request_id),
            parent_id=place.parent_id,
            name=inference_span(attempt.model),
            kind="client",
            started_at=attempt.started_at,
            ended_at=attempt.ended_at or attempt.started_at,
            attributes=self.words.inference(subject),
            is_error=attempt.status in ("error", "crashed"),
            error=attempt.error,
        )
        if attempt.status in ("error", "crashed", "interrupted"):
            span.attributes["error.type"] = _error_class(attempt)
        if attempt.first_token is not None:
            span.attributes["gen_ai.response.time_to_first_chunk"] = attempt.first_token
        return span

    # -- tools --------------------------------------------------------------------------------------------------

    def _tools(self, session: SessionRecord, turn: TurnRecord, root: Span) -> Iterator[tuple[Span, str]]:
        made: dict[str, Span] = {}
        groups = [(step.number, step.attempts[-1].api_request_id, step.tools) for step in turn.steps]
        # A call that a tool made has the id of that tool's call before its own; it starts later and ends earlier.
        others = sorted(turn.other_tools, key=lambda tool: tool.started_at)
        for number, api_request_id, tools in [*groups, (0, "", others)]:
            for tool in tools:
                parent = made.get(tool.tool_call_id.rpartition("/")[0], root)
                span = self._tool(session, turn, parent, tool, number, api_request_id)
                made[tool.tool_call_id] = span
                yield span, tool.tool_call_id

    def _tool(
        self, session: SessionRecord, turn: TurnRecord, parent: Span, tool: ToolStep, step: int, api_request_id: str
    ) -> Span:
        span = Span(
            trace_id=parent.trace_id,
            span_id=digest(8, "tool", session.id, turn.id, str(step), tool.tool_call_id),
            parent_id=parent.span_id,
            name=tool_span(tool.name),
            kind="internal",
            started_at=tool.started_at,
            ended_at=tool.ended_at or tool.started_at,
            attributes=self.words.tool(ToolSubject(session.id, turn.id, tool.tool_call_id, tool.name, api_request_id)),
            is_error=tool.status in ("error", "timeout"),
            error=tool.error_message if self.content else "",
            events=[event for approval in tool.approvals for event in _approval_events(approval)],
        )
        span.attributes["hermes.tool.status"] = tool.status
        if tool.status not in ("ok", "running"):
            span.attributes["error.type"] = tool.error_type or tool.status
        if self.content:
            span.attributes.update(self.words.called(tool.args, tool.result))
        return span


def digest(size: int, *ids: str) -> str:
    """An id of ``size`` bytes that follows from other ids, in hexadecimal digits."""
    return sha256("\x1f".join(ids).encode("utf-8", "replace")).hexdigest()[: size * 2]


def _new_messages(
    session: SessionRecord, turn: TurnRecord, step: ModelStep, before: ModelStep | None
) -> Iterator[Message]:
    """What a request had that no earlier one of the session had: all of it every time would grow with the square."""
    if before is None:
        if session.system_prompt and session.turns and turn is session.turns[0]:
            yield {"role": "system", "content": session.system_prompt}
        yield {"role": "user", "content": turn.user_message}
        if turn.context:
            yield {"role": "user", "content": turn.context}
    else:
        for tool in before.tools:
            yield {"role": "tool", "tool_call_id": tool.tool_call_id, "content": tool.result}
    yield from step.messages


def _approval_events(approval: ApprovalRecord) -> Iterator[SpanEvent]:
    about: Attributes = {
        "hermes.approval.rule": approval.rules[0] if approval.rules else "",
        "hermes.approval.surface": approval.surface,
        "hermes.approval.description": approval.description,
    }
    yield SpanEvent("hermes.approval.request", approval.asked_at, about)
    if approval.answered_at is not None:
        answer: Attributes = {**about, "hermes.approval.choice": approval.choice}
        yield SpanEvent("hermes.approval.response", approval.answered_at, answer)


def _error_class(attempt: AttemptRecord) -> str:
    """The class of failure that an error text begins with, or else how the attempt ended."""
    name, colon, _ = attempt.error.partition(":")
    return name if colon and name.isidentifier() else attempt.status


def _end_of(turn: TurnRecord) -> float:
    """When a turn ended, or when it was last heard of."""
    if turn.ended_at is not None:
        return turn.ended_at
    attempts = (attempt for step in turn.steps for attempt in step.attempts)
    times = [one.ended_at or one.started_at for one in (*attempts, *turn.tools())]
    return max(times, default=turn.started_at)


def _scalars(data: dict[str, Any]) -> Attributes:
    return {f"hermes.{name}": value for name, value in data.items() if isinstance(value, str | int | float | bool)}
