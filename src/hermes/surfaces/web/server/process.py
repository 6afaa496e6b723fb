"""The process of ``hermes web``: listens, announces the address with its token, and serves until it is stopped."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from urllib.parse import urlencode, urlsplit

from hermes.base.errors import HermesError
from hermes.base.http_server.listen_address import base_url, is_loopback
from hermes.base.http_server.server import listening, serve_app
from hermes.surfaces.web.server.access import TOKEN_VARIABLE, PageAccess
from hermes.surfaces.web.server.app import web_app
from hermes.surfaces.web.service import PageService

#: The port of the page; any free one when it is taken.
DEFAULT_PORT = 8643
_SHORTEST_TOKEN = 16


def page_access(host: str, token: str, public_url: str = "") -> PageAccess:
    """The access to a page that listens at ``host``. Raises ``HermesError`` for one that others could guess."""
    if token and len(token) < _SHORTEST_TOKEN:
        raise HermesError(f"{TOKEN_VARIABLE} has {len(token)} characters; a token needs {_SHORTEST_TOKEN} or more")
    if not is_loopback(host) and not token:
        raise HermesError(
            f"{host} can be reached by other machines: set {TOKEN_VARIABLE} in .env to a long random text, "
            f"or listen on 127.0.0.1"
        )
    if public_url and not _is_web_address(public_url):
        raise HermesError(f"--public-url {public_url!r} must be a URL such as https://agent.example.org")
    named = [host, urlsplit(public_url).hostname or ""]
    return PageAccess(token, [name for name in named if name])


def _is_web_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname) and not any(map(str.isspace, url))


async def serve_page(
    service: PageService,
    access: PageAccess,
    host: str,
    port: int | None,
    stop: asyncio.Event,
    announce: Callable[[str], None],
    public_url: str = "",
) -> None:
    """Serve on the running loop until ``stop`` is set. ``announce`` is given the address with the token."""

    async def close() -> None:
        await asyncio.to_thread(service.close)

    with contextlib.ExitStack() as stack:
        try:
            listener = stack.enter_context(listening(host, DEFAULT_PORT if port is None else port))
        except HermesError:
            if port is not None:
                raise
            listener = stack.enter_context(listening(host, 0))
        url = public_url.rstrip("/") or base_url(host, listener.getsockname()[1])
        app = web_app(service, access)
        await serve_app(app, listener, stop, lambda: announce(f"{url}/?{urlencode({'token': access.token})}"), close)
