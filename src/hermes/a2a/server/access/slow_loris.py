"""Connections that send their requests in time: whoever lets the server wait is hung up on."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

#: How long a request may take to arrive, up to the end of its headers and from there to the end of its body.
SECONDS_FOR_HEAD = 10.0
SECONDS_FOR_BODY = 60.0

if TYPE_CHECKING:

    class _Protocol(asyncio.Protocol):
        """What both of uvicorn's protocols have."""

        loop: asyncio.AbstractEventLoop
        transport: asyncio.Transport
        #: The request in hand and its answer, or those before.
        cycle: Any

else:
    _Protocol = AutoHTTPProtocol


class PunctualProtocol(_Protocol):
    """uvicorn's protocol, whichever is installed, with an end to its patience: it has none of its own."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._seconds: float | None = None
        self._alarm: asyncio.TimerHandle | None = None
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._set(None)
        super().connection_lost(exc)

    def _watch(self) -> None:
        """Wait for what is missing. More of the same does not win time, but the next thing does."""
        cycle = self.cycle
        if cycle is None or cycle.response_complete:
            self._set(SECONDS_FOR_HEAD)
        else:
            self._set(SECONDS_FOR_BODY if cycle.more_body else None)

    def _set(self, seconds: float | None) -> None:
        if seconds == self._seconds:
            return
        self._seconds = seconds
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = None if seconds is None else self.loop.call_later(seconds, self._hang_up)

    def _hang_up(self) -> None:
        if not self.transport.is_closing():
            self.transport.abort()
