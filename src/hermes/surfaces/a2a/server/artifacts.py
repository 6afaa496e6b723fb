"""The log of a live turn as artifact chunks and status messages of its task."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from a2a.server.tasks import TaskUpdater
from a2a.types import Artifact, Part, TaskState

from hermes.agent.events import TurnResult
from hermes.base.http_server.outgoing import call_summary, redacted
from hermes.contract.events import ToolStarted, TurnEvent, TurnStarted
from hermes.journal.questions import QuestionRow
from hermes.service.live.turn import (
    AttemptDropped,
    LiveEntry,
    LiveEvent,
    LiveTurn,
    QuestionAsked,
    ReplyEnded,
    TextAdded,
    TurnOver,
)

#: Pieces that come faster than this are sent as one chunk: each event costs CPU time.
_SECONDS_BETWEEN_CHUNKS = 0.01
#: Without subscribers, chunks are stored this often: waking the loop takes CPU time from the turn.
_SECONDS_WITHOUT_SUBSCRIBERS = 0.05

#: How a turn ended: with a result, with a question that waits for an answer, or with an error.
TurnOutcome = TurnResult | QuestionRow | Exception


class ArtifactStream:
    """Makes one artifact of each answer of the model, in chunks, and a status message of each tool call."""

    def __init__(
        self,
        updater: TaskUpdater,
        live: LiveTurn,
        *,
        show_tools: bool,
        artifacts: int,
        last: str = "",
        start: int = 0,
        has_subscribers: Callable[[], bool],
        rejoins: bool = False,
    ) -> None:
        """``start`` is the first entry of the log that counts.

        ``rejoins``: not every event comes through, and text counts from the next reply of the model on.
        """
        self._updater = updater
        self.live = live
        #: The next entry of the log.
        self.at = start
        #: Once the turn has ended or waits, or could not be begun.
        self.outcome: TurnOutcome | None = None
        self.ended = asyncio.Event()
        self._show_tools = show_tools
        self._has_subscribers = has_subscribers
        self._loop = asyncio.get_running_loop()
        self._wakeup = asyncio.Event()
        self._urgent = asyncio.Event()
        #: The loop collects pieces and need not be woken for one more.
        self._is_pausing = False
        self._read_at = time.monotonic()
        self._is_closed = False
        self.rejoins = rejoins
        self._is_whole = not rejoins
        self._count = artifacts
        #: The current artifact: the text sent, and the text not sent yet.
        self._text = ""
        self._unsent = ""
        self._is_begun = False
        #: The text of the last complete artifact.
        self._last = last
        live.subscribe(self._added)

    # -- on the turn's thread -----------------------------------------------------------------------------------

    def listen(self, event: TurnEvent) -> None:
        """Add an event to the log. A ``Listener``."""
        if isinstance(event, TurnStarted):
            self._is_whole = True
        self.live.listen(event)

    def _added(self, entry: LiveEntry) -> None:
        event = entry.event
        if isinstance(event, TurnOver | QuestionAsked):
            outcome = event.result if isinstance(event, TurnOver) else event.question
            self._call_soon(self.end, outcome)
        elif self._is_closed:
            return
        elif isinstance(event, ToolStarted) or self._has_subscribers():
            self._wake(is_urgent=not isinstance(event, TextAdded))
        elif time.monotonic() - self._read_at > _SECONDS_WITHOUT_SUBSCRIBERS:
            self._wake(is_urgent=False)

    def _wake(self, *, is_urgent: bool) -> None:
        if is_urgent or not (self._is_pausing or self._wakeup.is_set()):
            self._call_soon(self._set, is_urgent)

    def _call_soon(self, callback: Callable[[Any], None], value: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended before the turn
            self._loop.call_soon_threadsafe(callback, value)

    def fail(self, error: Exception) -> None:
        """The turn could not be begun."""
        self._call_soon(self.end, error)

    # -- on the loop --------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Take no more events: the turn waits, and another stream will have them."""
        self._is_closed = True

    def end(self, outcome: TurnOutcome) -> None:
        """The turn has ended, or waits for an answer."""
        if not self.ended.is_set():
            self.outcome = outcome
            self.ended.set()
            self._set(True)

    def _set(self, is_urgent: bool) -> None:
        self._wakeup.set()
        if is_urgent:
            self._urgent.set()

    async def run(self) -> None:
        """Forward the entries of the log until the turn has ended or waits."""
        while True:
            await self._wakeup.wait()
            self._wakeup.clear()
            self._urgent.clear()
            self._read_at = time.monotonic()
            while self.at < len(self.live.log):
                event = self.live.log[self.at].event
                self.at += 1
                if isinstance(event, TurnOver | QuestionAsked):
                    await self.ended.wait()
                    return
                await self._forward(event)
            if isinstance(self.outcome, Exception):
                return
            if await self._send_pieces() and self._has_subscribers():
                await self._pause()

    async def _pause(self) -> None:
        self._is_pausing = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_SECONDS_BETWEEN_CHUNKS):
                await self._urgent.wait()
        self._is_pausing = False
        if self.at < len(self.live.log):
            self._wakeup.set()

    async def finish(self, answer: str) -> None:
        """Send the answer as an artifact, unless it was streamed as one."""
        if answer == self._last:
            return
        answer = redacted(answer, self.live.redactor)
        if answer and answer != self._last:
            self._unsent = answer
            await self._close_artifact()

    async def correct(self, shown: Iterable[Artifact], texts: Sequence[str]) -> None:
        """Make the artifacts those of the record, where they differ: live text may have come late, or not at all."""
        known = {artifact.artifact_id: "".join(part.text for part in artifact.parts) for artifact in shown}
        for number, text in enumerate(texts, 1):
            artifact_id = self._artifact_id(number)
            if known.get(artifact_id) != text:
                await self._updater.add_artifact(
                    [Part(text=text)], artifact_id, "answer", append=False, last_chunk=True
                )
        if len(texts) > self._count:
            self._start_over()
            self._is_begun = False
        if texts:
            self._count, self._last = max(self._count, len(texts)), texts[-1]

    async def cut(self) -> None:
        """Close the artifact of an answer that was cut off."""
        if self._unsent:
            await self._close_artifact()

    async def _forward(self, event: LiveEvent) -> None:
        match event:
            case TextAdded():
                if self._is_whole:
                    self._unsent += event.text
            case ReplyEnded() | AttemptDropped() if not self._is_whole:
                self._is_whole = True
            case ReplyEnded():
                await self._close_artifact()
            case AttemptDropped():
                self._start_over()
            case ToolStarted() if self._show_tools:
                message = self._updater.new_agent_message([Part(text=self._summary(event.tool_name, event.args))])
                await self._updater.update_status(TaskState.TASK_STATE_WORKING, message)
            case _:
                pass

    def _start_over(self) -> None:
        """A new attempt replaces the text of the failed one."""
        self._text = self._unsent = ""

    async def _send_pieces(self) -> bool:
        """Send the text but for its last character, which is kept for the chunk marked as the last one."""
        if len(self._unsent) < 2:
            return False
        chunk, self._unsent = self._unsent[:-1], self._unsent[-1]
        await self._send(chunk, is_last=False)
        return True

    async def _close_artifact(self) -> None:
        if not self._is_begun and not self._unsent:
            return
        chunk, self._unsent = self._unsent, ""
        await self._send(chunk, is_last=True)
        self._last = self._text
        self._text, self._is_begun = "", False
        self._count += 1

    async def _send(self, chunk: str, *, is_last: bool) -> None:
        is_first = not self._text
        self._text += chunk
        await self._updater.add_artifact(
            [Part(text=chunk)],
            artifact_id=self._artifact_id(self._count + 1),
            name="answer",
            append=not is_first,
            last_chunk=is_last,
        )
        self._is_begun = True

    def _artifact_id(self, number: int) -> str:
        return f"{self._updater.task_id}-{number}"

    def _summary(self, name: str, args: dict[str, Any]) -> str:
        """The tool and its subject, as one short line without secrets."""
        line = call_summary(args, self.live.redactor)
        return f"{name}: {line}" if line else name
