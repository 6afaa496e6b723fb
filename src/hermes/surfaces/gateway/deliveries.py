"""Delivery of the outbox: claims what is due for the platforms that are connected, and sends it, in order per chat."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextvars import Context, copy_context
from typing import Any, Protocol, TypeVar, cast

from hermes.base.config.schema.gateway import GatewayConfig
from hermes.host import Host
from hermes.surfaces.gateway.adapter import BasePlatformAdapter, SendResult
from hermes.surfaces.gateway.store.outbox import Outbox, OutboxRow, OutboxState

T = TypeVar("T")
log = logging.getLogger("hermes.gateway")

SEND_SECONDS = 60.0
#: How often the outbox is read for messages that other processes added and for those that are to be tried again.
POLL_SECONDS = 1.0
#: Seconds until the second attempt; each further pause is twice as long, up to the longest.
FIRST_PAUSE, LONGEST_PAUSE = 2.0, 300.0
_MAX_CLAIMED = 200

#: Platform and id of a chat.
_Chat = tuple[str, str]
#: Number, state, error, the platform's id, and when it is tried again.
_Settled = tuple[int, OutboxState, str, str, float]


class DeliveryServices(Protocol):
    """What deliveries are given to send with. The gateway has it all."""

    host: Host
    config: GatewayConfig
    outbox: Outbox

    @property
    def adapters(self) -> Mapping[str, BasePlatformAdapter]:
        """The adapters that are connected."""
        ...

    async def blocking(self, work: Callable[..., T], *args: Any, **options: Any) -> T:
        """Run blocking work on a thread."""
        ...

    def spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        """Run a coroutine beside the others."""
        ...


class Deliveries:
    """Sends what is in the outbox."""

    def __init__(self, services: DeliveryServices) -> None:
        self._services = services
        self._wake = asyncio.Event()
        self._sending: dict[asyncio.Task[None], _Chat] = {}
        #: The chats with a message that is tried again after a pause which the platform did not ask for.
        self._retrying: set[_Chat] = set()
        #: Who waits for a message, and the context that it is sent in: what its adapter has set around the turn.
        self._waiters: dict[str, tuple[asyncio.Future[bool], Context]] = {}

    def wake(self) -> None:
        """Something was added."""
        self._wake.set()

    def heard_from(self, platform: str, chat_id: str) -> None:
        """A message came from a chat: what could not be sent there is tried again without the rest of its pause."""
        if (platform, chat_id) in self._retrying:
            self._services.spawn(self._make_due(platform, chat_id))

    def connected(self, platform: str) -> None:
        """A platform is connected: everything that waits for it is tried now."""
        self._services.spawn(self._make_due(platform))

    async def _make_due(self, platform: str, chat_id: str | None = None) -> None:
        """Make messages due, also those whose last attempt has not ended yet."""
        attempts = [task for task, chat in self._sending.items() if chat == (platform, chat_id)]
        if attempts:
            await asyncio.wait(attempts)
        await self._services.blocking(self._services.outbox.make_due, platform, chat_id)
        self.wake()

    async def run(self) -> None:
        """Send until cancelled."""
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), POLL_SECONDS)
            self._wake.clear()
            try:
                await self._send_due()
            except Exception:
                log.exception("the outbox could not be read; it is tried again")
                await asyncio.sleep(POLL_SECONDS)

    async def _send_due(self) -> None:
        services = self._services
        platforms = [str(name) for name in services.adapters]
        if not platforms:
            return
        rows = await services.blocking(services.outbox.claim, platforms, _MAX_CLAIMED)
        if len(rows) == _MAX_CLAIMED:
            self.wake()
        by_chat: dict[_Chat, list[OutboxRow]] = {}
        for row in rows:
            by_chat.setdefault((row.message.platform, row.message.chat_id), []).append(row)
        for chat, messages in by_chat.items():
            _, context = self._waiters.get(messages[0].message.key, (None, None))
            task = asyncio.create_task(self._send_chat(messages), context=context)
            self._sending[task] = chat
            task.add_done_callback(self._sending.pop)

    @property
    def is_busy(self) -> bool:
        """Whether something is being sent, or was added and not looked at yet."""
        return bool(self._sending or self._wake.is_set())

    # -- one chat -----------------------------------------------------------------------------------------------

    async def _send_chat(self, rows: Sequence[OutboxRow]) -> None:
        held_until = 0.0
        for row in rows:
            if held_until:  # one before it is tried again later
                await self._settle((row.number, "waiting", "", "", held_until), row)
                continue
            settled = await self._send(row)
            if settled[1] == "waiting":
                held_until = settled[4]
            else:
                self._retrying.discard((row.message.platform, row.message.chat_id))
            await self._settle(settled, row)

    async def _send(self, row: OutboxRow) -> _Settled:
        adapter = self._services.adapters.get(row.message.platform)
        if adapter is None:  # lost since it was claimed: nothing was sent
            return row.number, "waiting", "the platform is not connected", "", time.time() + POLL_SECONDS
        try:
            # Not wait_for: its task would pass an adapter's SystemExit on to the loop.
            async with asyncio.timeout(SEND_SECONDS):
                result = await send_message(adapter, row)
        except (asyncio.CancelledError, KeyboardInterrupt):
            raise
        except BaseException as error:
            # It may have arrived: sending it again could double it.
            text = self._services.host.redactor.redact(f"{type(error).__name__}: {error}")
            log.warning("%s: message %d may not have arrived: %s", row.message.platform, row.number, text)
            return row.number, "unknown", text, "", 0.0
        return self._judge(row, result)

    def _judge(self, row: OutboxRow, result: Any) -> _Settled:
        if result is None or getattr(result, "success", result is True):
            return row.number, "sent", "", str(getattr(result, "message_id", None) or ""), 0.0
        error = self._services.host.redactor.redact(str(getattr(result, "error", "") or "the platform refused it"))
        attempts = row.attempts + 1
        config = self._services.config
        is_early = attempts < config.max_attempts or time.time() - row.created_at < config.delivery_timeout
        if getattr(result, "retryable", False) and is_early:
            pause: object = getattr(result, "retry_after", None)
            if isinstance(pause, int | float) and pause > 0:
                seconds = float(pause)
            else:
                seconds = FIRST_PAUSE * 2 ** (attempts - 1)
                self._retrying.add((row.message.platform, row.message.chat_id))
            return row.number, "waiting", error, "", time.time() + min(seconds, LONGEST_PAUSE)
        log.warning("%s: message %d was not sent: %s", row.message.platform, row.number, error)
        return row.number, "failed", error, "", 0.0

    # -- results ------------------------------------------------------------------------------------------------

    async def _settle(self, settled: _Settled, row: OutboxRow) -> None:
        """Store a result. A process that dies before that leaves the message as unknown."""
        if settled[1] == "waiting":
            asyncio.get_running_loop().call_later(max(settled[4] - time.time(), 0) + 0.01, self.wake)
        else:
            waiter, _ = self._waiters.pop(row.message.key, (None, None))
            if waiter is not None and not waiter.done():
                waiter.set_result(settled[1] == "sent")
        try:
            is_waiting = await self._services.blocking(self._services.outbox.settle, [settled])
        except Exception:
            log.exception("the result of message %d could not be stored", row.number)
            return
        if is_waiting:  # chats that were held back by this one may continue
            self.wake()

    def watch(self, keys: Sequence[str]) -> list[asyncio.Future[bool]]:
        """Futures of messages that will be added: whether each was sent."""
        loop = asyncio.get_running_loop()
        for key in keys:
            self._waiters.setdefault(key, (loop.create_future(), copy_context()))
        return [self._waiters[key][0] for key in keys]


async def send_message(adapter: BasePlatformAdapter, row: OutboxRow) -> Any:
    """Send a message, a question in the adapter's own way."""
    message, details = row.message, row.message.details
    metadata = {"thread_id": message.thread_id} if message.thread_id else None
    if getattr(adapter, "TAKES_IDEMPOTENCY_KEY", False):
        metadata = {**(metadata or {}), "idempotency_key": f"{message.key}:{row.created_at!r}"}
    if message.kind == "clarify" and _overrides(adapter, "send_clarify"):
        asked = (message.chat_id, details.get("question", ""), details.get("choices") or None)
        named = (details.get("id", ""), details.get("session_key", ""))
        result = await _ask(adapter.send_clarify, *asked, *named, metadata=metadata)
        if result is not None:
            return result
    if message.kind == "approval" and _overrides(adapter, "send_exec_approval"):
        asked = (message.chat_id, details.get("command", ""), details.get("session_key", ""))
        result = await _ask(adapter.send_exec_approval, *asked, details.get("description", ""), metadata=metadata)
        if result is not None:
            return result
    # Published adapters tell a final answer from other messages by this name.
    send = adapter._send_with_retry  # pyright: ignore[reportPrivateUsage]
    return await send(message.chat_id, message.content, reply_to=message.reply_to or None, metadata=metadata)


async def _ask(ask: Any, *args: Any, **options: Any) -> SendResult | None:
    """Ask in the adapter's own way; None when it does not take these arguments or cannot, so that text is sent."""
    try:
        result = cast("SendResult | None", await ask(*args, **options))
    except TypeError:
        return None
    return result if getattr(result, "success", False) else None


def _overrides(adapter: BasePlatformAdapter, method: str) -> bool:
    return getattr(type(adapter), method, None) is not getattr(BasePlatformAdapter, method)
