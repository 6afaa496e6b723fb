"""An MCP server on loopback, over streamable HTTP and over the older server-sent events, and what guards it."""

from __future__ import annotations

import json
import queue
import ssl
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit


class McpHttpServer(ThreadingHTTPServer):
    """Answers with JSON. What it should do differently is set on it."""

    daemon_threads = True

    def __init__(self, *, guarded: bool, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
        self.scheme = "http" if tls is None else "https"
        self.guarded = guarded
        #: Messages for the client of the stream of events; None ends it.
        self.events: queue.Queue[dict[str, Any] | None] = queue.Queue()
        #: Whether every message is answered with an error of the server.
        self.refuses = False
        #: Seconds that the token endpoint takes.
        self.token_delay = 0.0
        #: The headers of every request to the server itself.
        self.seen: list[dict[str, str]] = []
        #: The forms that came to the token endpoint.
        self.grants: list[dict[str, str]] = []
        self.valid: set[str] = set()
        self.issued = 0
        self.expires_in = 3600
        #: Whether an answer to a refresh brings a new refresh token.
        self.rotates = True

    @property
    def base(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.server_address[1]}"

    @property
    def url(self) -> str:
        return f"{self.base}/mcp"

    def issue(self, *, with_refresh: bool) -> dict[str, Any]:
        """A new access token."""
        self.issued += 1
        token = f"access-token-number-{self.issued}"
        self.valid.add(token)
        answer: dict[str, Any] = {"access_token": token, "token_type": "Bearer", "expires_in": self.expires_in}
        return {**answer, "refresh_token": f"refresh-token-number-{self.issued}"} if with_refresh else answer


class _Handler(BaseHTTPRequestHandler):
    server: McpHttpServer  # pyright: ignore[reportIncompatibleVariableOverride]
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass

    def _json(self, value: Any, status: int = 200, **headers: str) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        for name, text in {"Content-Type": "application/json", "Content-Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), text)
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        base, path = self.server.base, urlsplit(self.path)
        if path.path.startswith("/.well-known/oauth-protected-resource"):
            self._json({"resource": self.server.url, "authorization_servers": [base]})
        elif path.path.startswith("/.well-known/oauth-authorization-server"):
            self._json(
                {
                    "issuer": base,
                    "authorization_endpoint": f"{base}/authorize",
                    "token_endpoint": f"{base}/token",
                    "registration_endpoint": f"{base}/register",
                    "response_types_supported": ["code"],
                    "code_challenge_methods_supported": ["S256"],
                }
            )
        elif path.path == "/authorize":
            asked = {key: values[0] for key, values in parse_qs(path.query).items()}
            self.send_response(302)
            answer = urlencode({"code": "the-code", "state": asked["state"]})
            self.send_header("Location", f"{asked['redirect_uri']}?{answer}")
            self.send_header("Content-Length", "0")
            self.end_headers()
        elif path.path == "/sse":
            self._stream()
        else:
            self._json({}, 405 if path.path == "/mcp" else 404)

    def _stream(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(b"event: endpoint\ndata: /messages\n\n")
        while (message := self.server.events.get()) is not None:
            self.wfile.write(b"event: message\ndata: " + json.dumps(message).encode() + b"\n\n")
        self.close_connection = True

    def do_DELETE(self) -> None:
        self._json({})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/register":
            self._json({**json.loads(body), "client_id": "registered-client"}, 201)
        elif self.path == "/token":
            form = {key: values[0] for key, values in parse_qs(body.decode()).items()}
            self.server.grants.append(form)
            time.sleep(self.server.token_delay)
            is_refresh = form["grant_type"] == "refresh_token"
            self._json(self.server.issue(with_refresh=self.server.rotates or not is_refresh))
        else:
            self._serve(json.loads(body))

    def _serve(self, message: dict[str, Any]) -> None:
        self.server.seen.append(dict(self.headers.items()))
        token = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
        if self.server.guarded and token not in self.server.valid:
            where = f'Bearer resource_metadata="{self.server.base}/.well-known/oauth-protected-resource/mcp"'
            self._json({}, 401, WWW_Authenticate=where)
            return
        if self.server.refuses:
            self._json({}, 500)
            return
        if "id" not in message:
            self._json({}, 202)
            return
        result = _answer(message["method"], message.get("params") or {})
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
        answer |= {"error": {"code": -32601, "message": "no such method"}} if result is None else {"result": result}
        if self.path == "/messages":
            self._json({}, 202)
            self.server.events.put(answer)
        else:
            self._json(answer)


def _answer(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    if method == "initialize":
        info = {"name": "web", "version": "1"}
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": info}
    if method == "tools/list":
        return {"tools": [{"name": "echo", "inputSchema": {"properties": {"text": {"type": "string"}}}}]}
    if method == "tools/call":
        return {"content": [{"type": "text", "text": f"web: {params['arguments'].get('text')}"}]}
    return None


@contextmanager
def mcp_http_server(*, guarded: bool = False, tls: ssl.SSLContext | None = None) -> Generator[McpHttpServer]:
    """A server that runs while the block does."""
    server = McpHttpServer(guarded=guarded, tls=tls)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.events.put(None)
        server.shutdown()
        server.server_close()
