"""Health, readiness and metrics of a process, on a small HTTP server of its own.

``/healthz`` answers while the process lives, ``/readyz`` with 200 or 503 and the reasons, ``/metrics`` in the text
format of Prometheus. It is meant for the supervisor and the monitoring beside the process: it has no tokens,
shows no content of conversations, and listens on 127.0.0.1 unless configured otherwise.
"""

from __future__ import annotations

import http.server
import threading
from collections.abc import Callable

import msgspec

from hermes.base.errors import HermesError

#: A look at the state must not wait for what it looks at.
_REQUEST_SECONDS = 10


class HealthServer:
    """Answers about one process, on a thread of its own."""

    def __init__(self, problems: Callable[[], list[str]], metrics: Callable[[], str], host: str, port: int) -> None:
        """``problems`` says why the process is not ready, one sentence each. ``metrics`` gives all metrics as text."""
        handler = _handler(lambda path: _answer(path, problems, metrics))
        try:
            self._server = http.server.ThreadingHTTPServer((host, port), handler)
        except OSError as error:
            raise HermesError(f"cannot listen on {host} port {port}: {error.strerror or error}") from error
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, name="hermes-health", daemon=True)

    @property
    def address(self) -> str:
        """The URL that it answers at."""
        host, port = self._server.server_address[:2]
        name = host if isinstance(host, str) else bytes(host).decode()
        return f"http://{f'[{name}]' if ':' in name else name}:{port}"

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def close(self) -> None:
        """Stop answering."""
        self._server.shutdown()
        self._server.server_close()


def _answer(path: str, problems: Callable[[], list[str]], metrics: Callable[[], str]) -> tuple[int, str, str]:
    """Status, content type and text of the answer to a path; 404 for any other."""
    if path == "/healthz":
        return 200, "application/json", '{"status":"ok"}'
    if path == "/readyz":
        found = problems()
        document = {"status": "unavailable" if found else "ok", "problems": found}
        return 503 if found else 200, "application/json", msgspec.json.encode(document).decode()
    if path == "/metrics":
        return 200, "text/plain; version=0.0.4; charset=utf-8", metrics()
    return 404, "application/json", '{"status":"not found"}'


def _handler(answer: Callable[[str], tuple[int, str, str]]) -> Callable[..., http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        timeout = _REQUEST_SECONDS
        server_version, sys_version = "hermes", ""

        def do_GET(self) -> None:
            try:
                status, kind, text = answer(self.path.partition("?")[0])
            except Exception as error:
                # Only the class leaves: the text of an error may hold anything.
                status, kind, text = 500, "text/plain", type(error).__name__
            body = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  (the name of the base class)
            pass

    return Handler
