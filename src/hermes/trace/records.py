"""Records of a run: what every trace format is made from.

``collector.Collector`` makes them while a session runs, from typed events; ``journal.session.session_record`` makes the
same ones afterwards, from what is on disk. Texts and arguments are redacted by then: a format may write all it finds.
Times are seconds since the epoch. Every collection is in order of time, tool results by when they came in.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from msgspec import Struct

Message = dict[str, Any]

AttemptStatus = Literal["running", "ok", "error", "interrupted", "crashed"]
ToolStatus = Literal["running", "ok", "error", "blocked", "cancelled", "timeout"]
#: Of a turn, and of a session: the state of its last turn.
RunStatus = Literal["running", "completed", "failed", "interrupted"]


class UsageRecord(Struct, frozen=True):
    """What an answer took. ``input_tokens`` leaves out what was read from or written to the prompt cache."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    #: None when the price is not known.
    cost_usd: float | None = None

    @classmethod
    def from_counts(cls, counts: Mapping[str, int] | None, cost_usd: float | None = None) -> UsageRecord | None:
        """The counts as ``post_api_request`` has them; None when there are none."""
        if counts is None:
            return None
        return cls(*(counts.get(name, 0) for name in cls.__struct_fields__[:5]), cost_usd=cost_usd)

    @property
    def prompt_tokens(self) -> int:
        """Everything the model read: new input and both cache buckets."""
        return self.input_tokens + self.cache_read_tokens + self.cache_write_tokens

    @property
    def total_tokens(self) -> int:
        return self.prompt_tokens + self.output_tokens

    def __add__(self, other: UsageRecord) -> UsageRecord:
        """The sum of two. A cost that is unknown in one of them counts only what is known."""
        known = [cost for cost in (self.cost_usd, other.cost_usd) if cost is not None]
        return UsageRecord(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cache_read_tokens + other.cache_read_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
            sum(known) if known else None,
        )


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


class ToolStep(Struct, frozen=True):
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
    approvals: tuple[ApprovalRecord, ...] = ()


class ModelStep(Struct, frozen=True):
    """One step of a turn: a question to the model, every attempt to have it answered, and the tools it then called."""

    #: Counts the steps of a turn from 1.
    number: int
    attempts: tuple[AttemptRecord, ...]
    #: What the request had that no earlier one had, beside the user's message, replies and tool results:
    #: steering, a word of ``pre_verify``, the note that the budget is spent.
    messages: tuple[Message, ...] = ()
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
    tools: tuple[ToolStep, ...] = ()

    @property
    def started_at(self) -> float:
        return self.attempts[0].started_at

    @property
    def ended_at(self) -> float | None:
        """When the model had answered, or the last attempt had failed."""
        return self.attempts[-1].ended_at

    @property
    def is_answered(self) -> bool:
        return self.attempts[-1].status == "ok"


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


class TurnRecord(Struct, frozen=True):
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
    steps: tuple[ModelStep, ...] = ()
    #: What a memory and plugins added to the user's message, for this turn only.
    context: str = ""
    #: Calls that no reply asked for: a plugin made them.
    other_tools: tuple[ToolStep, ...] = ()
    side_calls: tuple[SideCall, ...] = ()
    marks: tuple[Mark, ...] = ()
    #: Taken back by the user: it happened, and the conversation continues without it.
    undone: bool = False
    #: Taken over with the session this one is a branch of, where it was paid for.
    copied: bool = False

    def tools(self) -> Iterator[ToolStep]:
        """Every tool call of the turn."""
        for step in self.steps:
            yield from step.tools
        yield from self.other_tools


class SessionRecord(Struct, frozen=True):
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
    tools: tuple[dict[str, Any], ...] = ()
    turns: tuple[TurnRecord, ...] = ()
    children: tuple[SessionRecord, ...] = ()
    #: Of a child: who delegated, in which turn, by which call, and to whom.
    parent_id: str = ""
    parent_turn_id: str = ""
    parent_tool_call_id: str = ""
    subagent_id: str = ""
    role: str = ""
    goal: str = ""
    #: Compactions that were asked for between two turns.
    marks: tuple[Mark, ...] = ()
    #: Questions beside the conversation between two turns, such as the command of a plugin asks.
    side_calls: tuple[SideCall, ...] = ()

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
