"""Webhook receiver: an HTTP server on loopback that keeps what is posted to it and answers as a test wants."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Self

import msgspec


class WebhookPost(NamedTuple):
    """One request. Header names are lower case."""

    body: bytes
    headers: dict[str, str]

    def json(self) -> Any:
        return msgspec.json.decode(self.body)


class PostReceiver(ABC):
    """An HTTP server on loopback, for as long as its context lasts; ``_take`` answers each post."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                receiver._take(self)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002  (the library's name)
                del format, args

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), name="receiver", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @abstractmethod
    def _take(self, handler: BaseHTTPRequestHandler) -> None: ...


class WebhookReceiver(PostReceiver):
    """Takes posts at ``url``. Use it as a context manager.

    ``statuses`` are its answers in order, then 200; ``location`` is sent with each of them. While ``hold`` is given and
    not set, answers wait for it.
    """

    def __init__(
        self, *, statuses: Iterable[int] = (), location: str = "", hold: threading.Event | None = None
    ) -> None:
        super().__init__()
        self.posts: list[WebhookPost] = []
        self.location = location
        self.hold = hold
        self._statuses = list(statuses)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/hook"

    def __exit__(self, *_: object) -> None:
        if self.hold is not None:
            self.hold.set()
        super().__exit__()

    def wait_for_posts(self, count: int = 1, timeout: float = 30.0) -> list[WebhookPost]:
        """Wait until so many posts have arrived in all; ``TimeoutError`` when they do not."""
        with self._changed:
            if not self._changed.wait_for(lambda: len(self.posts) >= count, timeout):
                raise TimeoutError(f"{len(self.posts)} posts arrived within {timeout:g} s, not {count}")
            return list(self.posts)

    def _take(self, handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers["content-length"]))
        with self._changed:
            self.posts.append(WebhookPost(body, {name.lower(): value for name, value in handler.headers.items()}))
            status = self._statuses.pop(0) if self._statuses else 200
            self._changed.notify_all()
        if self.hold is not None:
            self.hold.wait()
        try:
            handler.send_response(status)
            if self.location:
                handler.send_header("location", self.location)
            handler.send_header("content-length", "0")
            handler.end_headers()
        except OSError:  # the sender has given up
            handler.close_connection = True
