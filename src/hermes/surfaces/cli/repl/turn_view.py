"""Rendering of a turn on the screen: finished text, and live lines of what is running."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import cached_property
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from hermes.agent.events import TurnResult
from hermes.base.sanitize import Redactor
from hermes.contract import events
from hermes.surfaces.cli.chat.rendering import TurnRenderer
from hermes.surfaces.cli.chat.theme import Theme
from hermes.surfaces.cli.chat.tool_details import (
    DetailLine,
    current_task,
    folded_details,
    replaced_text_diff,
    whole_result,
)
from hermes.surfaces.cli.chat.tool_lines import (
    ASCII,
    UNICODE,
    Declarations,
    Running,
    ToolLines,
    has_failed,
    whole_error,
)
from hermes.surfaces.cli.terminal import cells, fitted, one_line, plain, word_wrapped
from hermes.tools.declarations.builtin import builtin_declaration

if TYPE_CHECKING:
    from hermes.surfaces.cli.repl.markdown.stream import MarkdownStream

#: Columns for the spinner, and for the time at the end of its line.
_ROOM_FOR_TIME = 16
#: Fewer columns of a reason say nothing.
_SHORTEST_REASON = 12


class TurnView(TurnRenderer):
    """Renders the events of one turn as the text that stays, and as live lines. Not thread-safe."""

    def __init__(
        self,
        redactor: Redactor,
        *,
        theme: Theme,
        unicode: bool,
        clock: Callable[[], float] = time.monotonic,
        declaration: Declarations = builtin_declaration,
    ) -> None:
        super().__init__(redactor)
        self._declaration = declaration
        self._theme = theme
        self._detail_colours = {"added": theme.added, "removed": theme.removed, "place": theme.place}
        self._clock = clock
        self._unicode = unicode
        self._symbols = UNICODE if unicode else ASCII
        #: Columns of the terminal.
        self.width = 80
        self._tools = ToolLines(redactor, clock, symbols=self._symbols, declaration=declaration)
        self._since = clock()
        #: The finished text that the event at hand adds.
        self._added = ""
        self._reasoning = ""
        #: The retry that is waited for.
        self._retry = ""
        self._is_running = False
        #: The task of the agent's list that it is at.
        self._task = ""
        #: What the spinner says while no tool runs.
        self.activity = "working"
        #: The call that ended last, for the key that shows all of its output.
        self._last_call: events.ToolEnded | None = None
        #: What running calls change, where their results do not say it; by the ids of the calls.
        self._diffs: dict[str, str] = {}

    @cached_property
    def _markdown(self) -> MarkdownStream:
        """The answer as it streams in. Created lazily: its imports are slow."""
        from hermes.surfaces.cli.repl.markdown.stream import MarkdownStream

        return MarkdownStream(self.width, self._theme.has_colour, unicode=self._unicode, theme=self._theme)

    def look_ahead(self, event: events.TurnEvent, cwd: Path) -> None:
        """Note what a call is about to replace. Called by the thread of the turn, before the call runs."""
        if isinstance(event, events.ToolStarted):
            diff = replaced_text_diff(self._declaration(event.tool_name), event.args, cwd)
            if diff:
                self._diffs[event.tool_call_id] = diff

    def take(self, event: events.TurnEvent) -> str:
        """The finished text that an event adds."""
        self._markdown.width = self.width
        if isinstance(event, events.TextDelta | events.ToolStarted):
            self.activity = "working"
        self._added = ""
        self.render(event)
        return self._added

    def started(self) -> None:
        self._shown, self._is_running, self._since, self._task = "", True, self._clock(), ""

    def text(self, text: str) -> None:
        self._added += self._markdown.feed(text)

    def text_over(self) -> None:
        self._added += self._markdown.finish()

    def reasoning(self, text: str) -> None:
        """Show thoughts line by line: they are not Markdown."""
        *whole, self._reasoning = plain(self._reasoning + text).split("\n")
        self._added += "".join(f"{self.dim(row)}\n" for line in whole for row in word_wrapped(line, self.width) or [""])

    def reasoning_over(self) -> None:
        line, self._reasoning = self._reasoning, ""
        self._added += f"{self.dim(line)}\n" if line else ""

    def retry(self, event: events.RetryScheduled) -> None:
        self._retry = f"trying again in {ceil(event.seconds) or 1} s ({event.retry} of {event.max_retries})"

    def retry_over(self) -> None:
        self._retry = ""

    def running(self, event: events.ToolStarted | events.ChildStarted | events.ChildActivity) -> None:
        if isinstance(event, events.ChildActivity):
            self._tools.child_does(event)
        else:
            self._tools.started(event)

    def call_ended(self, event: events.ToolEnded | events.ChildEnded) -> None:
        if isinstance(event, events.ToolEnded):
            self._added += f"{self._finished_call(event)}\n"
        else:
            self.notice(self._tools.finished(event, width=self.width), is_problem=event.child_status != "completed")

    def notice(self, line: str, *, is_problem: bool = False) -> None:
        self._added += f"{self.red(line) if is_problem else self.dim(line)}\n"

    def _finished_call(self, event: events.ToolEnded) -> str:
        before = self._last_call
        if before is not None and before.tool_call_id != event.tool_call_id:
            self._diffs.pop(before.tool_call_id, None)
        self._last_call = event
        declared = self._declaration(event.tool_name)
        if declared.shown.detail == "tasks" and event.status == "ok":
            self._task = one_line(self._redactor.redact(current_task(event)))
        line = self._tools.finished(event, width=self.width)
        if not has_failed(event, declared):
            diff = self._diffs.get(event.tool_call_id, "")
            return "\n".join([self.dim(line), *self.painted(folded_details(event, declared, diff))])
        error = whole_error(event, self._redactor)
        if error not in line:  # no room for all of it: it goes below
            bare = replace(event, error_message="")
            line = self._tools.finished(bare, width=self.width)
            line = "\n".join([line.removesuffix(f"  {event.status}:"), *word_wrapped(f"  {error}", self.width)])
        return "\n".join([*map(self.red, line.split("\n")), *self.painted(folded_details(event, declared))])

    def last_result(self) -> list[str] | None:
        """All of what the call that ended last returned or changed; None when there was no call."""
        event = self._last_call
        if event is None:
            return None
        diff = self._diffs.get(event.tool_call_id, "")
        return self.painted(whole_result(event, self._declaration(event.tool_name), diff))

    def painted(self, lines: Sequence[DetailLine]) -> list[str]:
        """Details of a call in their colours, indented and cut to the width."""
        return [self._painted(line) for line in lines]

    def _painted(self, line: DetailLine) -> str:
        text = fitted(f"  {self._redactor.redact(line.text).expandtabs(4)}", self.width, self._symbols.ellipsis)
        return self._theme.paint(text, self._detail_colours.get(line.kind, self._theme.dim))

    def end(self, result: TurnResult) -> str:
        """The text that the end of the turn adds."""
        self._markdown.width = self.width
        shown, text = self._shown, self.break_off()
        if result.status in ("completed", "incomplete") and shown != result.answer:
            # Nothing was streamed, or a plugin replaced it: show the recorded answer.
            text += self._markdown.feed(result.answer) + self._markdown.finish()
        if result.status == "incomplete":
            text += self._wrapped_red(f"! {one_line(self._redactor.redact(result.error or result.finish_reason))}")
        elif result.status == "interrupted":
            text += self.dim("[interrupted]") + "\n"
        elif result.status == "failed":
            error = one_line(self._redactor.redact(result.error or "the turn failed"))
            text += self._wrapped_red(f"Error: {error}") + self.dim("Use /retry to try again.") + "\n"
        return text

    def break_off(self) -> str:
        """End the turn; returns its unfinished text."""
        if not self._is_running:
            return ""
        self._added = ""
        self.reasoning_over()
        self.text_over()
        self._tools.clear()
        self._shown, self._is_running = "", False
        return self._added

    def live(self, rows: int, *, is_stopping: bool = False, is_asking: bool = False) -> list[str]:
        """The live lines, at most ``rows``: the end of the unfinished text, and what is running."""
        if not self._is_running:
            return []
        running = self._tools.lines(self.width)
        if is_stopping or not (running or is_asking):
            doing = "stopping" if is_stopping else self._waiting_text() if self._retry else self.activity
            what = Running(doing, "" if self._retry else self._task, self._since)
            running = [*running, self._tools.running(what, self.width, self._clock())]
        running = running[-rows:]
        pending = word_wrapped(self._reasoning or self._markdown.pending, self.width)
        room = rows - len(running)
        return [*(pending[-room:] if room > 0 else []), *running]

    def _waiting_text(self) -> str:
        """Why and how long a retry is waited for; of a long reason as much as fits before the time."""
        room = self.width - cells(self._retry) - _ROOM_FOR_TIME
        if not self._failure or room < _SHORTEST_REASON:
            return self._retry
        return f"{fitted(self._failure, room, self._symbols.ellipsis)}; {self._retry}"

    def dim(self, text: str) -> str:
        """Text of less importance."""
        return self._theme.paint(text, self._theme.dim)

    def red(self, text: str) -> str:
        """Text of an error."""
        return self._theme.paint(text, self._theme.error)

    def _wrapped_red(self, text: str) -> str:
        return "".join(f"{self.red(row)}\n" for row in word_wrapped(text, self.width))
