"""A live turn: the log of its events as they happen, for everyone who follows it, and its result.

A surface maps its own protocol onto three things:

1. What surrounds a turn on the thread that runs it, here or on a worker: a ``TurnEntry`` for the dispatcher, which says
   who is asked (``service/live/questions.py``)::

       with asking(host, session, SuspendingResponder("web", timeout=None)):
           yield

2. The turns of the surface (``service/live/turns.py``). Each request becomes one ``LiveTurn``, by its idempotency key::

       turns = LiveTurns(host, "web")
       turns.start(dispatcher)                 # continues what an earlier process left suspended
       live = LiveTurn(session_id, host.redactor)   # live.listener = ignore_events: without its text and tools
       turns.accept(live, request)             # on disk when this returns
       turns.take_up(live, turn_id)            # or: follow a turn that is in the journal already
       turns.stop(live, "why")

3. What its clients see: the entries of ``live.log``, in order, each with its number. ``follow(start)`` gives them from
   any number on, so a client that was cut off continues where it was; ``subscribe`` calls a function for each instead.
   The last entry is ``TurnOver``. The answer to a question is stored with ``Questions.answer``, by any process; the
   turn continues then.

Text is without the secrets of the host and without reasoning between tags. Everything here is provisional: the record
of a turn is in the journal, and a turn outlives the process that follows it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncGenerator, Callable
from typing import Literal, NamedTuple

import msgspec

from hermes.agent.events import Listener, TurnResult
from hermes.base.http_server.outgoing import RedactingStream
from hermes.base.sanitize import Redactor
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
from hermes.journal.questions import QuestionRow

log = logging.getLogger("hermes.live")

LiveStatus = Literal["queued", "in_progress", "waiting", "completed", "incomplete", "failed", "cancelled"]


class TextAdded(msgspec.Struct, frozen=True, gc=False):
    """A piece of the answer. ``opens_reply``: it is the first one of a reply, and an earlier reply had text too."""

    text: str
    opens_reply: bool = False


class ReplyEnded(msgspec.Struct, frozen=True, gc=False):
    """The model has said a reply to its end."""


class AttemptDropped(msgspec.Struct, frozen=True, gc=False):
    """An attempt at a reply failed; another one follows, and begins anew."""


class QuestionAsked(msgspec.Struct, frozen=True):
    """The turn is suspended until this question is answered."""

    question: QuestionRow


class QuestionAnswered(msgspec.Struct, frozen=True, gc=False):
    """The questions of the turn are answered, or their time is over; it continues."""


class TurnOver(msgspec.Struct, frozen=True):
    """The turn has ended: the last entry of a log."""

    result: TurnResult


LiveEvent = (
    TextAdded
    | ReplyEnded
    | AttemptDropped
    | TextWithdrawn
    | ToolStarted
    | ToolEnded
    | QuestionAsked
    | QuestionAnswered
    | TurnOver
)


class LiveEntry(NamedTuple):
    """An event of the log, with its number and the time at which it was added."""

    number: int
    at: float
    event: LiveEvent


class LiveTurn:
    """A turn as its surface follows it. Events are added by any thread; coroutines are for one loop."""

    def __init__(
        self,
        session_id: str,
        redactor: Redactor,
        *,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        """``loop`` is the one that ``follow`` and ``wait`` run on, if any does."""
        self.session_id = session_id
        #: Empty until it was accepted.
        self.turn_id = ""
        self.status: LiveStatus = "queued"
        self.result: TurnResult | None = None
        #: Why it is to stop; empty while it is not.
        self.stop_reason = ""
        self.log: list[LiveEntry] = []
        #: How many coroutines wait for it.
        self.followers = 0
        self.redactor = redactor
        #: Is given the events of the turn; for a surface that shows fewer of them, or none.
        self.listener: Listener = self.listen
        self._loop = loop
        self._text = RedactingStream(redactor)
        #: Text was added since the last reply, and before it.
        self._has_text = self._has_earlier_text = False
        #: What coroutines that wait are given when they can wait no longer.
        self._cut_off: Exception | None = None
        #: Coroutines that wait for an entry, and the kinds of entries that they need not be woken for.
        self._waiters: list[tuple[asyncio.Future[None], tuple[type[LiveEvent], ...]]] = []
        self._is_waking = False
        self._subscribers: list[Callable[[LiveEntry], None]] = []

    @property
    def has_ended(self) -> bool:
        """Whether there is a result."""
        return self.result is not None

    def subscribe(self, subscriber: Callable[[LiveEntry], None]) -> None:
        """Call a function for every entry from now on, on the thread that adds it. It must not block."""
        self._subscribers.append(subscriber)

    # -- events, from any thread --------------------------------------------------------------------------------

    def started(self) -> None:
        """The turn has left the queue."""
        if self.status == "queued":
            self.status = "in_progress"

    def listen(self, event: TurnEvent) -> None:
        """Add what a client may see of an event of the turn. Reasoning is never shown. A ``Listener``."""
        match event:
            case TextDelta():
                self._add_text(self._text.feed(event.text))
            case AttemptAnswered():
                self._end_text()
                self.add(ReplyEnded())
            case AttemptFailed() | EndpointSkipped():
                self._text = RedactingStream(self.redactor)
                self.add(AttemptDropped())
            case TextWithdrawn():
                self._text = RedactingStream(self.redactor)
                self._has_text = self._has_earlier_text = False
                self.add(event)
            case ToolStarted():
                self._end_text()
                self.add(event)
            case ToolEnded():
                self.add(event)
            case _:
                self.started()
                return
        self.status = "in_progress"

    def _add_text(self, text: str) -> None:
        if text:
            opens_reply = self._has_earlier_text and not self._has_text
            self._has_text = True
            self.add(TextAdded(text, opens_reply))

    def _end_text(self) -> None:
        self._add_text(self._text.finish())
        self._has_earlier_text = self._has_earlier_text or self._has_text
        self._has_text = False
        self._text = RedactingStream(self.redactor)

    def ask(self, questions: list[QuestionRow]) -> None:
        """The turn is suspended until these are answered."""
        self.status = "waiting"
        for question in questions:
            self.add(QuestionAsked(question))

    def continued(self) -> None:
        """The turn was suspended and continues."""
        self.status = "in_progress"
        self.add(QuestionAnswered())

    def end(self, result: TurnResult) -> None:
        """The turn has ended. Only the first call counts."""
        if self.has_ended:
            return
        self.result = result
        self.status = "cancelled" if result.status == "interrupted" else result.status
        self.add(TurnOver(result))

    def add(self, event: LiveEvent) -> None:
        """Add an entry and wake the followers."""
        entry = LiveEntry(len(self.log), time.time(), event)
        self.log.append(entry)
        for subscriber in tuple(self._subscribers):
            try:
                subscriber(entry)
            except Exception:
                log.exception("a subscriber of turn %s failed; it is called no more", self.turn_id)
                self._subscribers.remove(subscriber)
        if any(not isinstance(event, but) for _, but in tuple(self._waiters)):
            self._wake_soon()

    def cut_off(self, error: Exception) -> None:
        """Let no coroutine wait any longer, because the server stops before the turn has ended: each gets ``error``."""
        self._cut_off = error
        self._wake_soon()

    # -- following, on the loop ---------------------------------------------------------------------------------

    def _wake_soon(self) -> None:
        if self._waiters and not self._is_waking and self._loop is not None:
            self._is_waking = True
            with contextlib.suppress(RuntimeError):  # the loop has ended before the turn
                self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        self._is_waking = False
        waiters, self._waiters = self._waiters, []
        for waiter, _ in waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def changed(self, seen: int, seconds: float | None = None, *, but: tuple[type[LiveEvent], ...] = ()) -> bool:
        """Wait until the log has more than ``seen`` entries. False when it has not within that time.

        ``but`` are kinds of entries that do not count.
        """
        until = None if seconds is None else time.monotonic() + seconds
        while not self._has_news(seen, but):
            if self._cut_off is not None:
                raise self._cut_off
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append((waiter, but))
            if self._has_news(seen, but) or self._cut_off is not None:
                continue  # it came before there was a waiter to wake
            if until is None:
                await waiter
                continue
            try:
                async with asyncio.timeout(until - time.monotonic()):
                    await waiter
            except TimeoutError:
                return False
        return True

    def _has_news(self, seen: int, but: tuple[type[LiveEvent], ...]) -> bool:
        return any(not isinstance(entry.event, but) for entry in self.log[seen:])

    async def follow(self, start: int = 0, *, silence: float | None = None) -> AsyncGenerator[list[LiveEntry]]:
        """The entries from the number ``start`` on, in batches. Ends after ``TurnOver``.

        ``silence``: an empty batch comes after so many seconds without an entry, to keep a connection open with.
        """
        at = start
        self.followers += 1
        try:
            while True:
                if not await self.changed(at, silence):
                    yield []
                    continue
                batch = self.log[at:]
                yield batch
                at += len(batch)
                if isinstance(batch[-1].event, TurnOver):
                    return
        finally:
            self.followers -= 1

    async def wait(self) -> TurnResult:
        """The result, as soon as there is one."""
        self.followers += 1
        try:
            while self.result is None:
                await self.changed(len(self.log))
            return self.result
        finally:
            self.followers -= 1
