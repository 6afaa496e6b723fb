"""The listener of a turn and its result. What a listener receives is provisional until the result is returned."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from hermes.contract.events import ToolEnded, TurnEvent
from hermes.errors import HermesError
from hermes.models.usage import Usage

TurnStatus = Literal["completed", "failed", "interrupted"]


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
    tool_calls: list[ToolEnded]
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
