"""Records of a run: what every trace format is made from.

``collector.Collector`` makes them while a session runs, from typed events; ``journal.session.session_record`` makes the
same ones afterwards, from what is on disk. Both hand out records that do not change any more. Texts and arguments are
redacted by then: a format may write all it finds. Times are seconds since the epoch. Every collection is in order of
time, tool results by when they came in.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import astuple, replace

from hermes.models.costs.usage import TokenUsage

Message = dict[str, Any]

AttemptStatus = Literal["running", "ok", "error", "interrupted", "crashed"]
ToolStatus = Literal["running", "ok", "error", "blocked", "cancelled", "timeout"]
#: Of a turn, and of a session: the state of its last turn.
RunStatus = Literal["running", "completed", "failed", "interrupted"]


class UsageRecord(TokenUsage):
    """What an answer took."""

    @classmethod
    def from_counts(cls, counts: Mapping[str, int] | None, cost_usd: float | None = None) -> UsageRecord | None:
        """The counts as ``post_api_request`` has them; None when there are none."""
        if counts is None:
            return None
        return cls(*(counts.get(name, 0) for name in cls.__struct_fields__[:5]), cost_usd=cost_usd)

    def __add__(self, other: UsageRecord) -> UsageRecord:
        """The sum of two. A cost that is unknown in one of them counts only what is known."""
        known = [cost for cost in (self.cost_usd, other.cost_usd) if cost is not None]
        *counts, _ = map(operator.add, astuple(replace(self, cost_usd=0.0)), astuple(replace(other, cost_usd=0.0)))
        return UsageRecord(*counts, cost_usd=sum(known) if known else None)


class AttemptRecord(Struct, frozen=True):
    """One request to one provider. A step has several when some failed; only the last can be ``ok``."""

    api_request_id: str
    provider: str
    model: str
    started_at: float
    ended_at: float | None
    status: AttemptStatus
    #: What went wrong, as text.
    error: str = ""
    #: How many attempts of the step went to the same provider and model before.
    retry: int = 0
    #: Seconds from the start to the first piece of the answer, where it was measured.
    first_token: float | None = None


class ToolCallRecord(Struct, frozen=True):
    """A call as the model asked for it; arguments that were no JSON object are kept as ``{"_raw": text}``."""

    id: str
    name: str
    arguments: dict[str, Any]


class ApprovalRecord(Struct, frozen=True):
    """A question about a tool call, and its answer."""

    tool_call_id: str
    command: str
    description: str
    #: The rules that asked, the one that ``always`` would store first.
    rules: tuple[str, ...]
    #: Where the question was asked.
    surface: str
    asked_at: float
    answered_at: float | None = None
    #: ``once``, ``session``, ``always``, ``deny``, ``timeout``, ``smart_approve`` …; empty while it is open.
    choice: str = ""


class ToolStep(Struct):
    """One tool call, from the moment it was announced to its result."""

    tool_call_id: str
    name: str
    #: What the tool ran with, after middleware.
    args: dict[str, Any]
    started_at: float
    ended_at: float | None = None
    status: ToolStatus = "running"
    #: What the tool returned, whole; empty while it runs.
    result: str = ""
    error_type: str = ""
    error_message: str = ""
    approvals: list[ApprovalRecord] = []

    def copy(self) -> ToolStep:
        return replace(self, approvals=list(self.approvals))


class ModelStep(Struct):
    """One step of a turn: a question to the model, every attempt to have it answered, and the tools it then called."""

    #: Counts the steps of a turn from 1.
    number: int
    attempts: list[AttemptRecord]
    #: What the request had that no earlier one had, beside the user's message, replies and tool results:
    #: steering, a word of ``pre_verify``, the note that the budget is spent.
    messages: list[Message] = []
    text: str = ""
    reasoning: str = ""
    tool_calls: tuple[ToolCallRecord, ...] = ()
    usage: UsageRecord | None = None
    #: Empty when no attempt was answered.
    finish_reason: str = ""
    #: The model that really answered, or was asked last.
    model: str = ""
    provider: str = ""
    #: The calls of this reply, in the order in which they ended; those still running come last.
    tools: list[ToolStep] = []

    @property
    def started_at(self) -> float:
        return self.attempts[0].started_at

    @property
    def ended_at(self) -> float | None:
        """When the model had answered, or the last attempt had failed."""
        return self.attempts[-1].ended_at

    @property
    def is_answered(self) -> bool:
        return bool(self.attempts) and self.attempts[-1].status == "ok"

    def add_attempt(self, attempt: AttemptRecord) -> None:
        """Another attempt, or the end of the one that is known by that id."""
        started_at = attempt.started_at
        if self.attempts and self.attempts[-1].api_request_id == attempt.api_request_id:
            before = self.attempts.pop()
            retry, started_at = before.retry, started_at or before.started_at
        else:
            same = [one for one in self.attempts if one.provider == attempt.provider]
            # A server may answer under another name than it was asked by.
            retry = sum(attempt.status == "ok" or one.model == attempt.model for one in same)
        self.provider, self.model = attempt.provider, attempt.model
        self.attempts.append(replace(attempt, started_at=started_at or attempt.ended_at or 0.0, retry=retry))

    def copy(self) -> ModelStep:
        tools = [tool.copy() for tool in self.tools]
        return replace(self, attempts=list(self.attempts), messages=list(self.messages), tools=tools)


class SideCall(Struct, frozen=True):
    """A question to a model beside the conversation: a summary, an approval by a model, a plugin's own."""

    purpose: str
    attempt: AttemptRecord
    usage: UsageRecord | None = None


