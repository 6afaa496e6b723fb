"""The observations that are under way, found again by the ids of the contract. Used by one thread alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from langfuse import (
    LangfuseAgent,
    LangfuseEvent,
    LangfuseGeneration,
    LangfuseOtelSpanAttributes,
    LangfuseTool,
)
from opentelemetry.context import Context
from opentelemetry.trace import Span, set_span_in_context

from .pipeline import Pipeline

Level = Literal["DEFAULT", "WARNING", "ERROR"]
Kind = type[LangfuseAgent] | type[LangfuseGeneration] | type[LangfuseTool]

TURN = "hermes turn"
SUBAGENT = "hermes sub-agent"


@dataclass(slots=True)
class Node:
    """An observation and the span it is."""

    span: Span
    observation: LangfuseAgent | LangfuseGeneration | LangfuseTool

    @property
    def is_sent(self) -> bool:
        """Whether anybody will see it: it is not sampled out, and has not ended."""
        return self.span.is_recording()

    def tell(self, **what: Any) -> None:
        """Add to it."""
        self.observation.update(**{name: value for name, value in what.items() if value is not None})

    def end(self, at: float, level: Level = "DEFAULT", words: str = "", **what: Any) -> None:
        """It is over."""
        if level != "DEFAULT":
            what.update(level=level, status_message=words)
        self.tell(**what)
        self.observation.end(end_time=_nanoseconds(at))


@dataclass(slots=True)
class Turn:
    """A turn under way, with everything in it that is under way too."""

    session_id: str
    root: Node
    #: What every observation of the trace says about the trace.
    trace: dict[str, Any]
    requests: dict[str, Node] = field(default_factory=dict[str, Node])
    tools: dict[str, Node] = field(default_factory=dict[str, Node])
    model_calls: int = 0
    tool_calls: int = 0

    def inside(self, tool_call_id: str) -> Node:
        """A tool call if it is under way, else the turn."""
        return self.tools.get(tool_call_id, self.root)

    def end(self, at: float, level: Level = "DEFAULT", words: str = "", **what: Any) -> None:
        """The turn is over, and with it what was left open."""
        for node in (*self.requests.values(), *reversed(self.tools.values())):
            node.end(at, "WARNING", "the turn ended first")
        self.root.end(at, level, words, **what)


@dataclass(frozen=True, slots=True)
class Child:
    """A delegated agent: where its turns belong, and who it is."""

    parent: Node
    trace: dict[str, Any]
    about: dict[str, str]


class Tree:
    """Begins observations, each in its place."""

    def __init__(self, pipeline: Pipeline, tags: tuple[str, ...] = ()) -> None:
        self._pipeline = pipeline
        self._tags = tags
        self._turns: dict[tuple[str, str], Turn] = {}
        self._children: dict[str, Child] = {}

    # -- turns --------------------------------------------------------------------------------------------------

    def begin_turn(
        self, at: float, session_id: str, turn_id: str, *, model: str = "", platform: str = "", user_id: str = ""
    ) -> Turn:
        """A trace, or a part of the trace of whoever delegated."""
        about = {"session_id": session_id, "turn_id": turn_id, "platform": platform, "model": model}
        child = self._children.get(session_id)
        if child is None:
            trace = self._trace(session_id, platform, user_id)
            root = self._begin(LangfuseAgent, TURN, at, None, trace, about)
        else:
            trace = child.trace
            root = self._begin(LangfuseAgent, SUBAGENT, at, child.parent, trace, {**about, **child.about})
        turn = self._turns[session_id, turn_id] = Turn(session_id, root, trace)
        return turn

    def turn(self, session_id: str, turn_id: str) -> Turn | None:
        """The turn, if it is under way."""
        return self._turns.get((session_id, turn_id))

    def end_turn(self, session_id: str, turn_id: str) -> Turn | None:
        """The turn, which is no longer under way."""
        return self._turns.pop((session_id, turn_id), None)

    def take_turns(self, session_id: str | None = None) -> Iterator[Turn]:
        """All turns of a session, or all there are, children first; none of them is under way any more."""
        for key, turn in reversed(list(self._turns.items())):
            if session_id in (None, turn.session_id):
                del self._turns[key]
                yield turn

    # -- inside a turn ------------------------------------------------------------------------------------------

    def begin_request(self, at: float, turn: Turn, api_request_id: str, about: dict[str, Any], **what: Any) -> Node:
        """A generation: one attempt to have the model answer."""
        turn.model_calls += 1
        name = f"chat {what['model']}".strip()
        node = self._begin(LangfuseGeneration, name, at, turn.root, turn.trace, about, **what)
        turn.requests[api_request_id] = node
        return node

    def begin_tool(self, at: float, turn: Turn, tool_call_id: str, name: str, about: dict[str, Any]) -> Node:
        """A tool call, inside its turn or inside the call of the tool that makes it."""
        turn.tool_calls += 1
        # A call that a tool makes itself has the id of that tool's call before its own.
        parent = turn.inside(tool_call_id.rpartition("/")[0])
        node = self._begin(LangfuseTool, name or "tool", at, parent, turn.trace, about)
        turn.tools[tool_call_id] = node
        return node

    def event(self, at: float, turn: Turn, tool_call_id: str, name: str, level: Level, **what: Any) -> None:
        """Something that happened at one moment to a tool call, or else to its turn."""
        span = self._span(name, at, turn.inside(tool_call_id), turn.trace)
        event = LangfuseEvent(otel_span=span, langfuse_client=self._pipeline.client, level=level, **what)
        event.end(end_time=_nanoseconds(at))

    # -- children -----------------------------------------------------------------------------------------------

    def add_child(self, child_session_id: str, turn: Turn, tool_call_id: str, about: dict[str, str]) -> None:
        """The turns of this session will belong to the call."""
        self._children[child_session_id] = Child(turn.inside(tool_call_id), turn.trace, about)

    def remove_child(self, child_session_id: str) -> None:
        """The child works no more."""
        self._children.pop(child_session_id, None)

    # -- inside -------------------------------------------------------------------------------------------------

    def _trace(self, session_id: str, platform: str, user_id: str) -> dict[str, Any]:
        names = LangfuseOtelSpanAttributes
        tags = [tag for tag in ("hermes", platform, *self._tags) if tag]
        trace: dict[str, Any] = {names.TRACE_NAME: TURN, names.TRACE_SESSION_ID: session_id, names.TRACE_TAGS: tags}
        return {**trace, names.TRACE_USER_ID: user_id} if user_id else trace

    def _begin(
        self,
        kind: Kind,
        name: str,
        at: float,
        parent: Node | None,
        trace: dict[str, Any],
        about: dict[str, Any],
        **what: Any,
    ) -> Node:
        span = self._span(name, at, parent, trace)
        metadata = {key: value for key, value in about.items() if value not in ("", None)}
        return Node(span, kind(otel_span=span, langfuse_client=self._pipeline.client, metadata=metadata, **what))

    def _span(self, name: str, at: float, parent: Node | None, trace: dict[str, Any]) -> Span:
        # Always in a context of our own: whatever trace the code around a turn is in, it is not this one.
        context = Context() if parent is None else set_span_in_context(parent.span, Context())
        return self._pipeline.tracer.start_span(name, context, attributes=trace, start_time=_nanoseconds(at))


def _nanoseconds(seconds: float) -> int:
    return int(seconds * 1e9)
