"""Event tracker: what is open in the sessions of a host, keyed by the ids of the contract, feeding sinks.

Exporters give the tracker typed events and receive calls about turns, attempts, tool calls, approvals and child
agents, each with the object that represents it. Every start that a sink hears of is followed by exactly one end: what
never ends by itself is abandoned when its turn, its session or the process ends. What waits for an answer by then is
left with the reason ``WAITS``: it has not failed, and another process may go on with it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

from hermes.contract import events
from hermes.trace.records import UsageRecord

ApprovalEvent = events.ApprovalRequested | events.ApprovalAnswered
#: The events that happen at one moment of a turn or a tool call.
MomentEvent = ApprovalEvent | events.ChildStarted | events.ChildEnded

#: Why something is left that another process may continue.
WAITS = "it waits for an answer"

#: Session, turn and call: a provider may use the same call id in every turn.
CallKey = tuple[str, str, str]


@dataclass(slots=True, eq=False)
class OpenItem:
    """Something that has started and not ended. ``span`` and ``context`` are for the sink's own use."""

    session_id: str
    started_at: float
    span: Any = field(default=None, kw_only=True)
    context: Any = field(default=None, kw_only=True)


@dataclass(slots=True, eq=False)
class OpenTurn(OpenItem):
    """An open turn, and the totals of its attempts and tool calls."""

    id: str
    model: str = ""
    platform: str = ""
    user_id: str = ""
    #: The delegation that the turn belongs to.
    child: OpenChild | None = None
    model_calls: int = 0
    tool_calls: int = 0
    usage: UsageRecord = field(default_factory=UsageRecord)
    #: The class of the last attempt's failure, until one is answered.
    failure: str = ""
    #: Whether it begins here, or goes on here after it waited for an answer in another process: what is said of it
    #: then is all of it. A turn that ended elsewhere and was taken up again is another one.
    is_whole: bool = True


@dataclass(slots=True, eq=False)
class OpenAttempt(OpenItem):
    """An open request to a provider."""

    event: events.AttemptStarted
    turn: OpenTurn


@dataclass(slots=True, eq=False)
class OpenTool(OpenItem):
    """An open tool call, inside a turn or inside the call of the tool that makes it."""

    event: events.ToolStarted | events.ToolEnded
    parent: OpenTurn | OpenTool | None
    #: There is a question about it without an answer.
    waits: bool = False


@dataclass(slots=True, eq=False)
class OpenChild(OpenItem):
    """A child agent, and the call or turn that delegated to it."""

    event: events.ChildStarted
    parent: OpenTurn | OpenTool | None


class TraceSink:
    """The receiver of tracked events. A sink overrides the methods it needs; ``at`` is the time of the event."""

    def session_started(self, event: events.SessionStarted, at: float) -> None:
        """A new session."""

    def session_ended(self, event: events.SessionFinalized, at: float, *, is_child: bool) -> None:
        """A session identity is closed; everything in it has ended."""

    def turn_started(self, turn: OpenTurn, event: events.TurnStarted | None, at: float) -> None:
        """A turn; without an event when another process began it."""

    def turn_answered(self, turn: OpenTurn, event: events.TurnAnswered) -> None:
        """A turn has its final answer."""

    def turn_ended(self, turn: OpenTurn, event: events.TurnEnded | None, at: float, why: str = "") -> None:
        """A turn is over; without an event when it is abandoned, for the reason ``why``."""

    def attempt_started(self, attempt: OpenAttempt, at: float) -> None:
        """A request to a provider."""

    def attempt_answered(self, attempt: OpenAttempt | None, event: events.AttemptAnswered, at: float) -> None:
        """Its answer; without ``attempt`` when its start was not seen."""

    def attempt_failed(self, attempt: OpenAttempt | None, event: events.AttemptFailed, at: float) -> None:
        """Its failure."""

    def attempt_abandoned(self, attempt: OpenAttempt, at: float, why: str) -> None:
        """It never ended."""

    def tool_started(self, tool: OpenTool, at: float) -> None:
        """A tool call."""

    def tool_ended(self, tool: OpenTool, event: events.ToolEnded | None, at: float, why: str = "") -> None:
        """A tool call is over; without an event when it is abandoned."""

    def approval(self, subject: OpenTool | OpenTurn | None, event: ApprovalEvent, at: float) -> None:
        """A question about a tool call, or its answer."""

    def child_started(self, child: OpenChild, at: float) -> None:
        """A child agent."""

    def child_ended(self, parent: OpenTool | OpenTurn | None, event: events.ChildEnded, at: float) -> None:
        """A child agent is over."""