class Mark(Struct, frozen=True):
    """Something that happened at one moment.

    ``resumed`` (a turn that was cut off continues), ``undone`` (the user took it back), ``compacted`` (older messages
    were condensed; ``data`` has ``summary`` and, where known, ``reason``, ``tokens_before``, ``tokens_after``).
    """

    name: str
    at: float
    data: dict[str, Any] = {}


class TurnRecord(Struct):
    """One message of the user and everything done about it."""

    id: str
    task_id: str
    #: As it was sent: text, or a list of content parts.
    user_message: str | list[Any]
    started_at: float
    ended_at: float | None = None
    status: RunStatus = "running"
    answer: str = ""
    error: str = ""
    steps: list[ModelStep] = []
    #: What a memory and plugins added to the user's message, for this turn only.
    context: str = ""
    #: Calls that no reply asked for: a plugin made them.
    other_tools: list[ToolStep] = []
    side_calls: list[SideCall] = []
    marks: list[Mark] = []
    #: Taken back by the user: it happened, and the conversation continues without it.
    undone: bool = False
    #: Taken over with the session this one is a branch of, where it was paid for.
    copied: bool = False

    def tools(self) -> Iterator[ToolStep]:
        """Every tool call of the turn."""
        for step in self.steps:
            yield from step.tools
        yield from self.other_tools

    def step(self) -> ModelStep:
        """The current step: the last one until it is answered, then another. It is to be given an attempt."""
        if not self.steps or self.steps[-1].is_answered:
            self.steps.append(ModelStep(len(self.steps) + 1, []))
        return self.steps[-1]

    def tools_of(self, tool_call_id: str) -> list[ToolStep]:
        """Where a call belongs. The one that a reply asked for is over once; a further one is a call of its own."""
        asking = (step for step in reversed(self.steps) if any(call.id == tool_call_id for call in step.tool_calls))
        step = next(asking, None)
        known = [tool for tool in step.tools if tool.tool_call_id == tool_call_id] if step is not None else []
        is_over = known and all(tool.status != "running" for tool in known)
        return self.other_tools if step is None or is_over else step.tools

    def close(self, status: RunStatus, at: float) -> None:
        """The turn is over, and so is everything in it: nothing more will be heard of what still runs."""
        self.status, self.ended_at = status, at
        for step in self.steps:
            if step.attempts[-1].status == "running":
                step.add_attempt(replace(step.attempts[-1], ended_at=at, status="interrupted"))
        for tool in self.tools():
            if tool.status == "running":
                tool.status, tool.ended_at = "cancelled", at

    def copy(self) -> TurnRecord:
        steps, tools = [step.copy() for step in self.steps], [tool.copy() for tool in self.other_tools]
        return replace(self, steps=steps, other_tools=tools, side_calls=list(self.side_calls), marks=list(self.marks))


def running_tool(tools: list[ToolStep], tool_call_id: str) -> ToolStep | None:
    """The call of that id that has not ended."""
    return next((tool for tool in tools if tool.tool_call_id == tool_call_id and tool.status == "running"), None)


def put_ended(tools: list[ToolStep], tool: ToolStep) -> None:
    """Put a call behind those that ended before it, and before those that run."""
    others = [one for one in tools if one is not tool]
    ended = [one for one in others if one.status != "running"]
    tools[:] = [*ended, tool, *(one for one in others if one.status == "running")]


class SessionRecord(Struct):
    """One conversation. ``children`` are the conversations it delegated to, nested as deep as they went."""

    id: str
    platform: str = ""
    model: str = ""
    provider: str = ""
    started_at: float = 0.0
    ended_at: float | None = None
    status: RunStatus = "running"
    title: str = ""
    system_prompt: str = ""
    #: What the model was offered, each as ``{"type": "function", "function": {...}}``.
    tools: list[dict[str, Any]] = []
    turns: list[TurnRecord] = []
    children: list[SessionRecord] = []
    #: Of a child: who delegated, in which turn, by which call, and to whom.
    parent_id: str = ""
    parent_turn_id: str = ""
    parent_tool_call_id: str = ""
    subagent_id: str = ""
    role: str = ""
    goal: str = ""
    #: Compactions that were asked for between two turns.
    marks: list[Mark] = []
    #: Questions beside the conversation between two turns, such as the command of a plugin asks.
    side_calls: list[SideCall] = []

    def open_turn(self) -> TurnRecord | None:
        """The turn that has not ended."""
        return self.turns[-1] if self.turns and self.turns[-1].status == "running" else None

    def as_of_now(self) -> SessionRecord:
        """A copy that does not change any more, with the state of the last turn as its own."""
        turn, last = self.open_turn(), self.turns[-1] if self.turns else None
        return replace(
            self,
            ended_at=self.ended_at or (last.ended_at if last is not None else None),
            status=last.status if last is not None else self.status,
            turns=[*self.turns[:-1], turn.copy()] if turn is not None else list(self.turns),
            children=[child.as_of_now() for child in self.children],
            marks=list(self.marks),
            side_calls=list(self.side_calls),
        )

    def children_by_call(self) -> dict[tuple[str, str], list[SessionRecord]]:
        """The children by the turn and the tool call that started them."""
        found: dict[tuple[str, str], list[SessionRecord]] = {}
        for child in self.children:
            found.setdefault((child.parent_turn_id, child.parent_tool_call_id), []).append(child)
        return found

    def usage(self) -> UsageRecord:
        """What its own steps took, without children and side calls."""
        return sum((step.usage for turn in self.turns for step in turn.steps if step.usage), UsageRecord())


def family(session: SessionRecord) -> Iterator[SessionRecord]:
    """A session and all its descendants, parents first."""
    yield session
    for child in session.children:
        yield from family(child)
