"""What a surface is told while a turn runs. Everything here is provisional until the turn's result is returned."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from hermes.errors import HermesError
from hermes.models.usage import Usage

ToolStatus = Literal["ok", "error", "blocked", "cancelled", "timeout"]
TurnStatus = Literal["completed", "failed", "interrupted"]


@dataclass(frozen=True, slots=True)
class TextPiece:
    """A piece of the answer as it streams in."""

    text: str


@dataclass(frozen=True, slots=True)
class ReasoningPiece:
    """A piece of the model's reasoning."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolStarted:
    """A tool call passed its gates and begins."""

    tool_call_id: str
    name: str
    args: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ToolFinished:
    """A tool call ended, on whatever path."""

    tool_call_id: str
    name: str
    args: dict[str, Any]
    status: ToolStatus
    duration_ms: int
    error: str | None
    #: Files the call wrote.
    files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ModelAnswered:
    """A model call ended with an answer."""

    model: str
    finish_reason: str
    usage: Usage | None
    duration: float


@dataclass(frozen=True, slots=True)
class ModelFailed:
    """An attempt at a provider failed; another one may follow."""

    provider: str
    model: str
    error: str


@dataclass(frozen=True, slots=True)
class ModelSwitched:
    """Another model goes on in the place of one that failed, or the model of first choice is back."""

    provider: str
    model: str
    #: Which one it takes over from; empty when the first choice is back.
    from_provider: str
    from_model: str
    #: What was wrong with that one, in a few words.
    reason: str


@dataclass(frozen=True, slots=True)
class TurnStarted:
    """A turn begins, or one that was cut off goes on."""

    turn_id: str
    resumed: bool


@dataclass(frozen=True, slots=True)
class ChildStarted:
    """A delegated child agent sets to work."""

    tool_call_id: str
    session_id: str
    #: Which task of the call it has, from 0.
    index: int
    goal: str
    role: str


@dataclass(frozen=True, slots=True)
class ChildFinished:
    """A delegated child agent is over, on whatever path."""

    tool_call_id: str
    session_id: str
    index: int
    goal: str
    status: str
    duration_ms: int
    error: str | None


@dataclass(frozen=True, slots=True)
class ContextCompacted:
    """The older part of the conversation was condensed, to make room in the model's window."""

    messages_before: int
    messages_after: int
    tokens_before: int
    tokens_after: int


TurnEvent = (
    TurnStarted
    | TextPiece
    | ReasoningPiece
    | ToolStarted
    | ToolFinished
    | ModelAnswered
    | ModelFailed
    | ModelSwitched
    | ChildStarted
    | ChildFinished
    | ContextCompacted
)
Listener = Callable[[TurnEvent], None]


def ignore_events(_event: TurnEvent) -> None:
    """The listener of a surface that shows only the result."""


@dataclass(frozen=True, slots=True)
class TurnResult:
    """How a turn ended. ``answer`` is on disk before anybody sees it."""

    session_id: str
    turn_id: str
    status: TurnStatus
    answer: str
    error: str | None
    usage: Usage
    model: str
    provider: str
    steps: int
    tool_calls: list[ToolFinished]
    duration: float
    #: The class of the failure, for surfaces whose callers must not see its words.
    error_type: str = ""
    #: The answer as a value, when a format was asked for.
    output: Any = None

    def raise_for_status(self) -> TurnResult:
        """The result itself when there is an answer, else ``TurnFailed``."""
        if self.status == "completed":
            return self
        raise TurnFailed(self.error or f"the turn was {self.status}", self)


class TurnFailed(HermesError):
    """A turn ended without an answer; ``result`` says how."""

    def __init__(self, message: str, result: TurnResult) -> None:
        super().__init__(message)
        self.result = result
