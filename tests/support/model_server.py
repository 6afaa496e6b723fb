"""A model server on loopback that has a list of models and, if wanted, asks for a key."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec

from support import CERTIFICATE


@dataclass
class ModelServer:
    """What it has, what it wants, and what it was asked."""

    models: list[str]
    key: str = ""
    #: An answer to everything, instead of the usual ones.
    refusal: tuple[int, dict[str, Any]] | None = None
    base_url: str = ""
    #: Method and path of each request, in order.
    requests: list[str] = field(default_factory=list[str])
    #: The keys that were sent.
    keys: list[str] = field(default_factory=list[str])

    def answer(self, method: str, path: str, sent_key: str, body: bytes) -> tuple[int, dict[str, Any]]:
        """Status and document for one request."""
        self.requests.append(f"{method} {path}")
        self.keys.append(sent_key)
        if self.refusal is not None:
            return self.refusal
        if self.key and sent_key != self.key:
            return 401, {"error": {"message": f"Incorrect API key provided: {sent_key}", "code": "invalid_api_key"}}
        if method == "GET":
            return 200, {"object": "list", "data": [{"id": name, "object": "model"} for name in self.models]}
        model = msgspec.json.decode(body)["model"]
        if model not in self.models:
            return 404, {"error": {"message": f"no model {model}", "code": "model_not_found"}}
        choice = {"index": 0, "message": {"role": "assistant", "content": "OK"}, "finish_reason": "stop"}
        return 200, {"id": "1", "model": model, "choices": [choice]}


@contextmanager
def model_server(
    models: Sequence[str] = ("alpha", "beta"), key: str = "", *, tls: bool = False
) -> Generator[ModelServer]:
    """A server that runs while the block does."""
    state = ModelServer(list(models), key)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            bearer = self.headers.get("authorization", "").removeprefix("Bearer ")
            sent = self.headers.get("x-api-key", bearer)
            status, document = state.answer(self.command, self.path, sent, body)
            data = msgspec.json.encode(document)
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = _answer  # noqa: N815  (the names the standard library looks for)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(CERTIFICATE)
            server.socket = context.wrap_socket(server.socket, server_side=True)
            server.handle_error = lambda request, client_address: None  # a client that does not trust it is expected
        state.base_url = f"{'https' if tls else 'http'}://127.0.0.1:{server.server_address[1]}/v1"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield state
        finally:
            server.shutdown()
            thread.join()
