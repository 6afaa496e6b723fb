"""The page at the address of another server: mounted at the root beside an API, and below a path."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Generator
from contextlib import closing, contextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route

from hermes.base.http_server.listen_address import base_url
from hermes.base.http_server.server import listening, serve_app
from hermes.host import Host
from hermes.service.dispatch.local import LocalDispatcher
from hermes.surfaces.web.server.access import PageAccess
from hermes.surfaces.web.server.embedded import EmbeddedPage
from hermes.testing import text
from support.trace_runs import Rig
from support.waiting import HANG, wait_for, wait_until
from support.web_rig import TOKEN, Page


class Owner:
    """A server with a dispatcher."""

    def __init__(self, dispatcher: LocalDispatcher) -> None:
        self.dispatcher = dispatcher


def _health(_request: Request) -> PlainTextResponse:
    return PlainTextResponse("ok")


@contextmanager
def mounted(host: Host, path: str) -> Generator[Page]:
    access = PageAccess(TOKEN)
    embedded = EmbeddedPage(host, access)
    dispatcher = LocalDispatcher(host, entries=embedded.entries, platforms=embedded.entries.keys())
    app = Starlette(routes=[Route("/health", _health), Mount(path, embedded.app)])
    ready, found = threading.Event(), dict[str, Any]()

    async def main() -> None:
        found["stop"], found["loop"] = asyncio.Event(), asyncio.get_running_loop()
        dispatcher.start()
        page = asyncio.create_task(embedded.run(Owner(dispatcher)))
        with listening("127.0.0.1", 0) as listener:
            found["url"] = embedded.url(base_url("127.0.0.1", listener.getsockname()[1]) + path)

            async def end() -> None:
                page.cancel()
                await asyncio.wait([page])

            await serve_app(app, listener, found["stop"], ready.set, end, lifespan=False)

    thread = threading.Thread(target=lambda: asyncio.run(main()), daemon=True)
    thread.start()
    wait_for(ready)
    try:
        yield Page(found["url"], embedded._service, access)  # pyright: ignore[reportPrivateUsage]
    finally:
        found["loop"].call_soon_threadsafe(found["stop"].set)
        thread.join(HANG)
        assert not thread.is_alive()


def test_the_page_answers_below_a_path(rig: Rig) -> None:
    host = rig.host([text("Hello.")], platform="web")
    with mounted(host, "/page") as page:
        assert page.request("GET", "/health").text == "ok"
        signed_in = page.request("GET", f"/page/costs?token={TOKEN}")
        assert (signed_in.status, signed_in.headers["location"]) == (303, f"/page{page.access.folder}/costs")
        document = page.get("/").text
        assert f'"root":"/page{page.access.folder}"' in document
        assert re.search(r'src="/page/static/\w+/first.js"', document)
        assert page.request("GET", "/page/static/main.js").status == 200
        assert page.request("GET", f"/page{page.access.folder}/api/sessions").status == 401
        wait_until(lambda: page.service.chat is not None, "the chat")
        session_id = page.post("/api/chat", {"text": "Hi", "key": "1"}).json["session"]
        wait_until(lambda: getattr(host.sessions.last_turn(session_id), "answer", None) == "Hello.", "the answer")
        with closing(page.live(f"/api/sessions/{session_id}/live")) as events:
            assert events.next("rows")["data"]["session"]["state"] == "completed"


def test_the_page_answers_at_the_root(rig: Rig) -> None:
    with mounted(rig.host([], platform="web"), "") as page:
        assert page.get("/").status == 200
        assert page.get("/api/sessions").json == []
