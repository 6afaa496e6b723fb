"""The MCP server over streamable HTTP: a bearer token for each principal, and checks of Host and Origin."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import AsyncGenerator, Callable
from typing import Any, cast

from mcp.server.mcpserver import Context
from mcp.server.transport_security import TransportSecuritySettings
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from hermes.base.config.schema.sections import A2AConfig
from hermes.base.http_server import server
from hermes.base.http_server.listen_address import base_url
from hermes.base.http_server.principals import Principal, Principals
from hermes.base.http_server.rate_limits import RateLimiter
from hermes.base.http_server.requests import is_from_program, read_body, replayed_body, request_headers
from hermes.surfaces.mcp_server.server import build_server
from hermes.surfaces.mcp_server.service import AgentService

#: The key of the ASGI scope that holds the client.
_CLIENT = "hermes.client"


class TokenGate:
    """Lets requests with a valid token through, to the server with the tools of their principal."""

    def __init__(self, principals: Principals, plain: ASGIApp, approving: ASGIApp, settings: A2AConfig) -> None:
        self._principals = principals
        self._plain = plain
        self._approving = approving
        self._max_body_bytes = settings.max_body_bytes
        self._rate = RateLimiter(settings.max_requests_per_minute)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._plain(scope, receive, send)
            return
        headers = request_headers(scope)
        principal = self._principals.authenticate(headers)
        if principal is None:
            await _refuse(401, "a valid bearer token is required", ("WWW-Authenticate", "Bearer"))(scope, receive, send)
            return
        if not self._principals and not is_from_program(headers):
            await _refuse(403, "without a token only programs on this machine may call")(scope, receive, send)
            return
        wait = self._rate.retry_after(principal.name)
        if wait:
            later = ("Retry-After", str(math.ceil(wait)))
            await _refuse(429, f"too many requests; try again in {wait:.1f} s", later)(scope, receive, send)
            return
        if scope["method"] == "POST":
            body = await read_body(receive, headers, self._max_body_bytes)
            if body is None:
                await _refuse(413, f"the request is longer than {self._max_body_bytes:,} bytes")(scope, receive, send)
                return
            receive = replayed_body(body, receive)
        scope[_CLIENT] = principal
        await (self._approving if principal.may_approve else self._plain)(scope, receive, send)


def _refuse(status: int, message: str, *headers: tuple[str, str]) -> JSONResponse:
    return JSONResponse({"error": message}, status, dict(headers))


def _client_of(context: Context[Any, Any]) -> Principal:
    request = context.request_context.request
    return cast("Principal", request.scope[_CLIENT]) if request is not None else Principal("none", frozenset())


def serve_http(
    service: AgentService, principals: Principals, host: str, port: int, announce: Callable[[str], None]
) -> None:
    """Serve until a signal comes. ``announce`` is given the address."""
    server.run_until_signal(lambda stop: _serve(stop, service, principals, (host, port), announce))


async def _serve(
    stop: asyncio.Event,
    service: AgentService,
    principals: Principals,
    address: tuple[str, int],
    announce: Callable[[str], None],
) -> None:
    host, port = address
    # A page of another site could call a server of this machine, by its own name for it: names are checked.
    allowed = [f"{name}:*" for name in {host, "127.0.0.1", "localhost", "[::1]"}]
    security = TransportSecuritySettings(allowed_hosts=allowed, allowed_origins=[f"http://{name}" for name in allowed])
    plain, approving = (build_server(service, _client_of, may_approve=may) for may in (False, True))
    apps = [one.streamable_http_app(transport_security=security, host=host) for one in (plain, approving)]
    for_plain, for_approving = apps
    async with contextlib.AsyncExitStack() as stack:
        listener = stack.enter_context(server.listening(host, port))
        for app in apps:
            await stack.enter_async_context(_lifespan(app))
        gate = TokenGate(principals, for_plain, for_approving, service.settings)
        url = f"{base_url(host, listener.getsockname()[1])}/mcp"
        await server.serve_app(gate, listener, stop, lambda: announce(url), lifespan=False)


@contextlib.asynccontextmanager
async def _lifespan(app: Any) -> AsyncGenerator[None]:
    async with app.router.lifespan_context(app):
        yield
