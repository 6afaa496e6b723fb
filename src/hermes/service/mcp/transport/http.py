"""HTTP transports of MCP servers: streamable HTTP, and the older one with server-sent events."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING

import anyio
import httpx2
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage

from hermes.service.mcp.errors import McpError
from hermes.service.mcp.transport.repair import repaired

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

    from hermes.service.mcp.settings import McpSettings

_CONNECT_SECONDS = 30.0
#: Longest event of a stream, in bytes.
_MAX_EVENT_BYTES = 32 * 1024 * 1024


@contextlib.asynccontextmanager
async def http_transport(settings: McpSettings, auth: httpx2.Auth | None) -> AsyncGenerator[TransportStreams]:
    """The streams of a connection to an address."""
    entry = settings.entry
    timeout = httpx2.Timeout(_CONNECT_SECONDS, read=entry.timeout)
    verify = _verification(settings)

    def client(
        headers: dict[str, str] | None = None,
        timeout: httpx2.Timeout | None = timeout,
        auth: httpx2.Auth | None = auth,
    ) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(headers=headers, timeout=timeout, auth=auth, verify=verify)

    if settings.transport == "sse":
        stream = sse_client(
            settings.url,
            dict(settings.headers),
            sse_read_timeout=entry.timeout,
            httpx_client_factory=client,
            auth=auth,
        )
        async with stream as streams, _repairing(streams) as better:
            yield better
        return
    async with (
        client(dict(settings.headers)) as http,
        streamable_http_client(settings.url, http_client=http, max_sse_event_size=_MAX_EVENT_BYTES) as streams,
        _repairing(streams) as better,
    ):
        yield better


@contextlib.asynccontextmanager
async def _repairing(streams: TransportStreams) -> AsyncGenerator[TransportStreams]:
    """The streams, with messages repaired on their way in."""
    arrived, reading = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    incoming, writing = streams

    async def pump() -> None:
        async with arrived:
            with contextlib.suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
                async for item in incoming:
                    await arrived.send(repaired(item) if isinstance(item, SessionMessage) else item)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(pump)
        try:
            yield reading, writing
        finally:
            tasks.cancel_scope.cancel()
            reading.close()


def _verification(settings: McpSettings) -> ssl.SSLContext | bool:
    """How certificates are checked, and the one of our own."""
    entry = settings.entry
    if entry.ssl_verify is False and not entry.client_cert:
        return False
    try:
        context = ssl.create_default_context(cafile=entry.ssl_verify if isinstance(entry.ssl_verify, str) else None)
        if entry.ssl_verify is False:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        if entry.client_cert:
            context.load_cert_chain(entry.client_cert, entry.client_key or None)
    except (OSError, ssl.SSLError) as error:
        raise McpError(f"mcp_servers.{settings.name}: a certificate cannot be read: {error}") from None
    return context
