"""A WebSocket client on the event loop: text messages both ways over wsproto, pings answered."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from urllib.parse import urlsplit

from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, CloseConnection, Event, Ping, RejectConnection, Request, TextMessage
from wsproto.utilities import ProtocolError

from hermes.surfaces.gateway.platforms.receiving import ConnectionFailed, abort_stream

_READ_BYTES = 65_536
#: A longer message is a fault.
_MAX_MESSAGE = 4 << 20


class WebSocketError(ConnectionFailed):
    """The connection could not be made, or has ended."""


class WebSocket:
    """One connection. An error never has the URL in it, since its query is a secret."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, silence: float) -> None:
        self._reader = reader
        self._writer = writer
        self._silence = silence
        self._protocol = WSConnection(ConnectionType.CLIENT)
        self._events: list[Event] = []
        self._text = ""

    @classmethod
    async def open(
        cls, url: str, context: ssl.SSLContext | None, *, timeout: float = 30.0, silence: float = 60.0
    ) -> WebSocket:
        """Connect to a ``ws`` or ``wss`` URL. A server that sends nothing for twice ``silence`` seconds is lost."""
        parts = urlsplit(url)
        host, is_secure = parts.hostname or "", parts.scheme == "wss"
        try:
            async with asyncio.timeout(timeout):
                reader, writer = await asyncio.open_connection(
                    host, parts.port or (443 if is_secure else 80), ssl=context if is_secure else None
                )
                socket = cls(reader, writer, silence)
                try:
                    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
                    socket._send(Request(host=parts.netloc, target=target))
                    event = await socket._next()
                    if isinstance(event, RejectConnection):
                        raise WebSocketError(f"{host} refuses the connection (status {event.status_code})")
                    if not isinstance(event, AcceptConnection):
                        raise WebSocketError(f"{host} does not speak WebSocket")
                except BaseException:
                    writer.close()
                    raise
        except TimeoutError:
            raise WebSocketError(f"{host} did not answer within {timeout:g} s") from None
        except OSError as error:
            raise WebSocketError(f"{host}: {error.strerror or error}") from None
        return socket

    async def receive(self) -> str:
        """The next text message. Raises ``WebSocketError`` when the connection has ended."""
        asked = False
        while True:
            try:
                async with asyncio.timeout(self._silence):
                    event = await self._next()
            except TimeoutError:
                if asked:
                    raise WebSocketError("the server no longer answers") from None
                asked = True
                self._send(Ping())
                continue
            asked = False
            if isinstance(event, TextMessage):
                self._text += event.data
                if len(self._text) > _MAX_MESSAGE:
                    raise WebSocketError("the server sent a message that is too long")
                if event.message_finished:
                    text, self._text = self._text, ""
                    return text
            elif isinstance(event, CloseConnection):
                raise WebSocketError(f"the server closed the connection (code {event.code})")

    def send(self, text: str) -> None:
        """Send a text message. Raises ``WebSocketError``."""
        self._send(TextMessage(data=text))

    async def close(self) -> None:
        """Close the connection."""
        with contextlib.suppress(WebSocketError, OSError, TimeoutError):
            async with asyncio.timeout(0.5):
                self._send(CloseConnection(code=1000))
                self._writer.close()
                await self._writer.wait_closed()
        abort_stream(self._writer)

    def _send(self, event: Event) -> None:
        try:
            self._writer.write(self._protocol.send(event))
        except (ProtocolError, OSError) as error:
            raise WebSocketError(f"the connection has ended: {error}") from None

    async def _next(self) -> Event:
        """The next event. Each one is a sign of life."""
        while True:
            while self._events:
                event = self._events.pop(0)
                if isinstance(event, Ping):
                    self._send(event.response())
                return event
            try:
                data = await self._reader.read(_READ_BYTES)
                self._protocol.receive_data(data or None)
                self._events.extend(self._protocol.events())
            except (ProtocolError, OSError) as error:
                raise WebSocketError(f"the connection has ended: {error}") from None
