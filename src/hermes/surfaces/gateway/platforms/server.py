"""An HTTP listener for a platform that delivers by requests, on the gateway's own loop, with limits on what arrives."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from hermes.base.errors import HermesError
from hermes.surfaces.gateway.platforms.receiving import ConnectionFailed

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from hermes.base.http_server.server import WebServer

log = logging.getLogger("hermes.gateway")


@dataclass(frozen=True)
class PlatformRequest:
    """A request with its whole body."""

    method: str
    path: str
    #: Names are lower case.
    headers: Mapping[str, str]
    body: bytes = field(repr=False)
    client: str = ""


@dataclass(frozen=True)
class PlatformResponse:
    """An answer: a JSON object, or a text."""

    status: int
    content: dict[str, Any] | str
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


RequestHandler = Callable[[PlatformRequest], Awaitable[PlatformResponse]]


class PlatformServer:
    """Serves one handler. What the handler raises is answered with 503, so that a good sender delivers again."""

    def __init__(self, host: str, port: int, handle: RequestHandler, *, max_body: int) -> None:
        self._host = host
        self._port = port
        self._handle = handle
        self._max_body = max_body
        self._resources = contextlib.ExitStack()
        self._web: WebServer | None = None
        self._serving: asyncio.Task[None] | None = None
        #: The port that it listens on, also when 0 was asked for.
        self.port = 0

    async def start(self) -> None:
        """Listen. Raises ``ConnectionFailed`` when the address is not available."""
        from hermes.base.http_server.server import WebServer, listening

        try:
            listener = self._resources.enter_context(listening(self._host, self._port))
        except HermesError as error:
            raise ConnectionFailed(str(error), code="listen") from error
        self.port = listener.getsockname()[1]
        self._web = WebServer(self._app, lifespan=False)
        self._serving = asyncio.create_task(self._web.serve(sockets=[listener]))
        await self._web.wait_until_started(self._serving)

    async def stop(self) -> None:
        """Answer the requests that have arrived, and end."""
        web, self._web = self._web, None
        if web is not None and self._serving is not None:
            web.end()
            await self._serving
        self._resources.close()

    async def _app(self, scope: Scope, receive: Receive, send: Send) -> None:
        from hermes.base.http_server.requests import read_body, request_headers

        headers = request_headers(scope)
        body = await read_body(receive, headers, self._max_body)
        if body is None:
            response = PlatformResponse(413, {"error": f"the body has more than {self._max_body:,} bytes"})
        else:
            client = scope.get("client") or ("",)
            request = PlatformRequest(scope["method"], scope["path"], headers, body, str(client[0]))
            try:
                response = await self._handle(request)
            except Exception:
                log.exception("a request to %s could not be handled", scope["path"])
                response = PlatformResponse(503, {"error": "not stored; send it again"}, {"retry-after": "5"})
        await _send(response, send)


async def _send(response: PlatformResponse, send: Send) -> None:
    is_text = isinstance(response.content, str)
    data = response.content.encode() if isinstance(response.content, str) else msgspec.json.encode(response.content)
    headers = {
        "content-type": "text/plain; charset=utf-8" if is_text else "application/json",
        "content-length": str(len(data)),
        "x-content-type-options": "nosniff",
        **response.headers,
    }
    lines = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": response.status, "headers": lines})
    await send({"type": "http.response.body", "body": data})
