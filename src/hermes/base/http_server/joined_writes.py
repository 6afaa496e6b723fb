"""A transport that joins small writes: uvicorn writes the head of a response and its body one by one."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

#: More than this is written at once, so that the flow control of the connection sees it.
_MOST_BYTES = 65_536

if TYPE_CHECKING:
    _Transport = asyncio.Transport
else:
    _Transport = object


class JoinedWrites(_Transport):
    """Sends with one system call what is written in one step of the loop; everything else is the transport's own.

    Each call lets another thread take the interpreter: a client that has the head would wait for that thread's work
    until it gets the body.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._waiting = bytearray()

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        if not self._waiting:
            self._loop.call_soon(self.flush)
        self._waiting += data
        if len(self._waiting) > _MOST_BYTES:
            self.flush()

    def close(self) -> None:
        self.flush()
        self._transport.close()

    def abort(self) -> None:
        self._waiting.clear()
        self._transport.abort()

    def flush(self) -> None:
        """Send what waits."""
        if self._waiting:
            data, self._waiting = bytes(self._waiting), bytearray()
            self._transport.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(cast("Any", self._transport), name)
