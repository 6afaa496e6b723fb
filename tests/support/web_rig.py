"""A page over a private home, served on a real socket, with a browser's cookie."""

from __future__ import annotations

import asyncio
import http.client
import threading
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from hermes.journal.store.port import home_store
from hermes.surfaces.web.chat import PageChat
from hermes.surfaces.web.server.access import PageAccess
from hermes.surfaces.web.server.process import serve_page
from hermes.surfaces.web.service import PageService
from support.waiting import HANG, wait_for

TOKEN = "a-token-for-tests-0123456789"


class Answer:
    """A response."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.getheaders()}
        self.body = response.read()

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)


class Page:
    """A running page."""

    def __init__(self, url: str, service: PageService, access: PageAccess) -> None:
        self.url = url
        #: The address of the page's server, and that of the page.
        self.server = url.partition("/?")[0]
        self.base = self.server + access.folder
        self.service = service
        self.access = access
        self.cookie = ""

    def request(self, method: str, path: str, body: object = None, **headers: str) -> Answer:
        """One request, as it is."""
        with closing(self.connection()) as connection:
            data = None if body is None else body if isinstance(body, bytes) else msgspec.json.encode(body)
            connection.request(method, path, data, {name.replace("_", "-"): value for name, value in headers.items()})
            return Answer(connection.getresponse())

    def connection(self) -> http.client.HTTPConnection:
        address = urlsplit(self.base)
        return http.client.HTTPConnection(address.hostname or "", address.port, timeout=HANG)

    def sign_in(self) -> str:
        """The cookie that the address with the token is exchanged for."""
        address = urlsplit(self.url)
        answer = self.request("GET", f"{address.path}?{address.query}")
        assert answer.status == 303
        self.cookie = answer.headers["set-cookie"].partition(";")[0]
        return self.cookie

    def get(self, path: str, **headers: str) -> Answer:
        """A request of a browser that is signed in, below the page."""
        return self.request("GET", self._below(path), Cookie=self.cookie or self.sign_in(), **headers)

    def post(self, path: str, body: object, **headers: str) -> Answer:
        """The same, with the CSRF token."""
        return self.request(
            "POST",
            self._below(path),
            body,
            Cookie=self.cookie or self.sign_in(),
            X_Hermes_Csrf=self.access.csrf,
            **headers,
        )

    def _below(self, path: str) -> str:
        return urlsplit(self.base).path + path

    def live(self, path: str, **headers: str) -> LiveEvents:
        """The server-sent events of a path."""
        connection = self.connection()
        connection.request("GET", self._below(path), headers={"Cookie": self.cookie or self.sign_in(), **headers})
        return LiveEvents(connection)


class LiveEvents:
    """Reads server-sent events from a connection."""

    def __init__(self, connection: http.client.HTTPConnection) -> None:
        self._connection = connection
        self.response = connection.getresponse()

    def next(self, *names: str) -> dict[str, Any]:
        """The next event with one of these names: its fields, the data decoded."""
        fields: dict[str, Any] = {}
        while True:
            line = self.response.readline()
            if not line:
                raise EOFError("the stream has ended")
            if line == b"\n":
                if fields.get("event") in names:
                    return {**fields, "data": msgspec.json.decode(fields["data"])}
                fields = {}
                continue
            name, _, value = line.decode().rstrip("\n").partition(": ")
            fields[name] = value

    def rest(self) -> str:
        """Everything that was not read yet, once the server has stopped."""
        try:
            return self.response.read().decode()
        finally:
            self.close()

    def close(self) -> None:
        self.response.close()
        self._connection.close()


@contextmanager
def served(service: PageService) -> Generator[Page]:
    """Serve the page on a thread until the block ends."""
    access = PageAccess(TOKEN)
    ready, urls = threading.Event(), list[str]()
    loops: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    def announce(url: str) -> None:
        urls.append(url)
        ready.set()

    async def main() -> None:
        stop = asyncio.Event()
        loops.append((asyncio.get_running_loop(), stop))
        await serve_page(service, access, "127.0.0.1", 0, stop, announce)

    thread = threading.Thread(target=lambda: asyncio.run(main()), daemon=True)
    thread.start()
    wait_for(ready, "the page")
    try:
        yield Page(urls[0], service, access)
    finally:
        loop, stop = loops[0]
        loop.call_soon_threadsafe(stop.set)
        thread.join(HANG)
        assert not thread.is_alive()


@contextmanager
def page_over(home: Path, chat: PageChat | None = None) -> Generator[Page]:
    """A page over the journal of a home, without a host."""
    with (
        closing(home_store(home)) as store,
        closing(store.new_runner()) as runner,
        served(PageService(store, runner, home, chat=chat)) as page,
    ):
        yield page
