"""Carries what a turn tells, on its own thread, to the task's callers, on the server's loop."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from a2a.server.tasks import TaskUpdater
from a2a.types import Part, TaskState

from hermes.a2a.server.redaction import VisibleText, visible
from hermes.contract.events import AttemptAnswered, AttemptFailed, EndpointSkipped, TextDelta, ToolStarted, TurnEvent
from hermes.sanitize import Redactor

#: Pieces that come faster than this are sent together: every event costs, and nobody reads that fast.
_SECONDS_BETWEEN_CHUNKS = 0.01
#: While nobody watches, how often what was told is put on record: every look takes time from the turn.
_SECONDS_UNWATCHED = 0.05
_LONGEST_SUMMARY = 120

_TOLD = (TextDelta, AttemptAnswered, AttemptFailed, EndpointSkipped, ToolStarted)


class Relay:
    """One artifact for each answer of the model, in chunks; tools as status messages."""

    def __init__(
        self,
        updater: TaskUpdater,
        redactor: Redactor,
        *,
        show_tools: bool,
        artifacts: int,
        is_watched: Callable[[], bool],
    ) -> None:
        self._updater = updater
        self._redactor = redactor
        self._show_tools = show_tools
        self._is_watched = is_watched
        self._loop = asyncio.get_running_loop()
        self._events: deque[TurnEvent] = deque()
        self._news = asyncio.Event()
        self._urgent = asyncio.Event()
        #: Pieces that come now are looked at a little later, all together.
        self._is_pausing = False
        self._looked_at = time.monotonic()
        self._is_over = False
        self._count = artifacts
        self._filter = VisibleText(self._redactor)
        self._pieces: list[str] = []
        #: What the artifact in hand holds, and what of it was not sent yet.
        self._text = ""
        self._unsent = ""
        self._begun = False
        #: The text of the last artifact that is whole.
        self._last = ""

    # -- on the turn's thread -----------------------------------------------------------------------------------

    def listen(self, event: TurnEvent) -> None:
        """Take an event of the turn. Reasoning is not even carried."""
        if not isinstance(event, _TOLD):
            return
        self._events.append(event)
        if isinstance(event, ToolStarted) or self._is_watched():
            self._wake(is_urgent=not isinstance(event, TextDelta))
        elif time.monotonic() - self._looked_at > _SECONDS_UNWATCHED:
            self._wake(is_urgent=False)

    def end(self) -> None:
        """Nothing more will be told."""
        self._is_over = True
        self._wake(is_urgent=True)

    def _wake(self, *, is_urgent: bool) -> None:
        if not is_urgent and (self._is_pausing or self._news.is_set()):
            return
        with contextlib.suppress(RuntimeError):  # the loop has ended before the turn did
            self._loop.call_soon_threadsafe(self._set, is_urgent)

    # -- on the loop --------------------------------------------------------------------------------------------

    def _set(self, is_urgent: bool) -> None:
        self._news.set()
        if is_urgent:
            self._urgent.set()

    async def run(self) -> None:
        """Pass on what is told until the turn is over."""
        while not (self._is_over and not self._events):
            await self._news.wait()
            self._news.clear()
            self._urgent.clear()
            self._looked_at = time.monotonic()
            while self._events:
                event = self._events.popleft()
                if isinstance(event, TextDelta):
                    self._pieces.append(event.text)
                else:
                    await self._pass_on(event)
            self._read_pieces()
            if not self._is_over and await self._send_pieces() and self._is_watched():
                await self._pause()

    async def _pause(self) -> None:
        self._is_pausing = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_SECONDS_BETWEEN_CHUNKS):
                await self._urgent.wait()
        self._is_pausing = False
        if self._events:
            self._news.set()

    async def finish(self, answer: str) -> None:
        """See to it that the answer is there, once: as the artifact it streamed into, or as one of its own."""
        answer = visible(answer, self._redactor)
        if answer and answer != self._last:
            self._unsent = answer
            await self._close_artifact()

    async def cut(self) -> None:
        """There will be no answer: what had arrived of one is what there is."""
        if self._unsent:
            await self._close_artifact()

    async def _pass_on(self, event: TurnEvent) -> None:
        self._read_pieces()
        match event:
            case AttemptAnswered():
                self._unsent += self._filter.finish()
                await self._close_artifact()
            case AttemptFailed() | EndpointSkipped():
                self._start_over()
            case ToolStarted() if self._show_tools:
                message = self._updater.new_agent_message([Part(text=self._summary(event.tool_name, event.args))])
                await self._updater.update_status(TaskState.TASK_STATE_WORKING, message)
            case _:
                pass

    def _read_pieces(self) -> None:
        if self._pieces:
            self._unsent += self._filter.feed("".join(self._pieces))
            self._pieces.clear()

    def _start_over(self) -> None:
        """Another attempt begins: what it says takes the place of what the failed one had said."""
        self._filter = VisibleText(self._redactor)
        self._text = self._unsent = ""

    async def _send_pieces(self) -> bool:
        """Send what has arrived but for its last character, which is kept for the chunk that is marked as the last."""
        if len(self._unsent) < 2:
            return False
        chunk, self._unsent = self._unsent[:-1], self._unsent[-1]
        await self._send(chunk, is_last=False)
        return True

    async def _close_artifact(self) -> None:
        if not self._begun and not self._unsent:
            return
        chunk, self._unsent = self._unsent, ""
        await self._send(chunk, is_last=True)
        self._last = self._text
        self._text, self._begun = "", False
        self._filter = VisibleText(self._redactor)
        self._count += 1

    async def _send(self, chunk: str, *, is_last: bool) -> None:
        is_first = not self._text
        self._text += chunk
        await self._updater.add_artifact(
            [Part(text=chunk)],
            artifact_id=f"{self._updater.task_id}-{self._count + 1}",
            name="answer",
            append=not is_first,
            last_chunk=is_last,
        )
        self._begun = True

    def _summary(self, name: str, args: dict[str, Any]) -> str:
        """The tool and what it is at, in one short line without secrets."""
        subject = next((value for value in args.values() if isinstance(value, str) and value.strip()), "")
        line = " ".join(self._redactor.redact(subject).split())
        if len(line) > _LONGEST_SUMMARY:
            line = f"{line[: _LONGEST_SUMMARY - 1]}…"
        return f"{name}: {line}" if line else name
