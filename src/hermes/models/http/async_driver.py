"""Sends a wire's requests over real connections, from a running event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar

from hermes.contract.response import Record
from hermes.errors import Interrupted
from hermes.models.endpoint import Endpoint
from hermes.models.http.async_network import AsyncStream
from hermes.models.http.certificates import Certificates
from hermes.models.http.connections import Connection, Connections
from hermes.models.http.driver import timeouts_of
from hermes.models.http.exchange import Patience, TimedOut
from hermes.models.http.network_errors import ConnectionLost, NetworkError
from hermes.models.http.route import route_to
from hermes.models.http.transfer import OnDelta, Transfer
from hermes.models.reply import InterruptedReply
from hermes.models.retry import Attempts, Failure, Send, Sleep, succeed
from hermes.models.wires.wire import Wire
from hermes.scope import Interrupt

T = TypeVar("T")


class AsyncDriver:
    """Sends requests and feeds the answers to the wire's parser. One serves all event loops of a process."""

    def __init__(self) -> None:
        self._connections: Connections[AsyncStream] = Connections()
        self._certificates = Certificates()

    async def send(
        self,
        endpoint: Endpoint,
        wire: Wire,
        kwargs: Mapping[str, Any],
        *,
        interrupt: Interrupt | None = None,
        on_delta: OnDelta | None = None,
    ) -> Record:
        """One request and its whole answer; ``on_delta`` sees the pieces as they arrive.

        Raises ``ProviderError`` (an ``IncompleteReply`` when part of an answer had arrived) or, when the
        interrupt is cancelled, ``InterruptedReply``. Cancelling the task ends the request as any other wait.
        """
        request = wire.http_request(endpoint, kwargs)
        parser = wire.parser(endpoint, streaming=bool(kwargs.get("stream")), tools=bool(kwargs.get("tools")))
        transfer = Transfer(endpoint, wire, request, parser, on_delta)
        try:
            with Interruptible(interrupt):
                await self._carry(transfer, Patience(timeouts_of(endpoint, kwargs)))
        except Interrupted as stop:
            raise InterruptedReply(stop.reason, parser.partial()) from None
        return transfer.result()

    def close(self) -> None:
        """Close the connections that are idle. One that is in use is closed by its own request."""
        self._connections.close()

    async def _carry(self, transfer: Transfer, patience: Patience) -> None:
        connection = None
        try:
            connection = self._connections.take(transfer.key) or await self._open(transfer, patience)
            await self._converse(connection, transfer, patience)
        except (NetworkError, TimedOut) as error:
            transfer.break_off(error, patience.phase)
        finally:
            if connection is not None:
                self._connections.give_back(connection)

    async def _converse(self, connection: Connection[AsyncStream], transfer: Transfer, patience: Patience) -> None:
        stream, http = connection.stream, connection.http
        stream.patience = patience
        patience.phase = "sending"
        try:
            for piece in transfer.outgoing(connection):
                await stream.write(piece)
        except ConnectionLost:
            pass  # a server that refuses early closes early, but may have said why
        patience.phase = "first byte"
        while transfer.receive(await stream.read(), http, patience):
            pass

    async def _open(self, transfer: Transfer, patience: Patience) -> Connection[AsyncStream]:
        route = route_to(transfer.address)
        before, after = route.secured_hosts()
        stream = await AsyncStream.connect(route, patience)
        try:
            if before:
                await stream.secure(self._certificates.context(transfer.ca_bundle), before)
            if steps := route.tunnel():
                await stream.negotiate(steps)
            if after:
                await stream.secure(self._certificates.context(transfer.ca_bundle), after)
        except BaseException:
            stream.close()
            raise
        return Connection(transfer.key, stream, route.forwarder)


async def pursue_async(
    policy: Attempts, interrupt: Interrupt | None, attempt: Callable[[Send], Awaitable[T | Failure]]
) -> T:
    """Make the attempts of a policy on the running loop, with ``attempt``, until one of them succeeds.

    Raises the last ``ProviderError`` when none does, and ``Interrupted`` when a wait between two is cancelled.
    """
    try:
        action = next(policy)
        while True:
            if isinstance(action, Sleep):
                with Interruptible(interrupt):
                    await asyncio.sleep(action.seconds)
                action = next(policy)
                continue
            outcome = await attempt(action)
            if not isinstance(outcome, Failure):
                succeed(policy)
                return outcome
            action = policy.send(outcome)
    finally:
        policy.close()


class Interruptible:
    """A block of a task that an interrupt, cancelled in any thread, ends with ``Interrupted``."""

    __slots__ = ("_cancelling", "_forget", "_hit", "_interrupt", "_task")

    def __init__(self, interrupt: Interrupt | None) -> None:
        self._interrupt = interrupt
        self._task: asyncio.Task[Any] | None = None
        self._cancelling = 0
        self._hit = False

    def __enter__(self) -> Self:
        interrupt, task = self._interrupt, asyncio.current_task()
        if interrupt is None or task is None:
            return self
        interrupt.check()
        loop = asyncio.get_running_loop()
        self._task, self._cancelling = task, task.cancelling()
        self._forget = interrupt.add_callback(lambda: loop.call_soon_threadsafe(self._end) and None)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        task, self._task = self._task, None
        if task is None or self._interrupt is None:
            return
        self._forget()
        # Somebody else may have cancelled the task as well; that wins, and goes on as it is.
        if self._hit and task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise Interrupted(self._interrupt.reason) from error

    def _end(self) -> None:
        if self._task is not None and not self._hit:
            self._hit = True
            self._task.cancel()
