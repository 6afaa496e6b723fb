"""The listener of a turn and its result. What a listener receives is provisional until the result is returned."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from hermes.base.errors import HermesError
from hermes.base.sanitize import MaskedStream, Redactor
from hermes.contract.events import ReasoningDelta, TextDelta, ToolEnded, TurnEvent
from hermes.models.costs.usage import Usage

if TYPE_CHECKING:
    from hermes.journal.turns.steps import TurnState

log = logging.getLogger("hermes.turn")

#: ``incomplete``: there is an answer, but it is not whole, and ``finish_reason`` says why.
TurnStatus = Literal["completed", "incomplete", "failed", "interrupted"]


Listener = Callable[[TurnEvent], None]


def ignore_events(_event: TurnEvent) -> None:
    """The listener of a surface that shows only the result."""


class TurnResult(msgspec.Struct, frozen=True):
    """The result of a turn. ``answer`` is on disk before it is returned."""

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
    #: Why the answer ended: ``stop``, or ``length``, ``content_filter``, ``refusal``, ``pause_turn`` or ``budget`` when
    #: it is incomplete; empty without an answer.
    finish_reason: str = ""
    #: The class of the failure, for surfaces whose callers must not see its words.
    error_type: str = ""
    #: The answer as a value, when a format was asked for.
    output: Any = None

    def raise_for_status(self) -> TurnResult:
        """The result itself when there is a whole answer, else ``TurnFailed``."""
        if self.status == "completed":
            return self
        raise TurnFailed(self.error or f"the turn was {self.status}", self)


def recorded_result(
    session_id: str, turn_id: str, state: TurnState, answer: str | None, error: str | None, finish_reason: str
) -> TurnResult:
    """The stored result of a turn that ended before."""
    status: TurnStatus = "failed" if state in ("queued", "running") else state
    # An answer that is not whole is recorded with what is to be said about it.
    if state == "completed" and error:
        status = "incomplete"
    return TurnResult(
        session_id=session_id,
        turn_id=turn_id,
        status=status,
        answer=answer or "",
        error=error,
        usage=Usage(request_count=0),
        model="",
        provider="",
        steps=0,
        tool_calls=[],
        duration=0.0,
        finish_reason=finish_reason if state == "completed" else "",
    )


class TurnFailed(HermesError):
    """A turn ended without a whole answer; ``result`` says how."""

    def __init__(self, message: str, result: TurnResult) -> None:
        super().__init__(message)
        self.result = result


_PROSE = frozenset({"", ".txt", ".md", ".rst", ".csv", ".log", ".pdf", ".html"})


class _WrittenFiles(msgspec.Struct):
    files_modified: list[str] = []
    files_created: list[str] = []
    files_deleted: list[str] = []


_written = msgspec.json.Decoder(_WrittenFiles)


def _written_files(call: ToolEnded) -> tuple[str, ...]:
    """The files a finished call says it wrote."""
    if call.status != "ok" or '"files_' not in call.result:
        return ()
    try:
        written = _written.decode(call.result)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return ()
    return (*written.files_modified, *written.files_created, *written.files_deleted)


def changed_paths(calls: Sequence[ToolEnded]) -> list[str]:
    """The files that calls wrote, each once, in the order of their first change."""
    return list(dict.fromkeys(path for call in calls for path in _written_files(call)))


def is_code(path: str) -> bool:
    """Whether a file is more than prose or data."""
    return PurePath(path).suffix.lower() not in _PROSE


class Listeners:
    """The listeners of one turn, which come and go while it runs. One that fails hears no more; the turn continues.

    ``subject`` is what they listen to, for the log. ``on_failure`` learns of a failure, after the log.
    """

    def __init__(self, subject: str, on_failure: Callable[[Exception], None] | None = None) -> None:
        self._subject = subject
        self._on_failure = on_failure
        self.all: list[Listener] = []

    def __call__(self, event: TurnEvent) -> None:
        for listener in tuple(self.all):
            try:
                listener(event)
            except Exception as error:
                log.exception("a listener of %s failed; it hears no more", self._subject)
                self.all.remove(listener)
                if self._on_failure is not None:
                    self._on_failure(error)


class MaskedListener:
    """Passes the events of a turn on, with secrets masked in the text of the model as it streams."""

    def __init__(self, listener: Listener, redactor: Redactor) -> None:
        self._listener = listener
        self._stream = MaskedStream(redactor)
        self._kind: type[TextDelta | ReasoningDelta] = TextDelta

    def __call__(self, event: TurnEvent) -> None:
        if not isinstance(event, TextDelta | ReasoningDelta):
            self._flush()
            self._listener(event)
            return
        if self._kind is not type(event):
            self._flush()
            self._kind = type(event)
        text = self._stream.feed(event.text)
        if text:
            self._listener(event if text == event.text else self._kind(text))

    def _flush(self) -> None:
        rest = self._stream.finish()
        if rest:
            self._listener(self._kind(rest))
