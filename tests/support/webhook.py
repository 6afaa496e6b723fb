"""A webhook on loopback that keeps what it is told and answers as a test wants."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec


@dataclass
class Webhook:
    """What it was told, and what it answers."""

    url: str = ""
    #: Answers in order; when they are used up, 200.
    statuses: list[int] = field(default_factory=list[int])
    location: str = ""
    #: Held answers wait for the event.
    hold: threading.Event | None = None
    bodies: list[bytes] = field(default_factory=list[bytes])
    headers: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    _told: threading.Condition = field(default_factory=threading.Condition)

    @property
    def states(self) -> list[str]:
        """The states it was told of, ``artifact`` for a piece of an answer."""
        return [_state(msgspec.json.decode(body)) for body in self.bodies]

    def tell(self, body: bytes, headers: dict[str, str]) -> int:
        with self._told:
            self.bodies.append(body)
            self.headers.append(headers)
            self._told.notify_all()
            return self.statuses.pop(0) if self.statuses else 200

    def wait(self, count: int) -> None:
        """Wait until it was called so often."""
        with self._told:
            assert self._told.wait_for(lambda: len(self.bodies) >= count, 10), self.states


def _state(document: dict[str, Any]) -> str:
    event = document.get("task") or document.get("statusUpdate")
    return event["status"]["state"].removeprefix("TASK_STATE_").lower() if event else "artifact"


@contextmanager
def webhook(**options: Any) -> Generator[Webhook]:
    """Serve it while the block runs."""
    made = Webhook(**options)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            status = made.tell(body, {name.lower(): value for name, value in self.headers.items()})
            if made.hold is not None:
                made.hold.wait(10)
            try:
                self.send_response(status)
                if made.location:
                    self.send_header("Location", made.location)
                self.send_header("Content-Length", "0")
                self.end_headers()
            except OSError:  # the caller lost patience
                self.close_connection = True

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.url = f"http://127.0.0.1:{server.server_port}/hook"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield made
    finally:
        if made.hold is not None:
            made.hold.set()
        server.shutdown()
        thread.join()
        server.server_close()
