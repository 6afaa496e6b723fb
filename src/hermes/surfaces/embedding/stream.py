"""A running turn as an iterator of typed events, for threads and for asyncio."""

from __future__ import annotations

import asyncio
import contextlib
import queue
from collections.abc import AsyncIterator, Callable, Iterator

from hermes.agent.events import Listener, TurnResult
from hermes.agent.workers import Workers, WorkerTask
from hermes.base.errors import HermesError
from hermes.base.scope import Interrupt
from hermes.contract.events import TextDelta, TextWithdrawn, TurnEvent

#: Runs a turn to its end, with that listener and interrupt.
RunTurn = Callable[[Listener, Interrupt], TurnResult]


class TextRestarted(HermesError):
    """The text that was read broke off and does not count. The turn continues; its ``result`` has the answer."""


def _text_of(event: TurnEvent) -> str:
    if isinstance(event, TextWithdrawn):
        raise TextRestarted("the answer broke off and is asked for again; the stream's result has the whole of it")
    return event.text if isinstance(event, TextDelta) else ""


class TurnStream:
    """The events of one turn, in order, while it runs on a thread of its own.

    Iterate over it, then read ``result``. Leaving a ``with`` block early interrupts the turn and waits for its end. The
    text of a stream is provisional: only ``result`` is recorded.
    """

    def __init__(self, run: RunTurn, workers: Workers, interrupt: Interrupt) -> None:
        self._events: queue.SimpleQueue[TurnEvent | None] = queue.SimpleQueue()
        self._interrupt = interrupt
        self._ended = False
        self._turn: WorkerTask[TurnResult] = workers.submit(lambda: self._run(run))

    def _run(self, run: RunTurn) -> TurnResult:
        try:
            return run(self._events.put, self._interrupt)
        finally:
            self._events.put(None)

    def __iter__(self) -> Iterator[TurnEvent]:
        return self

    def __next__(self) -> TurnEvent:
        event = None if self._ended else self._events.get()
        if event is None:
            if not self._ended:
                self._ended = True
                self._turn.is_over(None)
                self._turn.result()  # raises what kept the turn from having a result
            raise StopIteration
        return event

    def text(self) -> Iterator[str]:
        """The text of the answer alone, piece by piece.

        ``TextRestarted`` when an answer broke off and is asked for again: iterate over the events to follow that.
        """
        return (piece for piece in map(_text_of, self) if piece)

    @property
    def result(self) -> TurnResult:
        """How the turn ended. Waits for it; events that were not read are dropped."""
        while not self._ended:
            next(self, None)
        self._turn.is_over(None)
        return self._turn.result()

    def interrupt(self, reason: str = "interrupted") -> None:
        """Stop the turn. The remaining events and the result still arrive."""
        self._interrupt.cancel(reason)

    def close(self) -> None:
        """Interrupt the turn unless it is over, and wait for its end."""
        if not (self._ended or self._turn.is_over(0)):
            self._interrupt.cancel("the stream was closed")  # may belong to the caller, who uses it for other turns too
        self._turn.is_over(None)
        self._ended = True

    def __enter__(self) -> TurnStream:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()


class AsyncTurnStream:
    """The same for ``async for``. Cancelling the task that reads it, or leaving ``async with``, interrupts the turn."""

    def __init__(self, run: RunTurn, workers: Workers, interrupt: Interrupt) -> None:
        self._loop = asyncio.get_running_loop()
        self._events: asyncio.Queue[TurnEvent | None] = asyncio.Queue()
        self._interrupt = interrupt
        self._ended = False
        self._done: asyncio.Future[TurnResult] = self._loop.create_future()
        # A reader that stops early never asks for the exception; asyncio would report that as an error of its own.
        self._done.add_done_callback(lambda done: None if done.cancelled() else done.exception())
        workers.submit(lambda: self._run(run))

    def _run(self, run: RunTurn) -> None:
        """In the thread of the turn."""
        try:
            result = run(self._put, self._interrupt)
        except BaseException as error:
            failure = error  # the name of an exception ends with its block
            self._call(lambda: self._done.set_exception(failure))
        else:
            self._call(lambda: self._done.set_result(result))
        self._call(lambda: self._events.put_nowait(None))

    def _put(self, event: TurnEvent) -> None:
        self._call(lambda: self._events.put_nowait(event))

    def _call(self, function: Callable[[], None]) -> None:
        try:
            self._loop.call_soon_threadsafe(function)
        except RuntimeError:  # the loop is closed: no reader is left
            self._interrupt.cancel("the event loop was closed")

    def __aiter__(self) -> AsyncIterator[TurnEvent]:
        return self

    async def __anext__(self) -> TurnEvent:
        event = None if self._ended else await self._events.get()
        if event is None:
            if not self._ended:
                self._ended = True
                self._done.result()  # raises what kept the turn from having a result
            raise StopAsyncIteration
        return event

    async def text(self) -> AsyncIterator[str]:
        """The text of the answer alone, piece by piece. ``TextRestarted`` as for ``TurnStream.text``."""
        async for event in self:
            piece = _text_of(event)
            if piece:
                yield piece

    async def result(self) -> TurnResult:
        """How the turn ended. When the awaiting task is cancelled, the turn is interrupted and ends first."""
        try:
            return await asyncio.shield(self._done)
        except asyncio.CancelledError:
            await self.aclose()
            raise

    def interrupt(self, reason: str = "interrupted") -> None:
        """Stop the turn. The remaining events and the result still arrive."""
        self._interrupt.cancel(reason)

    async def aclose(self) -> None:
        """Interrupt the turn unless it is over, and wait for its end."""
        if not self._done.done():
            self._interrupt.cancel("the stream was closed")
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait({self._done})
        self._ended = True

    async def __aenter__(self) -> AsyncTurnStream:
        return self

    async def __aexit__(self, *_exception: object) -> None:
        await self.aclose()
