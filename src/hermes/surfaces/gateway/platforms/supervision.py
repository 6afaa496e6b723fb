"""Supervision of platform adapters: connects and restarts each one, and finds the one that blocks the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import os
import random
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from hermes.surfaces.gateway.adapter import BasePlatformAdapter, PlatformConfig, PlatformEntry

if TYPE_CHECKING:
    from hermes.surfaces.gateway.gateway import Gateway

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
#: An event loop that does not answer for so long is blocked.
BLOCKED_SECONDS = 2.0


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
            # A class that lacks a method can never be made.
            is_final = self.adapter is None and isinstance(error, TypeError)
            self._failed(f"{type(error).__name__}: {error}", for_good=is_final)
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

    def blocks(self, text: str) -> None:
        """Its adapter blocks, or blocked, the event loop. From any thread."""
        self.status.error = text
        self._gateway.status_changed()

    @property
    def code(self) -> str:
        """Where the code of the adapter is: its package, or the one file of its module; empty when it is not known."""
        module = sys.modules.get(type(self.adapter).__module__) if self.adapter is not None else None
        file: str | None = getattr(module, "__file__", None)
        if not file:
            return ""
        return f"{Path(file).parent}{os.sep}" if getattr(module, "__package__", "") else file

    def _set(self, state: PlatformState, error: str = "") -> None:
        self.status.state, self.status.error, self.status.since = state, error, time.time()
        self._gateway.status_changed()

    def _is_cancelled(self) -> bool:
        task = asyncio.current_task()
        return task is not None and task.cancelling() > 0


class LoopWatchdog:
    """A thread that notices when the event loop is blocked, and names the adapter whose code it is in.

    All platforms share the loop: while one of them blocks it, none receives or sends.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, supervisors: Callable[[], Sequence[PlatformSupervisor]]
    ) -> None:
        """To be made on the thread of the loop."""
        self._loop, self._supervisors = loop, supervisors
        self._thread_of_loop = threading.get_ident()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="hermes-gateway-watchdog", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Watch no more."""
        self._stopped.set()

    def _watch(self) -> None:
        while not self._stopped.is_set():
            answered = threading.Event()
            began = time.monotonic()
            try:
                self._loop.call_soon_threadsafe(answered.set)
            except RuntimeError:
                return  # the loop has ended
            if answered.wait(BLOCKED_SECONDS):
                self._stopped.wait(BLOCKED_SECONDS)
            else:
                self._wait_for_end(answered, began)

    def _wait_for_end(self, answered: threading.Event, began: float) -> None:
        culprits, place = self._culprits()
        names = " or ".join(one.entry.name for one in culprits) or "the gateway"
        text = f"its adapter blocks all platforms, at {place}"
        log.warning("%s blocks the event loop, at %s: no platform receives or sends meanwhile", names, place)
        for one in culprits:
            one.blocks(text)
        while not answered.wait(BLOCKED_SECONDS) and not self._stopped.is_set():
            pass
        seconds = time.monotonic() - began
        log.warning("%s blocked the event loop for %.1f s", names, seconds)
        for one in culprits:
            if one.status.error == text:
                one.blocks(f"its adapter blocked all platforms for {seconds:.1f} s, at {place}")

    def _culprits(self) -> tuple[list[PlatformSupervisor], str]:
        """Whose code the loop is in, and where that is: the innermost frame that belongs to an adapter."""
        frame: FrameType | None = sys._current_frames().get(self._thread_of_loop)  # pyright: ignore[reportPrivateUsage]
        place = _place(frame)
        places = [(one, one.code) for one in self._supervisors()]
        while frame is not None:
            file = frame.f_code.co_filename
            found = [one for one, code in places if code and file.startswith(code)]
            if found:
                return found, _place(frame)
            frame = frame.f_back
        return [], place


def _place(frame: FrameType | None) -> str:
    if frame is None:
        return "an unknown place"
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno} ({frame.f_code.co_name})"


async def _connect_call(adapter: BasePlatformAdapter, *, is_reconnect: bool) -> Any:
    """``connect``, whose older form takes no argument."""
    connect: Callable[..., Awaitable[Any]] = adapter.connect
    parameters = inspect.signature(connect).parameters.values()
    takes_it = any(one.name == "is_reconnect" or one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters)
    return await (connect(is_reconnect=is_reconnect) if takes_it else connect())
