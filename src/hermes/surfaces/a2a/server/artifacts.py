"""The log of a live turn as artifact chunks and status messages of its task."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from a2a.server.tasks import TaskUpdater
from a2a.types import Artifact, Part, TaskState

from hermes.agent.events import TurnResult
from hermes.base.http_server.outgoing import call_summary, redacted
from hermes.contract.events import ToolEnded, ToolStarted, TurnEvent, TurnStarted
from hermes.journal.questions import QuestionRow
from hermes.service.live.turn import (
    AttemptDropped,
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
#: What can wait for these times, with subscribers and without.
_COLLECTED = (TextAdded,)
_COLLECTED_WITHOUT_SUBSCRIBERS = (TextAdded, ReplyEnded, AttemptDropped, ToolEnded)


class ArtifactStream:
    """Makes one artifact of each answer of the model, in chunks, and a status message of each tool call."""

    def __init__(
        self, updater: TaskUpdater, live: LiveTurn, *, show_tools: bool, has_subscribers: Callable[[], bool]
    ) -> None:
        self._updater = updater
        self.live = live
        live.listener = self.listen
        #: The next entry of the log.
        self.at = 0
        self._show_tools = show_tools
        self._has_subscribers = has_subscribers
        #: Not every event comes through.
        self.rejoins = False
        #: Text counts; in the middle of a reply that began before, it does not.
        self._is_whole = True
        self._count = 0
        #: The current artifact: the text sent, and the text not sent yet.
        self._text = ""
        self._unsent = ""
        self._is_begun = False
        #: The text of the last complete artifact.
        self._last = ""

    def rejoin(self, texts: Sequence[str]) -> None:
        """Follow a turn that has said this already, and may be running."""
        self.rejoins, self._is_whole = True, False
        self._count, self._last = len(texts), texts[-1] if texts else ""

    def listen(self, event: TurnEvent) -> None:
        """Add an event to the log. A ``Listener``."""
        if isinstance(event, TurnStarted):
            self._is_whole = True
        self.live.listen(event)

    async def run(self) -> TurnResult | QuestionRow:
        """Forward the entries of the log until the turn has ended or asks: its result, or the question."""
        while True:
            await self.live.changed(self.at)
            if not self._has_subscribers():
                await self.live.changed(self.at, _SECONDS_WITHOUT_SUBSCRIBERS, but=_COLLECTED_WITHOUT_SUBSCRIBERS)
            while self.at < len(self.live.log):
                event = self.live.log[self.at].event
                self.at += 1
                if isinstance(event, TurnOver):
                    return event.result
                if isinstance(event, QuestionAsked):
                    return event.question
                await self._forward(event)
            if await self._send_pieces() and self._has_subscribers():
                await self.live.changed(self.at, _SECONDS_BETWEEN_CHUNKS, but=_COLLECTED)

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
