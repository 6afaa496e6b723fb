"""The page as a part of another server, such as a gateway: at its address, over its host, with its dispatcher."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from urllib.parse import urlencode

from starlette.types import ASGIApp

from hermes.host import Host
from hermes.service.dispatch.port import HasDispatcher, TurnEntry
from hermes.surfaces.web.chat import PLATFORM, PageChat, page_entry
from hermes.surfaces.web.server.access import PageAccess
from hermes.surfaces.web.server.app import web_app
from hermes.surfaces.web.service import PageService


class EmbeddedPage:
    """The page over a running host. ``app`` answers its requests, ``run`` is its life beside the other services.

    The server gives ``entries`` to its dispatcher and mounts ``app``, at the root or below a path.
    """

    def __init__(self, host: Host, access: PageAccess) -> None:
        self._host = host
        self._access = access
        self._service = PageService(host.store, host.runner, host.home, host.redactor)
        self.app: ASGIApp = web_app(self._service, access)
        host.redactor.add_secrets({"HERMES_WEB_TOKEN": access.token})

    @property
    def entries(self) -> Mapping[str, TurnEntry]:
        """What surrounds the turns of the page, for the dispatcher."""
        return {PLATFORM: page_entry(self._host)}

    def url(self, base: str) -> str:
        """The address that signs a browser in, where ``base`` is that of the page."""
        return f"{base.rstrip('/')}/?{urlencode({'token': self._access.token})}"

    async def run(self, gateway: HasDispatcher) -> None:
        """Chat over the dispatcher, which has started, and end the streams when this is cancelled."""
        chat = PageChat(self._host, gateway.dispatcher, owns_dispatcher=False)
        try:
            await asyncio.to_thread(self._service.use_chat, chat)
            await asyncio.Event().wait()
        finally:
            self._service.watcher.disconnect()
            await asyncio.shield(asyncio.to_thread(self._service.close))
