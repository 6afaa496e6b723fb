"""Streams of platform adapters on a real TLS connection."""

from __future__ import annotations

import asyncio
import ssl

from hermes.surfaces.gateway.platforms.receiving import abort_stream
from support import CERTIFICATE


def test_a_connection_that_is_closed_already_can_be_dropped() -> None:
    async def close_twice_and_abort() -> bool:
        served = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        served.load_cert_chain(CERTIFICATE)

        async def greet(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.close()
            await writer.wait_closed()

        server = await asyncio.start_server(greet, "localhost", 0, ssl=served)
        async with server:
            port = server.sockets[0].getsockname()[1]
            trusted = ssl.create_default_context(cafile=str(CERTIFICATE))
            _, writer = await asyncio.open_connection("localhost", port, ssl=trusted)
            writer.close()
            await writer.wait_closed()
            writer.close()
            abort_stream(writer)
            return writer.is_closing()

    assert asyncio.run(close_twice_and_abort())
