"""The MCP server over streamable HTTP: a bearer token for each principal, and checks of Host and Origin."""

from __future__ import annotations

import asyncio
import contextlib
import math
import signal
from collections.abc import AsyncGenerator, Callable
from typing import Any, cast

import uvicorn
from mcp.server.mcpserver import Context
from mcp.server.transport_security import TransportSecuritySettings
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from hermes.a2a.server.access.middleware import is_from_program, read_body, replayed_body
from hermes.a2a.server.access.principals import Principal, Principals
from hermes.a2a.server.access.rate_limits import RateLimiter
from hermes.config.sections import A2AConfig
from hermes.mcp_server.client import ServedClient
from hermes.mcp_server.server import build_server
from hermes.mcp_server.service import AgentService

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
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
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
        client = _served(principal)
        scope[_CLIENT] = client
        await (self._approving if client.may_approve else self._plain)(scope, receive, send)


def _refuse(status: int, message: str, *headers: tuple[str, str]) -> JSONResponse:
    return JSONResponse({"error": message}, status, dict(headers))


def _served(principal: Principal) -> ServedClient:
    return ServedClient(principal.name, principal.scopes, principal.workspace)


def _client_of(context: Context[Any, Any]) -> ServedClient:
    request = context.request_context.request
    return cast("ServedClient", request.scope[_CLIENT]) if request is not None else ServedClient("none", frozenset())


def serve_http(
    service: AgentService, principals: Principals, host: str, port: int, announce: Callable[[str], None]
) -> None:
    """Serve until a signal comes. ``announce`` is given the address."""
    asyncio.run(_serve(service, principals, host, port, announce))


async def _serve(
    service: AgentService, principals: Principals, host: str, port: int, announce: Callable[[str], None]
) -> None:
    config = uvicorn.Config("", host=host, port=port, log_config=None, lifespan="off", access_log=False)
    socket = config.bind_socket()
    address = f"http://{f'[{host}]' if ':' in host else host}:{socket.getsockname()[1]}"
    # A page of another site could call a server of this machine, by its own name for it: names are checked.
    allowed = [f"{name}:*" for name in {host, "127.0.0.1", "localhost", "[::1]"}]
    security = TransportSecuritySettings(allowed_hosts=allowed, allowed_origins=[f"http://{name}" for name in allowed])
    plain, approving = (build_server(service, _client_of, may_approve=may) for may in (False, True))
    apps = [server.streamable_http_app(transport_security=security, host=host) for server in (plain, approving)]
    for_plain, for_approving = apps
    async with contextlib.AsyncExitStack() as stack:
        for app in apps:
            await stack.enter_async_context(_lifespan(app))
        config.app = TokenGate(principals, for_plain, for_approving, service.settings)
        server = uvicorn.Server(config)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, lambda: setattr(server, "should_exit", True))
        announce(f"{address}/mcp")
        config.load()
        await server.serve([socket])


@contextlib.asynccontextmanager
async def _lifespan(app: Any) -> AsyncGenerator[None]:
    async with app.router.lifespan_context(app):
        yield
