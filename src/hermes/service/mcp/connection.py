"""The connection to one MCP server: opened by its first call, opened again after it died, closed when it is idle."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

from hermes.service.mcp.errors import CallLost, McpError, ServerUnavailable

if TYPE_CHECKING:
    from mcp import Client

    from hermes.service.mcp.manifest import Manifest
    from hermes.service.mcp.transport.stdio import StdioProcess

log = logging.getLogger("hermes.mcp")

T = TypeVar("T")

#: ``idle``: not started, or stopped because no one used it. ``failed``: it could not be started, or it died.
ConnectionState = Literal["idle", "connecting", "ready", "failed"]

#: Seconds until a server that failed is tried again, doubled with each failure in a row.
_FIRST_BACKOFF, _LONGEST_BACKOFF = 0.5, 60.0
#: A list that changed is read again at most this often, in seconds.
_REFRESH_SECONDS = 0.5


@dataclass(slots=True)
class Opening:
    """What an opener is given: the function to call when the connection ends by itself, and a place for its process."""

    ended: Callable[[], None]
    process: StdioProcess | None = None


#: Opens a connection: the SDK's client. Leaving the context closes it.
Opener = Callable[[Opening], contextlib.AbstractAsyncContextManager["Client"]]


class ServerConnection:
    """The connection of one server. All of its coroutines run on the one loop; ``state`` may be read anywhere."""

    def __init__(
        self,
        name: str,
        opener: Opener,
        *,
        connect_timeout: float,
        idle_timeout: float = 0,
        max_lifetime: float = 0,
        keepalive: float = 0,
        read_manifest: Callable[[Client], Awaitable[Manifest]],
        on_manifest: Callable[[Manifest], None],
    ) -> None:
        self.name = name
        self._opener = opener
        self._connect_timeout = connect_timeout
        self._idle_timeout = idle_timeout
        self._max_lifetime = max_lifetime
        self._keepalive = keepalive
        self._read_manifest = read_manifest
        self._on_manifest = on_manifest
        self.state: ConnectionState = "idle"
        self.error = ""
        self.pid: int | None = None
        #: How often it was started.
        self.starts = 0
        self._failures = 0
        self._next_try = 0.0
        self._ready: asyncio.Future[Client] | None = None
        self._task: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()
        self._calls = 0
        self._last_used = 0.0
        self._refreshing = False
        self._closed = False
        self._opening = asyncio.Lock()

    @property
    def has_failed(self) -> bool:
        """Whether it could not be started, or died."""
        return self.state == "failed"

    # -- calls --------------------------------------------------------------------------------------------------

    async def use(self, work: Callable[[Client], Awaitable[T]]) -> T:
        """Run ``work`` with the client, on a connection that is opened first when there is none.

        ``ServerUnavailable`` when it cannot be opened, ``CallLost`` when it breaks while the work runs.
        """
        client = await self.open()
        self._calls += 1
        try:
            return await work(client)
        except Exception as error:
            raise self._explained(error) from error
        finally:
            self._calls -= 1
            self._last_used = time.monotonic()

    async def open(self) -> Client:
        """The client of an open connection."""
        async with self._opening:
            if self._closed:
                raise ServerUnavailable(f"the MCP server {self.name} is closed")
            if self.state == "failed":
                self._check_backoff()
                await self._settle()
            if self._ready is None:
                self._ready = asyncio.get_running_loop().create_future()
                self._stop = asyncio.Event()
                self._task = asyncio.create_task(self._serve(self._ready, self._stop), name=f"mcp {self.name}")
            ready = self._ready
        return await asyncio.shield(ready)

    def _check_backoff(self) -> None:
        remaining = self._next_try - time.monotonic()
        if remaining > 0:
            raise ServerUnavailable(f"{self.error}. It is started again in {remaining:.0f} s at the earliest")

    async def _settle(self) -> None:
        """Wait for the end of a connection that failed."""
        if self._task is not None:
            self._stop.set()
            await asyncio.wait({self._task}, timeout=5)
        self._task, self._ready = None, None

    def _explained(self, error: Exception) -> Exception:
        from mcp import MCPError
        from mcp_types import CONNECTION_CLOSED, REQUEST_TIMEOUT

        inner = unwrap(error)
        if isinstance(inner, McpError):
            return inner
        if isinstance(inner, MCPError):
            if inner.code == REQUEST_TIMEOUT:
                return CallLost(f"the MCP server {self.name} did not answer in time", timed_out=True)
            if inner.code == CONNECTION_CLOSED or self.state == "failed":
                return CallLost(f"the MCP server {self.name} ended while the call ran")
            return McpError(f"the MCP server {self.name} refused it: {inner.message[:2000]} ({inner.code})")
        if self.state == "failed" or isinstance(inner, OSError | EOFError):
            return CallLost(
                f"the connection to the MCP server {self.name} broke while the call ran: {described(inner)}"
            )
        return McpError(f"the MCP server {self.name} gave an answer that cannot be used: {described(inner)}")

    # -- life ---------------------------------------------------------------------------------------------------

    async def _serve(self, ready: asyncio.Future[Client], stop: asyncio.Event) -> None:
        """Hold the connection open. The context is left by the task that entered it, as the SDK demands."""
        self.state, self.error = "connecting", ""
        self.starts += 1

        def ended() -> None:
            if not stop.is_set():
                self._fail("it ended", opening.process)
                self._settle_ready(ready, ServerUnavailable(self.error))
                stop.set()

        opening = Opening(ended)
        try:
            async with contextlib.AsyncExitStack() as stack:
                async with asyncio.timeout(self._connect_timeout):
                    client = await stack.enter_async_context(self._opener(opening))
                    manifest = await self._read_manifest(client)
                self.pid = opening.process.pid if opening.process else None
                if not stop.is_set():
                    self.state, self._failures, self._last_used = "ready", 0, time.monotonic()
                    self._on_manifest(manifest)
                    ready.set_result(client)
                    await self._until_stopped(stop, client)
        except asyncio.CancelledError:
            self._settle_ready(ready, ServerUnavailable(f"the MCP server {self.name} was stopped"))
            raise
        except BaseException as error:
            if not self.has_failed:
                self._fail(_why(error, self._connect_timeout), opening.process)
            self._settle_ready(ready, ServerUnavailable(self.error))
        finally:
            stop.set()
            self.pid = None
            if not self.has_failed and self._ready in (ready, None):
                self.state, self._ready = "idle", None

    @staticmethod
    def _settle_ready(ready: asyncio.Future[Client], error: McpError) -> None:
        if not ready.done():
            ready.set_exception(error)
            ready.exception()  # it may be that no call waits for it

    def _fail(self, why: str, process: StdioProcess | None) -> None:
        words = "" if process is None else process.last_words()
        # One that worked may be started again at once; one that fails at its start may not.
        worked = self.state == "ready"
        delay = 0.0 if worked else min(_FIRST_BACKOFF * 2**self._failures, _LONGEST_BACKOFF)
        self._next_try = time.monotonic() + delay
        self._failures += 1
        self.state, self.pid = "failed", None
        self.error = f"the MCP server {self.name} cannot be used: {why}" + (f"; {words}" if words else "")
        log.warning("%s", self.error)

    async def _until_stopped(self, stop: asyncio.Event, client: Client) -> None:
        """Wait for the end: asked for, because the connection was idle or old, or because the server is silent."""
        born = heard = time.monotonic()
        while not stop.is_set():
            now = time.monotonic()
            limits = [self._last_used + self._idle_timeout] if self._idle_timeout else []
            limits += [born + self._max_lifetime] if self._max_lifetime else []
            if limits and min(limits) <= now and not self._calls:
                self.state, self._ready = "idle", None
                return
            if self._keepalive:
                if max(self._last_used, heard) + self._keepalive <= now and not self._calls:
                    if not await self._still_answers(client):
                        self._fail("it no longer answers", None)
                        return
                    heard = now = time.monotonic()
                limits.append(max(self._last_used, heard) + self._keepalive)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), max(min(limits) - now, 0.05) if limits else None)

    async def _still_answers(self, client: Client) -> bool:
        try:
            async with asyncio.timeout(self._connect_timeout):
                await client.list_tools()
        except Exception as error:
            log.info("the MCP server %s does not answer: %s", self.name, described(unwrap(error)))
            return False
        return True

    async def close(self) -> None:
        """End the connection and its process."""
        self._closed = True
        self._stop.set()
        if self._task is not None:
            if self.state == "connecting":
                self._task.cancel()
            await asyncio.wait({self._task}, timeout=5)
        self.state, self._ready = "idle", None

    def list_changed(self) -> None:
        """The server says that its lists changed: read them again soon, once for many such messages."""
        if not self._refreshing and self._ready is not None and self._ready.done():
            self._refreshing = True
            self._refresh_task = asyncio.create_task(self._refresh())

    async def _refresh(self) -> None:
        await asyncio.sleep(_REFRESH_SECONDS)
        self._refreshing = False
        with contextlib.suppress(McpError):
            self._on_manifest(await self.use(self._read_manifest))


def unwrap(error: BaseException) -> BaseException:
    """The first error inside of nested groups."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error


def described(error: BaseException) -> str:
    """An error as a sentence part, without a trace."""
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0][:500]}" if text else type(error).__name__


def _why(error: BaseException, seconds: float) -> str:
    inner = unwrap(error)
    if isinstance(inner, TimeoutError):
        return f"it did not answer within {seconds:g} s"
    if isinstance(inner, McpError):
        return str(inner)
    if isinstance(inner, EOFError):
        return "it ended before it answered"
    code: Any = getattr(inner, "code", None)
    text = str(inner).strip() or type(inner).__name__
    if "Connection closed" in text:
        return "it ended before it answered, or does not speak MCP"
    if "connection attempts failed" in text:
        return "there is no answer at its address; check its url, and whether it runs"
    return f"{text.splitlines()[0][:500]}" + (f" ({code})" if isinstance(code, int) else "")
