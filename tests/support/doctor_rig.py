"""Runs the real ``hermes doctor`` on a home, and servers that answer as broken ones do."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec

from support import run_hermes

#: Method and path to status and body.
Answers = Callable[[str, str], tuple[int, object]]


@dataclass(frozen=True)
class Examined:
    """One run with ``--json``."""

    code: int
    document: dict[str, Any]
    output: str

    @property
    def findings(self) -> list[dict[str, Any]]:
        return [finding for group in self.document["groups"] for finding in group["checks"]]

    def about(self, what: str) -> list[dict[str, Any]]:
        return [finding for finding in self.findings if finding["what"] == what]

    def one(self, what: str, status: str) -> dict[str, Any]:
        """The only finding about something, which has that status."""
        found = self.about(what)
        assert [finding["status"] for finding in found] == [status], self.output
        return found[0]


def examine(home: Path, cwd: Path, *arguments: str, env: Mapping[str, str] | None = None) -> Examined:
    """What ``hermes doctor --json`` says."""
    done = run_hermes("doctor", "--json", *arguments, home=home, cwd=cwd, env=env)
    assert done.stderr == "", done.stderr
    return Examined(done.returncode, msgspec.json.decode(done.stdout, type=dict[str, Any]), done.stdout)


def write_private_config(home: Path, text: str) -> None:
    """A config.yaml that only its owner can read, as the program itself would write it."""
    home.mkdir(parents=True, exist_ok=True)
    path = home / "config.yaml"
    path.write_text(text)
    path.chmod(0o600)


def model_config(base_url: str, extra: str = "", *, key: str = "test-key-0123") -> str:
    """A configuration that uses one server."""
    return f"model:\n  default: scripted\n  base_url: {base_url}\n  api_key: {key}\n{extra}"


@contextmanager
def answering(answers: Answers) -> Generator[tuple[str, list[str]]]:
    """A server on loopback: its base URL, and the requests it got so far."""
    requests: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            self.rfile.read(int(self.headers.get("content-length", 0)))
            requests.append(f"{self.command} {self.path}")
            status, body = answers(self.command, self.path)
            data = body if isinstance(body, bytes) else msgspec.json.encode(body)
            self.send_response(status)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = _answer  # noqa: N815  (the names the standard library looks for)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/v1", requests
        finally:
            server.shutdown()
            thread.join()
