"""The API as a server of its own: dispatcher, listening socket, and an orderly end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from hermes.dispatch.local import LocalDispatcher
from hermes.gateway.api.app import ApiServer
from hermes.gateway.api.conversations import PLATFORM
from hermes.host import Host
from hermes.http_server import server as http
from hermes.http_server.home_lock import single_instance
from hermes.http_server.listen_address import ListenAddress, base_url, check_listen_address
from hermes.http_server.principals import Principals

#: Time for running turns to end when the server is stopped. The next one continues the others.
_SECONDS_TO_FINISH = 5.0


def serve(host: Host, address: ListenAddress, principals: Principals, announce: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT; ``announce`` is given the base URL for clients."""
    http.run_until_signal(lambda stop: serve_until(stop, host, address, principals, announce))


async def serve_until(
    stop: asyncio.Event, host: Host, address: ListenAddress, principals: Principals, announce: Callable[[str], None]
) -> None:
    """Serve on the running loop until ``stop`` is set."""
    check_listen_address(address, principals, is_published=False)
    with http.listening(address.host, address.port) as listener, single_instance(host.home, "api", "API server"):
        url = f"{base_url(address.host, listener.getsockname()[1])}/v1"
        api = ApiServer(host, principals)
        dispatcher = LocalDispatcher(host, entries=api.entries, platforms=(PLATFORM,))
        await api.start(dispatcher)
        await api.runs.on_worker(dispatcher.start)

        async def finish() -> None:
            await api.runs.on_worker(lambda: dispatcher.release(_SECONDS_TO_FINISH))

        try:
            await http.serve_app(api.app, listener, stop, lambda: announce(url), finish, lifespan=False)
        finally:
            await api.aclose()
