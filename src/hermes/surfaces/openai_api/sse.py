"""Server-sent events: their encoding, and a response that ends when its client has gone."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, TypeVar

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

T = TypeVar("T")

#: Keeps a silent connection open; clients ignore it.
PING = b": ping\n\n"
DONE = b"data: [DONE]\n\n"

_encode = msgspec.json.Encoder().encode


def encode_event(data: Any, *, event: str = "", number: int | None = None) -> bytes:
    """One event. ``number`` is its id, with which a client can continue."""
    head = b"" if number is None else b"id: %d\n" % number
    if event:
        head += b"event: %s\n" % event.encode()
    return b"%sdata: %s\n\n" % (head, _encode(data))


async def gone(receive: Receive) -> None:
    """Wait until the client has closed the connection. The body of the request was read before."""
    while (await receive())["type"] != "http.disconnect":
        pass


class ClientGone(Exception):
    """The client closed the connection before there was an answer."""


async def unless_gone(work: Awaitable[T], receive: Receive) -> T:
    """The result of ``work``, which is cancelled when the client goes; ``ClientGone`` then."""
    task, leaving = asyncio.ensure_future(work), asyncio.create_task(gone(receive))
    try:
        await asyncio.wait({task, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientGone
        return task.result()
    finally:
        for one in (task, leaving):
            one.cancel()
        await asyncio.gather(task, leaving, return_exceptions=True)


class SseResponse(Response):
    """Sends chunks as they come. ``left`` is called when the client has gone before the last one."""

    media_type = "text/event-stream"

    def __init__(
        self,
        chunks: AsyncGenerator[bytes],
        left: Callable[[], Awaitable[None]],
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(None, headers={"cache-control": "no-cache", "x-accel-buffering": "no", **(headers or {})})
        del self.headers["content-length"]
        self._chunks = chunks
        self._left = left

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        try:
            await unless_gone(self._send_all(send), receive)
        except ClientGone:
            await self._left()

    async def _send_all(self, send: Send) -> None:
        async with contextlib.aclosing(self._chunks) as chunks:
            async for chunk in chunks:
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})
