"""Client for another agent: its card, messages with streamed answers, answers to its questions, cancelling."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator
from dataclasses import dataclass

import httpx
from a2a.client import A2ACardResolver, Client, ClientConfig, create_client
from a2a.types import (
    AgentCard,
    CancelTaskRequest,
    GetTaskRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    StreamResponse,
    SubscribeToTaskRequest,
    Task,
)
from google.protobuf import json_format, struct_pb2

from hermes.base.http.client import HttpClient
from hermes.base.scope import new_id
from hermes.base.version import __version__
from hermes.tools.peers.addresses import Peer, PeerGuard
from hermes.tools.peers.failures import PeerError, StreamDropped, as_peer_error
from hermes.tools.peers.hops import HOPS, next_hop
from hermes.tools.peers.reply import PeerReply, PeerUpdate
from hermes.tools.peers.transport import PeerAuth, PeerTransport, trace_headers

_BINDINGS = ["JSONRPC", "HTTP+JSON"]
_SECONDS_TO_CONNECT = 10.0
#: How long the cancelling of a remote task may hold up a caller who has given up.
_SECONDS_TO_CANCEL = 0.6
#: How long the first event may take in that case.
_SECONDS_TO_BEGIN = 0.3
#: Backoff before a broken stream is resumed. It starts over after each event.
_PAUSES = (0.1, 0.5, 1.0, 2.0, 4.0)
_SHORTEST_POLL, _LONGEST_POLL = 0.05, 2.0
#: The answers to an approval.
APPROVE, DENY = "approve", "deny"


@dataclass(frozen=True, slots=True)
class PeerCallOptions:
    """Options of calls."""

    #: Seconds the agent may be silent.
    timeout: float = 300.0
    max_hops: int = 4
    allow_private: bool = False
    #: Stream the answer if the agent can; else poll for it.
    stream: bool = True


@contextlib.asynccontextmanager
async def connect_peer(peer: Peer, options: PeerCallOptions) -> AsyncGenerator[PeerClient]:
    """A client for an agent whose card was read. Raises ``PeerError`` when it cannot be reached."""
    credentials = PeerAuth(peer)
    transport = PeerTransport(HttpClient(), PeerGuard(peer, options.allow_private))
    async with httpx.AsyncClient(
        transport=transport,
        auth=credentials,
        headers={"User-Agent": f"hermes/{__version__}", **trace_headers()},
        timeout=httpx.Timeout(options.timeout, connect=min(_SECONDS_TO_CONNECT, options.timeout)),
    ) as http:
        try:
            card = await A2ACardResolver(http, peer.url).get_agent_card()
        except Exception as error:
            raise as_peer_error(error, peer.name, options.timeout) from None
        credentials.learn(card)
        config = ClientConfig(
            streaming=options.stream,
            polling=not (options.stream and card.capabilities.streaming),
            httpx_client=http,
            supported_protocol_bindings=_BINDINGS,
        )
        try:
            client = await create_client(card, client_config=config)
        except ValueError:
            bindings = {interface.protocol_binding for interface in card.supported_interfaces}
            offered = ", ".join(sorted(bindings)) or "none"
            raise PeerError(f"{peer.name} offers {offered}; known here are {' and '.join(_BINDINGS)}") from None
        yield PeerClient(peer, card, client, options)


class PeerClient:
    """One agent, ready to be called."""

    def __init__(self, peer: Peer, card: AgentCard, client: Client, options: PeerCallOptions) -> None:
        self.peer = peer
        self.card = card
        self._client = client
        self._options = options
        self._streams = options.stream and card.capabilities.streaming

    # -- messages -----------------------------------------------------------------------------------------------

    async def stream(
        self, text: str, reply: PeerReply, *, task_id: str = "", context_id: str = "", approval_id: str = ""
    ) -> AsyncGenerator[PeerUpdate]:
        """Send a message and yield updates until ``reply`` is settled. ``reply`` always has everything so far.

        With ``task_id`` it answers the question of that task. A broken stream is resumed. Raises ``PeerError``.
        """
        message = Message(
            message_id=new_id(),
            role=Role.ROLE_USER,
            task_id=task_id,
            context_id=context_id,
            parts=_parts(text, approval_id),
        )
        message.metadata[HOPS] = next_hop(self._options.max_hops)
        events = self._client.send_message(SendMessageRequest(message=message))
        pauses = list(_PAUSES)
        while True:
            try:
                async with contextlib.aclosing(self._updates(events, reply)) as updates:
                    async for update in updates:
                        pauses = list(_PAUSES)
                        yield update
            except StreamDropped:
                if not reply.task_id or not pauses:
                    raise
            if reply.is_settled:
                return
            if not reply.task_id:
                raise PeerError(f"{self.peer.name} ended the connection without an answer")
            if not self._streams:
                break
            if not pauses:
                raise StreamDropped(f"{self.peer.name} ends the connection again and again before its answer")
            await asyncio.sleep(pauses.pop(0))
            events = self._resumed(reply)
        async for update in self._polled(reply):
            yield update

    async def send(
        self,
        text: str,
        *,
        task_id: str = "",
        context_id: str = "",
        approval_id: str = "",
        on_update: Callable[[PeerUpdate], None] | None = None,
    ) -> PeerReply:
        """Send a message and wait for the end of the answer. Cancelling the wait cancels the remote task."""
        reply, begun = PeerReply(), asyncio.Event()
        updates = self.stream(text, reply, task_id=task_id, context_id=context_id, approval_id=approval_id)

        async def read() -> None:
            async with contextlib.aclosing(updates):
                async for update in updates:
                    begun.set()
                    if on_update is not None:
                        on_update(update)

        reading = asyncio.create_task(read())
        try:
            await asyncio.shield(reading)
        except asyncio.CancelledError:
            await self._abandon(reading, begun, reply)
            raise
        except PeerError:
            await self._stop(reply)
            raise
        return reply

    async def answer(self, task_id: str, text: str, on_update: Callable[[PeerUpdate], None] | None = None) -> PeerReply:
        """Answer the question of a task. An approval is answered with ``approve`` or ``deny``."""
        asked = await self.get(task_id)
        if not asked.waits:
            raise PeerError(f"task {task_id} of {self.peer.name} waits for no answer: it is {asked.state}")
        approval_id = str(asked.question["approval_id"]) if asked.is_approval and text in (APPROVE, DENY) else ""
        return await self.send(
            text, task_id=asked.task_id, context_id=asked.context_id, approval_id=approval_id, on_update=on_update
        )

    # -- tasks --------------------------------------------------------------------------------------------------

    async def get(self, task_id: str) -> PeerReply:
        """The current state of a task."""
        reply = PeerReply()
        reply.take_task(await self._task(task_id))
        return reply

    async def cancel(self, task_id: str) -> PeerReply:
        """Stop a task."""
        reply = PeerReply()
        with self._errors():
            reply.take_task(await self._client.cancel_task(CancelTaskRequest(id=task_id)))
        return reply

    async def _task(self, task_id: str) -> Task:
        with self._errors():
            return await self._client.get_task(GetTaskRequest(id=task_id))

    @contextlib.contextmanager
    def _errors(self) -> Generator[None]:
        """The failures of a call as ``PeerError``."""
        try:
            yield
        except Exception as error:
            raise as_peer_error(error, self.peer.name, self._options.timeout) from None

    async def _abandon(self, reading: asyncio.Task[None], begun: asyncio.Event, reply: PeerReply) -> None:
        """The caller has stopped waiting: cancel the remote task too."""
        if not reading.done():
            with contextlib.suppress(TimeoutError):  # without its first event the task cannot be named
                await asyncio.wait_for(begun.wait(), _SECONDS_TO_BEGIN)
        reading.cancel()
        await asyncio.wait({reading})
        if not reading.cancelled():
            reading.exception()  # retrieved, so that it is not reported as forgotten
        await self._stop(reply)

    async def _stop(self, reply: PeerReply) -> None:
        if not reply.task_id or reply.is_settled:
            return
        with contextlib.suppress(PeerError, TimeoutError):
            await asyncio.wait_for(self.cancel(reply.task_id), _SECONDS_TO_CANCEL)

    # -- streams and polling -----------------------------------------------------------------------------------

    async def _updates(self, events: AsyncIterator[StreamResponse], reply: PeerReply) -> AsyncGenerator[PeerUpdate]:
        try:
            async for event in events:
                yield reply.take(event)
        except Exception as error:
            raise as_peer_error(error, self.peer.name, self._options.timeout) from None
        finally:
            if isinstance(events, AsyncGenerator):
                await events.aclose()  # now, not when it is garbage collected

    async def _resumed(self, reply: PeerReply) -> AsyncGenerator[StreamResponse]:
        """The state of the task now, then its further events, unless it has ended meanwhile."""
        task = await self._client.get_task(GetTaskRequest(id=reply.task_id))
        yield StreamResponse(task=task)
        if reply.is_settled:
            return
        async for event in self._client.subscribe(SubscribeToTaskRequest(id=reply.task_id)):
            yield event

    async def _polled(self, reply: PeerReply) -> AsyncGenerator[PeerUpdate]:
        """Poll for the task, with growing pauses, until it is settled or nothing changes any more."""
        loop = asyncio.get_running_loop()
        pause, changed_at = _SHORTEST_POLL, loop.time()
        while not reply.is_settled:
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, _LONGEST_POLL)
            update = reply.take_task(await self._task(reply.task_id))
            if update != PeerUpdate():
                changed_at = loop.time()
                yield update
            elif loop.time() - changed_at > self._options.timeout:
                raise PeerError(
                    f"{self.peer.name} was silent for {self._options.timeout:g} s; its task {reply.task_id} is still "
                    f"{reply.state}"
                )


def _parts(text: str, approval_id: str) -> list[Part]:
    if not approval_id:
        return [Part(text=text)]
    data = struct_pb2.Value()
    json_format.ParseDict({"approval_id": approval_id, "choice": text}, data)
    return [Part(text=text), Part(data=data)]