class Tracker:
    """Keeps what is open and reports it to sinks, in the thread that ``take`` is called in.

    There are no locks: every change of a table is a single operation, and a process may be forked at any moment.
    """

    def __init__(self, *sinks: TraceSink, clock: Callable[[], float] = time.time) -> None:
        self._sinks = sinks
        self._clock = clock
        self._turns: dict[tuple[str, str], OpenTurn] = {}
        self._attempts: dict[str, OpenAttempt] = {}
        #: Calls with the same id in the order in which they started.
        self._tools: dict[CallKey, list[OpenTool]] = {}
        self._children: dict[str, OpenChild] = {}
        #: When calls went on that another process began.
        self._continued: dict[CallKey, float] = {}

    def take(self, event: events.Event, at: float | None = None) -> None:
        """Take in an event; ``at`` is when it happened, else now. Events that say nothing about a run are ignored."""
        handle = self._HANDLERS.get(type(event))
        if handle is not None:
            handle(self, event, self._clock() if at is None else at)

    # -- looking up ---------------------------------------------------------------------------------------------

    def turn(self, session_id: str, turn_id: str) -> OpenTurn | None:
        return self._turns.get((session_id, turn_id))

    def attempt(self, api_request_id: str) -> OpenAttempt | None:
        return self._attempts.get(api_request_id)

    def tool(self, session_id: str, turn_id: str, tool_call_id: str) -> OpenTool | None:
        """The open tool call that started first of those with that id."""
        calls = self._tools.get((session_id, turn_id, tool_call_id))
        return calls[0] if calls else None

    def _subject(self, session_id: str, turn_id: str, tool_call_id: str) -> OpenTool | OpenTurn | None:
        """A tool call if it is open, else its turn."""
        return self.tool(session_id, turn_id, tool_call_id) or self.turn(session_id, turn_id)

    # -- sessions and turns -------------------------------------------------------------------------------------

    def _session_started(self, event: events.SessionStarted, at: float) -> None:
        for sink in self._sinks:
            sink.session_started(event, at)

    def _session_finalized(self, event: events.SessionFinalized, at: float) -> None:
        self.abandon("the session ended first", at, event.session_id)
        for sink in self._sinks:
            sink.session_ended(event, at, is_child=event.session_id in self._children)

    def _turn_started(self, event: events.TurnStarted, at: float) -> None:
        turn = OpenTurn(event.session_id, at, event.turn_id, event.model, event.platform, event.sender_id)
        self._open_turn(turn, event)

    def _open_turn(self, turn: OpenTurn, event: events.TurnStarted | None) -> OpenTurn:
        turn.child = self._children.get(turn.session_id)
        earlier = self._turns.pop((turn.session_id, turn.id), None)
        if earlier is not None:
            self._close_turn(earlier, None, turn.started_at, "it began again")
        self._turns[turn.session_id, turn.id] = turn
        for sink in self._sinks:
            sink.turn_started(turn, event, turn.started_at)
        return turn

    def _turn_of(self, event: events.AttemptStarted | events.ToolStarted | events.ToolEnded, at: float) -> OpenTurn:
        """The turn of an event. One that another process began, and that continues here, has no other start."""
        found = self.turn(event.session_id, event.turn_id)
        if found is not None:
            return found
        model, platform = (event.model, event.platform) if isinstance(event, events.AttemptStarted) else ("", "")
        left = OpenTurn(event.session_id, at, event.turn_id, model, platform, is_whole=False)
        return self._open_turn(left, None)

    def _turn_answered(self, event: events.TurnAnswered, _at: float) -> None:
        turn = self.turn(event.session_id, event.turn_id)
        if turn is not None:
            for sink in self._sinks:
                sink.turn_answered(turn, event)

    def _turn_ended(self, event: events.TurnEnded, at: float) -> None:
        turn = self._turns.pop((event.session_id, event.turn_id), None)
        if turn is not None:
            self._close_turn(turn, event, at)

    def _close_turn(self, turn: OpenTurn, event: events.TurnEnded | None, at: float, why: str = "") -> None:
        for attempt in [one for one in self._attempts.values() if one.turn is turn]:
            self._abandon_attempt(attempt.event.api_request_id, at, "the turn ended first")
        self._abandon_tools(at, turn.session_id, turn.id, why if why == WAITS else "the turn ended first")
        for sink in self._sinks:
            sink.turn_ended(turn, event, at, why)

    def _abandon_attempt(self, api_request_id: str, at: float, why: str) -> None:
        attempt = self._attempts.pop(api_request_id, None)
        if attempt is not None:
            for sink in self._sinks:
                sink.attempt_abandoned(attempt, at, why)

    def _abandon_tools(self, at: float, session_id: str, turn_id: str, why: str = "the turn ended first") -> None:
        for key in [key for key in list(self._continued) if key[:2] == (session_id, turn_id)]:
            self._continued.pop(key, None)
        for key in [key for key in reversed(list(self._tools)) if key[:2] == (session_id, turn_id)]:
            for tool in self._tools.pop(key, ()):
                for sink in self._sinks:
                    sink.tool_ended(tool, None, at, why)

    def _waiting(self) -> set[OpenTurn]:
        """The turns that wait for an answer: those with a question, and those that delegated to them."""
        found: set[OpenTurn] = set()
        for tool in [tool for calls in list(self._tools.values()) for tool in calls if tool.waits]:
            item: OpenTool | OpenTurn | None = tool
            while item is not None:
                if isinstance(item, OpenTurn):
                    found.add(item)
                    item = item.child.parent if item.child is not None else None
                else:
                    item = item.parent
        return found

    def abandon(self, why: str, at: float | None = None, session_id: str | None = None) -> None:
        """End what is open in a session, or everywhere: nothing more will be heard of it."""
        at = self._clock() if at is None else at
        waiting = self._waiting()
        for key, turn in reversed(list(self._turns.items())):
            if session_id in (None, turn.session_id) and self._turns.pop(key, None) is not None:
                self._close_turn(turn, None, at, WAITS if turn in waiting else why)
        for key in list(self._tools):  # of calls outside a turn
            if session_id in (None, key[0]):
                self._abandon_tools(at, *key[:2])

    # -- attempts -----------------------------------------------------------------------------------------------

    def _attempt_started(self, event: events.AttemptStarted, at: float) -> None:
        self._abandon_attempt(event.api_request_id, at, "it began again")
        turn = self._turn_of(event, at)
        turn.model_calls += 1
        attempt = OpenAttempt(event.session_id, event.started_at or at, event, turn)
        self._attempts[event.api_request_id] = attempt
        for sink in self._sinks:
            sink.attempt_started(attempt, attempt.started_at)

    def _attempt_answered(self, event: events.AttemptAnswered, at: float) -> None:
        turn, attempt = self.turn(event.session_id, event.turn_id), self._attempts.pop(event.api_request_id, None)
        if turn is not None:
            turn.failure = ""
            turn.usage = turn.usage + (UsageRecord.from_counts(event.usage, event.cost_usd) or UsageRecord())
        for sink in self._sinks:
            sink.attempt_answered(attempt, event, event.ended_at or at)

    def _attempt_failed(self, event: events.AttemptFailed, at: float) -> None:
        turn, attempt = self.turn(event.session_id, event.turn_id), self._attempts.pop(event.api_request_id, None)
        if turn is not None:
            turn.failure = event.reason
        for sink in self._sinks:
            sink.attempt_failed(attempt, event, event.ended_at or at)

    # -- tool calls and approvals -------------------------------------------------------------------------------

    def _open_tool(self, event: events.ToolStarted | events.ToolEnded, at: float) -> None:
        turn = self._turn_of(event, at) if event.turn_id else None
        if turn is not None:
            turn.tool_calls += 1
        # A call that a tool makes itself has the id of that tool's call before its own.
        outer = event.tool_call_id.rpartition("/")[0]
        tool = OpenTool(event.session_id, at, event, self.tool(event.session_id, event.turn_id, outer) or turn)
        self._tools.setdefault((event.session_id, event.turn_id, event.tool_call_id), []).append(tool)
        for sink in self._sinks:
            sink.tool_started(tool, at)

    def _tool_ended(self, event: events.ToolEnded, at: float) -> None:
        key = (event.session_id, event.turn_id, event.tool_call_id)
        calls = self._tools.get(key)
        if not calls:  # another process began it
            self._open_tool(event, self._continued.pop(key, at - event.duration_ms / 1000))
            calls = self._tools[key]
        tool = calls.pop(0)
        if not calls:
            self._tools.pop(key, None)
        for sink in self._sinks:
            sink.tool_ended(tool, event, at)

    def _approval(self, event: ApprovalEvent, at: float) -> None:
        is_answer = isinstance(event, events.ApprovalAnswered)
        subject = self._subject(event.session_id, event.turn_id, event.tool_call_id)
        if isinstance(subject, OpenTool):
            subject.waits = not is_answer
        elif is_answer and event.turn_id:  # another process asked
            turn = OpenTurn(event.session_id, at, event.turn_id)
            subject = subject or self._open_turn(turn, None)
            self._continued[event.session_id, event.turn_id, event.tool_call_id] = at
        for sink in self._sinks:
            sink.approval(subject, event, at)

    # -- child agents -------------------------------------------------------------------------------------------

    def _child_started(self, event: events.ChildStarted, at: float) -> None:
        parent = self._subject(event.session_id, event.turn_id, event.tool_call_id)
        child = self._children[event.child_session_id] = OpenChild(event.child_session_id, at, event, parent)
        for sink in self._sinks:
            sink.child_started(child, at)

    def _child_ended(self, event: events.ChildEnded, at: float) -> None:
        self._children.pop(event.child_session_id, None)
        self.abandon(f"the child agent ended first: {event.child_status}", at, event.child_session_id)
        parent = self._subject(event.session_id, event.turn_id, event.tool_call_id)
        for sink in self._sinks:
            sink.child_ended(parent, event, at)

    _HANDLERS: ClassVar[dict[type[events.Event], Callable[[Tracker, Any, float], None]]] = {
        events.SessionStarted: _session_started,
        events.SessionFinalized: _session_finalized,
        events.TurnStarted: _turn_started,
        events.TurnAnswered: _turn_answered,
        events.TurnEnded: _turn_ended,
        events.AttemptStarted: _attempt_started,
        events.AttemptAnswered: _attempt_answered,
        events.AttemptFailed: _attempt_failed,
        events.ToolStarted: _open_tool,
        events.ToolEnded: _tool_ended,
        events.ApprovalRequested: _approval,
        events.ApprovalAnswered: _approval,
        events.ChildStarted: _child_started,
        events.ChildEnded: _child_ended,
    }


#: The events that a tracker takes.
TRACKED = tuple(Tracker._HANDLERS)  # pyright: ignore[reportPrivateUsage]
