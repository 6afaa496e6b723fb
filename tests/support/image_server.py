"""A real server on loopback that speaks ``/images/generations`` and serves the images it makes."""

from __future__ import annotations

import base64
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

import msgspec

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)

#: Status, headers and body of an answer.
Answer = tuple[int, dict[str, str], bytes]
Reply = Callable[[dict[str, Any]], Answer]


def json_answer(value: object, status: int = 200) -> Answer:
    """An answer of the API."""
    return status, {"Content-Type": "application/json"}, msgspec.json.encode(value)


def an_image(_body: dict[str, Any]) -> Answer:
    """The usual answer: an image in base64."""
    return json_answer({"data": [{"b64_json": base64.b64encode(PNG).decode()}]})


class ImageServer:
    """Answers as ``reply`` says; GET gives the image itself."""

    def __init__(self, reply: Reply = an_image) -> None:
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str] = []
        self.fetched: list[str] = []
        self.reply = reply
        self.image: Callable[[str], Answer] = lambda _path: (200, {"Content-Type": "image/png"}, PNG)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def _handler(server: ImageServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = msgspec.json.decode(self.rfile.read(int(self.headers["Content-Length"])))
            server.requests.append({"path": self.path, **body})
            server.keys.append(self.headers.get("Authorization", ""))
            self._send(server.reply(body))

        def do_GET(self) -> None:
            server.fetched.append(self.path)
            self._send(server.image(self.path))

        def _send(self, answer: Answer) -> None:
            status, headers, body = answer
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

    return Handler
