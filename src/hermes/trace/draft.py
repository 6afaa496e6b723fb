"""Drafts of records: what is known of a run so far, to be frozen at any moment; and drafts of its earlier turns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeVar

from msgspec import Struct

from hermes.trace.clean import Cleaner
from hermes.trace.records import (
    ApprovalRecord,
    AttemptRecord,
    AttemptStatus,
    Mark,
    Message,
    ModelStep,
    RunStatus,
    SessionRecord,
    SideCall,
    ToolCallRecord,
    ToolStatus,
    ToolStep,
    TurnRecord,
    UsageRecord,
)

RecordT = TypeVar("RecordT", bound=Struct)


@dataclass(slots=True)
class ToolDraft:
    """An open tool call."""

    tool_call_id: str
    name: str
    args: dict[str, Any]
    started_at: float
    ended_at: float | None = None
    status: ToolStatus = "running"
    result: str = ""
    error_type: str = ""
    error_message: str = ""
    approvals: list[ApprovalRecord] = field(default_factory=list[ApprovalRecord])

    def freeze(self) -> ToolStep:
        return _record(ToolStep, self, approvals=tuple(self.approvals))


@dataclass(slots=True)
class ToolDrafts:
    """Tool calls that belong together: those that run by id, and those that ended, in that order."""

    running: dict[str, ToolDraft] = field(default_factory=dict[str, ToolDraft])
    ended: list[ToolDraft] = field(default_factory=list[ToolDraft])

    def freeze(self) -> tuple[ToolStep, ...]:
        return tuple(tool.freeze() for tool in (*self.ended, *self.running.values()))

    def close(self, at: float) -> None:
        """Nothing more will be heard of what still runs."""
        for tool in self.running.values():
            tool.status, tool.ended_at = "cancelled", at
            self.ended.append(tool)
        self.running.clear()


@dataclass(slots=True)
class StepDraft:
    """An open model step. It has at least one attempt."""

    number: int
    attempts: list[AttemptRecord] = field(default_factory=list[AttemptRecord])
    messages: list[Message] = field(default_factory=list[Message])
    text: str = ""
    reasoning: str = ""
    tool_calls: tuple[ToolCallRecord, ...] = ()
    usage: UsageRecord | None = None
    finish_reason: str = ""
    model: str = ""
    tools: ToolDrafts = field(default_factory=ToolDrafts)

    @property
    def is_answered(self) -> bool:
        return bool(self.attempts) and self.attempts[-1].status == "ok"

    def add_attempt(
        self,
        api_request_id: str,
        provider: str,
        model: str,
        started_at: float,
        ended_at: float | None = None,
        status: AttemptStatus = "running",
        error: str = "",
        first_token: float | None = None,
    ) -> None:
        """Another attempt, or the end of the one that is known by that id."""
        if self.attempts and self.attempts[-1].api_request_id == api_request_id:
            before = self.attempts.pop()
            retry, started_at = before.retry, started_at or before.started_at
        else:
            # A server may answer under another name than it was asked by.
            retry = sum(one.provider == provider and (status == "ok" or one.model == model) for one in self.attempts)
        started_at = started_at or ended_at or 0.0
        self.attempts.append(
            AttemptRecord(api_request_id, provider, model, started_at, ended_at, status, error, retry, first_token)
        )

    def freeze(self) -> ModelStep:
        last = self.attempts[-1]
        lists = {"attempts": tuple(self.attempts), "messages": tuple(self.messages), "tools": self.tools.freeze()}
        return _record(ModelStep, self, model=self.model or last.model, provider=last.provider, **lists)


@dataclass(slots=True)
class TurnDraft:
    """An open turn."""

    id: str
    task_id: str
    user_message: str | list[Any]
    started_at: float
    ended_at: float | None = None
    status: RunStatus = "running"
    answer: str = ""
    error: str = ""
    context: str = ""
    steps: list[StepDraft] = field(default_factory=list[StepDraft])
    other_tools: ToolDrafts = field(default_factory=ToolDrafts)
    side_calls: list[SideCall] = field(default_factory=list[SideCall])
    marks: list[Mark] = field(default_factory=list[Mark])
    undone: bool = False
    copied: bool = False
    #: Where each tool call belongs that a reply has asked for.
    tools_by_call: dict[str, ToolDrafts] = field(default_factory=dict[str, ToolDrafts])

    def step(self) -> StepDraft:
        """The current step: the last one until it is answered, then another."""
        if not self.steps or self.steps[-1].is_answered:
            self.steps.append(StepDraft(len(self.steps) + 1))
        return self.steps[-1]

    def add_requests(self, step: StepDraft, calls: tuple[ToolCallRecord, ...]) -> None:
        """The reply of a step asks for these calls."""
        step.tool_calls = calls
        for call in calls:
            self.tools_by_call[call.id] = step.tools

    def tools_of(self, tool_call_id: str) -> ToolDrafts:
        """Where a call belongs. The one that a reply asked for is over once; a further one is a call of its own."""
        tools = self.tools_by_call.get(tool_call_id, self.other_tools)
        if tool_call_id not in tools.running and any(one.tool_call_id == tool_call_id for one in tools.ended):
            return self.other_tools
        return tools

    def close(self, status: RunStatus, at: float) -> None:
        """The turn is over, and so is everything in it."""
        self.status, self.ended_at = status, at
        for step in self.steps:
            step.tools.close(at)
            last = step.attempts[-1]
            if last.status == "running":
                step.add_attempt(last.api_request_id, last.provider, last.model, last.started_at, at, "interrupted")
        self.other_tools.close(at)

    def freeze(self) -> TurnRecord:
        return _record(
            TurnRecord,
            self,
            steps=tuple(step.freeze() for step in self.steps if step.attempts),
            other_tools=self.other_tools.freeze(),
            side_calls=tuple(self.side_calls),
            marks=tuple(self.marks),
        )


@dataclass(slots=True)
class SessionDraft:
    """An open session: its turns that are over, as records, and the current one."""

    id: str
    started_at: float
    platform: str = ""
    model: str = ""
    provider: str = ""
    title: str = ""
    ended_at: float | None = None
    #: How it ended when it never had a turn.
    status: RunStatus = "running"
    system_prompt: str = ""
    tools: tuple[dict[str, Any], ...] = ()
    turns: list[TurnRecord] = field(default_factory=list[TurnRecord])
    turn: TurnDraft | None = None
    children: list[SessionDraft] = field(default_factory=list["SessionDraft"])
    parent_id: str = ""
    parent_turn_id: str = ""
    parent_tool_call_id: str = ""
    subagent_id: str = ""
    role: str = ""
    goal: str = ""
    marks: list[Mark] = field(default_factory=list[Mark])
    side_calls: list[SideCall] = field(default_factory=list[SideCall])

    def end_turn(self) -> None:
        """Freeze the current turn for good."""
        if self.turn is not None:
            self.turns.append(self.turn.freeze())
            self.turn = None

    def freeze(self) -> SessionRecord:
        turns = (*self.turns, self.turn.freeze()) if self.turn is not None else tuple(self.turns)
        return _record(
            SessionRecord,
            self,
            ended_at=self.ended_at or (turns[-1].ended_at if turns else None),
            status=turns[-1].status if turns else self.status,
            turns=turns,
            children=tuple(child.freeze() for child in self.children),
            marks=tuple(self.marks),
            side_calls=tuple(self.side_calls),
        )


def _record(kind: type[RecordT], draft: object, **made: Any) -> RecordT:
    """The record of a draft: its fields of the same names, but for those ``made`` from them."""
    return kind(**{name: made[name] if name in made else getattr(draft, name) for name in kind.__struct_fields__})


def turns_from(messages: list[Message], at: float, clean: Cleaner) -> list[TurnDraft]:
    """The turns in these messages, all of them over. Only their order is known, not their times."""
    turns: list[TurnDraft] = []
    for number, message in enumerate(messages):
        role = message.get("role")
        if role == "user" or not turns:
            said = clean.value(message.get("content") or "") if role == "user" else ""
            turns.append(TurnDraft(f"earlier:{number}", "", said, at, at, "completed", copied=True))
        if role == "assistant":
            _add_reply(turns[-1], message, f"earlier:{number}", at, clean)
        elif role == "tool":
            _add_result(turns[-1], message, at, clean)
    return turns


def tool_request(call: dict[str, Any], clean: Cleaner) -> ToolCallRecord:
    """A tool call of a message."""
    function: dict[str, Any] = call.get("function") or {}
    arguments = clean.arguments(function.get("arguments") or "")
    return ToolCallRecord(call.get("id") or "", function.get("name") or "", arguments)


def _add_reply(turn: TurnDraft, message: Message, name: str, at: float, clean: Cleaner) -> None:
    step = turn.step()
    step.add_attempt(name, "", "", at, at, "ok")
    step.text = clean.text(str(message.get("content") or ""))
    turn.add_requests(step, tuple(tool_request(call, clean) for call in message.get("tool_calls") or ()))
    turn.answer = "" if step.tool_calls else step.text


def _add_result(turn: TurnDraft, message: Message, at: float, clean: Cleaner) -> None:
    call_id = str(message.get("tool_call_id") or "")
    for step in reversed(turn.steps):
        for call in step.tool_calls:
            if call.id == call_id:
                result = clean.text(str(message.get("content") or ""))
                step.tools.ended.append(ToolDraft(call_id, call.name, call.arguments, at, at, "ok", result))
                return
