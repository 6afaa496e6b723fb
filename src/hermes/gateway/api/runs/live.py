"""Live runs: the events of a turn as they happen, for every client that follows it, and its result."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Container
from typing import Any, Literal, NamedTuple

from hermes.agent.events import TurnResult
from hermes.contract.events import (
    AttemptAnswered,
    AttemptFailed,
    EndpointSkipped,
    TextDelta,
    TextWithdrawn,
    ToolEnded,
    ToolStarted,
    TurnEvent,
)
from hermes.gateway.api.errors import ServerStopped
from hermes.gateway.api.runs.store import ApiRequestRow
from hermes.http_server.outgoing import RedactingStream, call_summary
from hermes.sanitize import Redactor

#: Silence after which a follower gets a keep-alive, so that proxies keep the connection.
SECONDS_OF_SILENCE = 15.0

RunStatus = Literal["queued", "in_progress", "waiting", "completed", "incomplete", "failed", "cancelled"]


class RunEvent(NamedTuple):
    """One entry of a run's log. ``text`` belongs to the kind ``text``, ``data`` to all others."""

    kind: Literal["text", "withdrawn", "tool_started", "tool_ended", "question", "answered", "ended"]
    text: str = ""
    data: dict[str, Any] | None = None
    #: When it was added.
    at: float = 0.0


class LiveRun:
    """A request whose turn runs or ran in this process."""

    def __init__(
        self, row: ApiRequestRow, redactor: Redactor, loop: asyncio.AbstractEventLoop, *, show_tools: bool
    ) -> None:
        self.row = row
        self.turn_id = ""
        self.result: TurnResult | None = None
        self.status: RunStatus = "queued"
        #: Why it is to stop; empty while it is not.
        self.stop_reason = ""
        self.log: list[RunEvent] = []
        #: Clients that wait for it.
        self.followers = 0
        #: The server stops: no client can wait any longer.
        self._is_cut_off = False
        self._redactor = redactor
        self._show_tools = show_tools
        self._filter = RedactingStream()
        #: Text was shown since the last reply of the model.
        self._has_text = False
        self._has_earlier_text = False
        self.loop = loop
        self._is_waking = False
        self._waiters: list[asyncio.Future[None]] = []

    @property
    def id(self) -> str:
        """The id that clients know."""
        return self.row.id

    @property
    def has_ended(self) -> bool:
        """Whether there is a result."""
        return self.result is not None

    # -- on the turn's thread -----------------------------------------------------------------------------------

    def started(self) -> None:
        """The turn has left the queue."""
        if self.status == "queued":
            self.status = "in_progress"

    def listen(self, event: TurnEvent) -> None:
        """Add an event of the turn. Reasoning is never shown."""
        match event:
            case TextDelta():
                self._add_text(self._filter.feed(event.text))
            case AttemptAnswered():
                self._end_text()
            case AttemptFailed() | EndpointSkipped():
                self._filter = RedactingStream()
            case TextWithdrawn():
                self._filter = RedactingStream()
                self._has_text = self._has_earlier_text = False
                self.add(RunEvent("withdrawn"))
            case ToolStarted() if self._show_tools:
                self._end_text()
                self.add(RunEvent("tool_started", data=self._call(event)))
            case ToolEnded() if self._show_tools:
                data = {**self._call(event), "status": event.status, "duration_ms": event.duration_ms}
                self.add(RunEvent("tool_ended", data=data))
            case _:
                self.started()
                return
        self.status = "in_progress"

    def _call(self, event: ToolStarted | ToolEnded) -> dict[str, Any]:
        summary = call_summary(event.args, self._redactor)
        return {"tool": event.tool_name, "call_id": event.tool_call_id, "summary": summary}

    def _add_text(self, text: str) -> None:
        if not text:
            return
        if not self._has_text and self._has_earlier_text:
            text = f"\n\n{text}"
        self._has_text = True
        self.add(RunEvent("text", text))

    def _end_text(self) -> None:
        self._add_text(self._filter.finish())
        self._has_earlier_text = self._has_earlier_text or self._has_text
        self._has_text = False
        self._filter = RedactingStream()

    def add(self, event: RunEvent) -> None:
        """Add an entry and wake the followers, from any thread."""
        self.log.append(event._replace(at=time.time()))
        if not self._is_waking:
            self._is_waking = True
            with contextlib.suppress(RuntimeError):  # the loop has ended before the turn
                self.loop.call_soon_threadsafe(self._wake)

    # -- on the loop --------------------------------------------------------------------------------------------

    def _wake(self) -> None:
        self._is_waking = False
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def end(self, result: TurnResult) -> None:
        """The turn has ended."""
        self.result = result
        self.status = "cancelled" if result.status == "interrupted" else result.status
        self.add(RunEvent("ended"))

    def cut_off(self) -> None:
        """Let no client wait any longer, because the server stops before the turn has ended."""
        self._is_cut_off = True
        self._wake()

    async def changed(self, seen: int, seconds: float) -> bool:
        """Wait until the log has more than ``seen`` entries. False when it has not within that time.

        Raises ``ServerStopped`` when the server stops before.
        """
        until = time.monotonic() + seconds
        while len(self.log) <= seen:
            if self._is_cut_off:
                raise ServerStopped(self.id, can_be_read=not self.row.deleted)
            waiter: asyncio.Future[None] = self.loop.create_future()
            self._waiters.append(waiter)
            try:
                async with asyncio.timeout(until - time.monotonic()):
                    await waiter
            except TimeoutError:
                return False
        return True

    async def follow(self, start: int = 0) -> AsyncGenerator[tuple[int, list[RunEvent]]]:
        """The entries from ``start`` on, in batches with the number of the first; empty ones break a silence.

        Ends after the entry ``ended``.
        """
        at = start
        self.followers += 1
        try:
            while True:
                if not await self.changed(at, SECONDS_OF_SILENCE):
                    yield at, []
                    continue
                batch = self.log[at:]
                yield at, batch
                at += len(batch)
                if batch[-1].kind == "ended":
                    return
        finally:
            self.followers -= 1

    async def wait(self) -> TurnResult:
        """The result, as soon as there is one."""
        self.followers += 1
        try:
            while self.result is None:
                await self.changed(len(self.log), SECONDS_OF_SILENCE)
            return self.result
        finally:
            self.followers -= 1


def joined(batch: list[RunEvent], shown: Container[str]) -> list[tuple[str, RunEvent | None]]:
    """The entries of a batch: pieces of text in a row as one, and of the other kinds those that are ``shown``."""
    found: list[tuple[str, RunEvent | None]] = []
    for event in batch:
        if event.kind == "text":
            if found and found[-1][1] is None:
                found[-1] = (found[-1][0] + event.text, None)
            else:
                found.append((event.text, None))
        elif event.kind in shown:
            found.append(("", event))
    return found
