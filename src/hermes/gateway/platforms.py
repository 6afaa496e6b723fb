"""Supervision of platform adapters: connects each one, restarts it with backoff, and keeps its failures to itself."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import random
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from hermes.gateway.adapter import BasePlatformAdapter, PlatformConfig, PlatformEntry

if TYPE_CHECKING:
    from hermes.gateway.gateway import Gateway

log = logging.getLogger("hermes.gateway")

PlatformState = Literal["starting", "connected", "waiting", "failed", "stopped"]

CONNECT_SECONDS = 90.0
DISCONNECT_SECONDS = 10.0
#: The first pause after a failure, and the longest. Each one is twice as long as the last.
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 300.0
#: A connection that held this long counts as a success: the pauses begin anew.
STABLE_SECONDS = 60.0
#: How often a connection is checked that does not report its own end.
CHECK_SECONDS = 2.0


class PlatformStatus(msgspec.Struct):
    """The state of one platform, for people."""

    name: str
    label: str
    state: PlatformState = "starting"
    error: str = ""
    #: How often it was started again.
    restarts: int = 0
    since: float = 0.0


class PlatformSupervisor:
    """Runs the adapter of one platform until it is stopped."""

    def __init__(
        self, gateway: Gateway, entry: PlatformEntry, config: PlatformConfig, *, first_pause: float = FIRST_PAUSE
    ) -> None:
        self._gateway = gateway
        self.entry = entry
        self._config = config
        self._first_pause = first_pause
        self.adapter: BasePlatformAdapter | None = None
        self.status = PlatformStatus(entry.name, entry.label, since=time.time())
        self._lost = asyncio.Event()
        self._redact = gateway.host.redactor.redact

    async def run(self) -> None:
        """Connect, and connect again after every failure, until this task is cancelled or it cannot help."""
        pause, is_reconnect = self._first_pause, False
        try:
            while True:
                began = time.monotonic()
                if not await self._connect(is_reconnect=is_reconnect):
                    if self.status.state == "failed":
                        return
                else:
                    await self._wait_until_lost()
                    if time.monotonic() - began > STABLE_SECONDS:
                        pause = self._first_pause
                is_reconnect = True
                await self._disconnect()
                if self.status.state == "failed":
                    return
                self._set("waiting", self.status.error)
                self.status.restarts += 1
                log.warning("%s: %s; next attempt in %.0f s", self.entry.name, self.status.error or "lost", pause)
                await asyncio.sleep(pause * random.uniform(0.8, 1.2))
                pause = min(pause * 2, LONGEST_PAUSE)
        finally:
            await self._disconnect()
            if self.status.state != "failed":
                self._set("stopped")

    # -- one connection -----------------------------------------------------------------------------------------

    async def _connect(self, *, is_reconnect: bool) -> bool:
        self._set("starting", self.status.error)
        self._lost = asyncio.Event()
        try:
            adapter = self.adapter = self._make_adapter()
            # Not wait_for: its task would pass an adapter's SystemExit on to the loop.
            async with asyncio.timeout(CONNECT_SECONDS):
                connected = await _connect_call(adapter, is_reconnect=is_reconnect)
        except asyncio.CancelledError:
            if self._is_cancelled():
                raise
            self._failed("its adapter cancelled itself")
            return False
        except TimeoutError:
            self._failed(f"no connection within {CONNECT_SECONDS:g} s")
            return False
        except BaseException as error:  # an adapter's SystemExit ends the adapter, not the gateway
            if isinstance(error, KeyboardInterrupt):
                raise
            log.debug("%s: connecting failed", self.entry.name, exc_info=True)
            self._failed(f"{type(error).__name__}: {error}")
            return False
        if connected is False:
            message = getattr(adapter, "fatal_error_message", None) or "connect() returned False"
            self._failed(message, for_good=not getattr(adapter, "fatal_error_retryable", True))
            return False
        self._set("connected")
        log.info("%s: connected", self.entry.name)
        self._gateway.platform_connected(self.entry.name, adapter)
        return True

    def _make_adapter(self) -> BasePlatformAdapter:
        adapter = self.entry.adapter_factory(self._config)
        if adapter is None:
            raise TypeError("its factory made no adapter")
        adapter.set_message_handler(self._gateway.receive)
        adapter.set_fatal_error_handler(self._heard_of_loss)
        adapter.set_session_store(self._gateway.session_store)
        adapter.set_turn_runner(self._gateway.run_turn)
        adapter.gateway_runner = self._gateway
        return adapter

    def _heard_of_loss(self, adapter: BasePlatformAdapter) -> None:
        if adapter is self.adapter:
            self._lost.set()

    async def _wait_until_lost(self) -> None:
        adapter = self.adapter
        was_connected = False
        while not self._lost.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._lost.wait(), CHECK_SECONDS)
            is_connected = bool(getattr(adapter, "is_connected", True))
            if was_connected and not is_connected:
                break
            was_connected = was_connected or is_connected
        message = getattr(adapter, "fatal_error_message", None) or "the connection is lost"
        self._failed(message, for_good=not getattr(adapter, "fatal_error_retryable", True))

    async def _disconnect(self) -> None:
        adapter, self.adapter = self.adapter, None
        if adapter is None:
            return
        self._gateway.platform_lost(self.entry.name)
        try:
            async with asyncio.timeout(DISCONNECT_SECONDS):
                await adapter.disconnect()
        except asyncio.CancelledError:
            if self._is_cancelled():
                raise
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            log.warning("%s: disconnecting failed: %s: %s", self.entry.name, type(error).__name__, error)

    # -- state --------------------------------------------------------------------------------------------------

    def _failed(self, error: str, *, for_good: bool = False) -> None:
        text = self._redact(str(error))[:500]
        self._set("failed" if for_good else "waiting", text)
        if for_good:
            log.error("%s: %s; it is not tried again", self.entry.name, text)

    def _set(self, state: PlatformState, error: str = "") -> None:
        self.status.state, self.status.error, self.status.since = state, error, time.time()
        self._gateway.status_changed()

    def _is_cancelled(self) -> bool:
        task = asyncio.current_task()
        return task is not None and task.cancelling() > 0


async def _connect_call(adapter: BasePlatformAdapter, *, is_reconnect: bool) -> Any:
    """``connect``, whose older form takes no argument."""
    connect: Callable[..., Awaitable[Any]] = adapter.connect
    parameters = inspect.signature(connect).parameters.values()
    takes_it = any(one.name == "is_reconnect" or one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters)
    return await (connect(is_reconnect=is_reconnect) if takes_it else connect())
