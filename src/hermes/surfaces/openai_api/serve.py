"""The API on a listening socket: as a server of its own, or beside the platforms of a gateway."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from starlette.types import ASGIApp

from hermes.base.http_server import server as http
from hermes.base.http_server.home_lock import single_instance
from hermes.base.http_server.listen_address import ListenAddress, base_url, check_listen_address
from hermes.base.http_server.principals import Principals
from hermes.base.http_server.stopping import unless_at_once, waiting_text
from hermes.host import Host
from hermes.service.dispatch.choose import make_dispatcher
from hermes.service.dispatch.port import Dispatcher, HasDispatcher, TurnEntry
from hermes.surfaces.openai_api.app import ApiServer
from hermes.surfaces.openai_api.conversations import PLATFORM

#: Time for running turns to end when the server is stopped. The next one continues the others.
_SECONDS_TO_FINISH = 5.0


class ApiService:
    """The API of a host, open for requests while it runs. ``fallback`` answers what is none of its paths.

    Enter it before anything else starts: an address in use, or a second API of the home, is then reported.
    """

    def __init__(
        self, host: Host, address: ListenAddress, principals: Principals, *, fallback: ASGIApp | None = None
    ) -> None:
        check_listen_address(address, principals, is_published=False)
        self._host = host
        self._address = address
        self.api = ApiServer(host, principals, fallback=fallback)
        self._resources = contextlib.ExitStack()
        self._listener: socket.socket | None = None
        #: The address for clients, with ``/v1``, once it listens.
        self.url = ""

    @property
    def entries(self) -> Mapping[str, TurnEntry]:
        """What surrounds the turns of the API, for the dispatcher."""
        return {PLATFORM: self.api.runs.entered}

    def __enter__(self) -> ApiService:
        address = self._address
        with contextlib.ExitStack() as stack:
            stack.enter_context(single_instance(self._host.home, "api", "API server"))
            self._listener = stack.enter_context(http.listening(address.host, address.port))
            self._resources = stack.pop_all()
        self.url = f"{base_url(address.host, self._listener.getsockname()[1])}/v1"
        return self

    def __exit__(self, *_exception: object) -> None:
        self._resources.close()

    async def run(self, gateway: HasDispatcher) -> None:
        """Serve until cancelled; the dispatcher of the gateway runs the turns."""
        await self.serve(gateway.dispatcher, asyncio.Event())

    async def serve(
        self,
        dispatcher: Dispatcher,
        stop: asyncio.Event,
        announce: Callable[[], None] = lambda: None,
        stop_work: Callable[[], Coroutine[Any, Any, None]] | None = None,
    ) -> None:
        """Serve until ``stop`` is set; ``stop_work`` ends the turns that run. Clients that still wait learn of it."""
        if self._listener is None:
            raise RuntimeError("the service was not entered")
        await self.api.runs.start(dispatcher)

        async def finish() -> None:
            if stop_work is not None:
                await stop_work()
            await self.api.runs.cut_off()

        try:
            await http.serve_app(self.api.app, self._listener, stop, announce, finish, lifespan=False)
        finally:
            self.api.runs.close()


def serve(
    host: Host,
    address: ListenAddress,
    principals: Principals,
    announce: Callable[[str], None],
    report: Callable[[str], None],
) -> None:
    """Serve until SIGTERM or SIGINT; ``announce`` is given the base URL for clients, ``report`` lines for the owner."""
    http.run_until_signal(lambda stop: serve_until(stop, host, address, principals, announce, report))


async def serve_until(
    stop: asyncio.Event,
    host: Host,
    address: ListenAddress,
    principals: Principals,
    announce: Callable[[str], None],
    report: Callable[[str], None] = lambda _line: None,
) -> None:
    """Serve on the running loop until ``stop`` is set. Running turns have some seconds, unless it is set again."""
    with ApiService(host, address, principals) as service:
        runs, service.api.report = service.api.runs, report
        dispatcher = make_dispatcher(host, entries=service.entries, platforms=(PLATFORM,))
        await runs.on_worker(dispatcher.start)

        async def finish() -> None:
            if dispatcher.running:
                report(waiting_text(dispatcher.running, _SECONDS_TO_FINISH))
            await unless_at_once(stop, runs.on_worker(lambda: dispatcher.release(_SECONDS_TO_FINISH)))

        await service.serve(dispatcher, stop, lambda: announce(service.url), finish)
