"""A turn as a screen shows it: text that stays, and lines that change until they become such text."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cached_property

from hermes.agent.events import TurnResult
from hermes.cli.chat.output import failure_text
from hermes.cli.repl.markdown.stream import MarkdownStream
from hermes.cli.repl.show.toollines import ASCII, UNICODE, Running, RunningTools, running_line
from hermes.cli.terminal import cells, one_line, plain, switched_line
from hermes.contract.events import (
    AttemptAnswered,
    AttemptFailed,
    ChildEnded,
    ChildStarted,
    ContextCompacted,
    EndpointSkipped,
    ModelSwitched,
    ReasoningDelta,
    TextDelta,
    ToolEnded,
    ToolStarted,
    TurnEvent,
    TurnStarted,
)
from hermes.sanitize import Redactor

_DIM, _RED, _RESET = "\x1b[2m", "\x1b[31m", "\x1b[0m"


class TurnView:
    """Fed and drawn by one thread."""

    def __init__(
        self, redactor: Redactor, *, colour: bool, unicode: bool, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._redactor = redactor
        self._colour = colour
        self._clock = clock
        self._unicode = unicode
        self._signs = UNICODE if unicode else ASCII
        #: How many columns there are.
        self.width = 80
        self._tools = RunningTools(redactor, clock, signs=self._signs)
        self._since = clock()
        #: What was shown of the answer, as the model wrote it.
        self._shown = ""
        self._thought = ""
        self._under_way = False

    @cached_property
    def _text(self) -> MarkdownStream:
        """The answer as it comes in. Made when there is one: it needs much that a prompt does not."""
        return MarkdownStream(self.width, self._colour, unicode=self._unicode)

    def take(self, event: TurnEvent) -> str:
        """What an event adds to the text that stays."""
        self._text.width = self.width
        if isinstance(event, TextDelta):
            self._shown += event.text
            return self._end_of_thought() + self._text.feed(event.text)
        if isinstance(event, ReasoningDelta):
            return self._think(event.text)
        before = self._end_of_thought() + self._text.finish()
        if isinstance(event, TurnStarted):
            self._shown, self._under_way, self._since = "", True, self._clock()
        elif isinstance(event, ToolStarted | ChildStarted):
            self._tools.started(event)
        elif isinstance(event, AttemptFailed | EndpointSkipped) or (
            isinstance(event, AttemptAnswered) and event.finish_reason == "tool_calls"
        ):
            # What comes of a failed attempt, or before tool calls, is talk; what comes after them is the answer.
            self._shown = ""
        line = self._line(event)
        return f"{before}{line}\n" if line else before

    def _line(self, event: TurnEvent) -> str:
        """What an event leaves behind as a line of its own."""
        if isinstance(event, ToolEnded | ChildEnded):
            return self.dim(self._tools.finished(event, width=self.width))
        if isinstance(event, AttemptFailed | EndpointSkipped):
            return self.red(f"! {one_line(self._redactor.redact(failure_text(event)))}")
        if isinstance(event, ModelSwitched):
            return self.dim(switched_line(event))
        if isinstance(event, ContextCompacted):
            return self.dim(f"… condensed {event.messages_before} messages into {event.messages_after} to make room")
        return ""

    def end(self, result: TurnResult) -> str:
        """What the end of the turn adds."""
        self._text.width = self.width
        shown, text = self._shown, self.break_off()
        if result.status == "completed" and shown != result.answer:
            # Nothing was streamed, or a plugin replaced it: show what is on record.
            text += self._text.feed(result.answer) + self._text.finish()
        elif result.status == "interrupted":
            text += self.dim("[interrupted]") + "\n"
        elif result.status == "failed":
            error = one_line(self._redactor.redact(result.error or "the turn failed"))
            text += self.red(f"Error: {error}") + "\n" + self.dim("/retry asks the same again.") + "\n"
        return text

    def break_off(self) -> str:
        """Nothing is under way any more: what is left of it."""
        if not self._under_way:
            return ""
        text = self._end_of_thought() + self._text.finish()
        self._tools.clear()
        self._shown, self._under_way = "", False
        return text

    def live(self, rows: int, *, is_stopping: bool = False, is_asking: bool = False) -> list[str]:
        """What changes, in at most that many rows: the end of the unfinished text, and what runs."""
        if not self._under_way:
            return []
        running = self._tools.lines(self.width)
        if is_stopping or not (running or is_asking):
            what = Running("stopping" if is_stopping else "working", "", self._since)
            running = [*running, running_line(what, self._clock(), width=self.width, signs=self._signs)]
        running = running[-rows:]
        pending = folded(self._thought or self._text.pending, self.width)
        room = rows - len(running)
        return [*(pending[-room:] if room > 0 else []), *running]

    def dim(self, text: str) -> str:
        """Text that matters less."""
        return f"{_DIM}{text}{_RESET}" if self._colour else text

    def red(self, text: str) -> str:
        """Text about something that went wrong."""
        return f"{_RED}{text}{_RESET}" if self._colour else text

    def _think(self, text: str) -> str:
        """Reasoning stays line by line, as it is: it is no Markdown."""
        *whole, self._thought = plain(self._thought + text).split("\n")
        return "".join(f"{self.dim(line)}\n" for line in whole)

    def _end_of_thought(self) -> str:
        line, self._thought = self._thought, ""
        return f"{self.dim(line)}\n" if line else ""


def folded(text: str, width: int) -> list[str]:
    """The text in rows of at most that many columns."""
    rows: list[str] = []
    for line in text.expandtabs(4).split("\n") if text else ():
        start, used = 0, 0
        for position, character in enumerate(line):
            size = cells(character)
            if used + size > width:
                rows.append(line[start:position])
                start, used = position, 0
            used += size
        rows.append(line[start:])
    return rows
