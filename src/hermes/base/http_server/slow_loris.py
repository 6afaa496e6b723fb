"""Slow-loris protection: connections that do not send their request in time are closed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.h11_impl import H11Protocol

#: Time limits of a request: up to the end of its headers, and from there to the end of its body.
SECONDS_FOR_HEAD = 10.0
SECONDS_FOR_BODY = 60.0

if TYPE_CHECKING:

    class _Protocol(asyncio.Protocol):
        """The attributes of uvicorn's protocol that are used here."""

        loop: asyncio.AbstractEventLoop
        transport: asyncio.Transport
        #: The current request and its response, or the last one.
        cycle: Any

else:
    # Named, because uvicorn's choice is httptools wherever that is installed. It has no limit for the size of a head or
    # of trailers, adds trailers to the headers, allows any number of Host headers, and takes the body of a request that
    # offers an upgrade (as Java's HTTP client does) for the next request.
    _Protocol = H11Protocol


class RequestTimeoutProtocol(_Protocol):
    """uvicorn's HTTP protocol on h11, with time limits for requests, which it does not have itself."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._seconds: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        super().connection_made(transport)
        self._update_timer()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._update_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._set_timer(None)
        super().connection_lost(exc)

    def _update_timer(self) -> None:
        """Set the time limit of the part that is missing. More bytes of the same part do not extend it."""
        cycle = self.cycle
        if cycle is None or cycle.response_complete:
            self._set_timer(SECONDS_FOR_HEAD)
        else:
            self._set_timer(SECONDS_FOR_BODY if cycle.more_body else None)

    def _set_timer(self, seconds: float | None) -> None:
        if seconds == self._seconds:
            return
        self._seconds = seconds
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if seconds is None else self.loop.call_later(seconds, self._close)

    def _close(self) -> None:
        if not self.transport.is_closing():
            self.transport.abort()
