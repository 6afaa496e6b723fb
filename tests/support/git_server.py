"""A real git server on loopback, over HTTP."""

from __future__ import annotations

import http.server
import os
import subprocess
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path


class GitBackend(http.server.BaseHTTPRequestHandler):
    """Serves bare repositories over HTTP, to those who know the password or without one."""

    repositories = ""
    authorization = "Basic bWU6cGFzc2VkLW9uLXNlY3JldA=="  # me:passed-on-secret

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def _serve(self) -> None:
        if self.headers.get("Authorization", "") != self.authorization:
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="git"')
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        path, _, query = self.path.partition("?")
        length = int(self.headers.get("Content-Length") or 0)
        done = subprocess.run(
            ["git", "http-backend"],
            input=self.rfile.read(length),
            capture_output=True,
            check=False,
            env={
                **os.environ,
                "GIT_PROJECT_ROOT": self.repositories,
                "GIT_HTTP_EXPORT_ALL": "1",
                "PATH_INFO": path,
                "QUERY_STRING": query,
                "REQUEST_METHOD": self.command,
                "CONTENT_TYPE": self.headers.get("Content-Type", ""),
                "REMOTE_USER": "me",
            },
        )
        head, _, body = done.stdout.partition(b"\r\n\r\n")
        self.send_response(200)
        for line in head.decode().splitlines():
            name, _, value = line.partition(": ")
            if name.lower() != "status":
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Nothing is printed."""


@contextmanager
def serve_git(folder: Path, *, is_open: bool = False) -> Generator[tuple[str, Path]]:
    """The address of a repository, without a scheme, and its folder. ``is_open``: no password is needed."""
    bare = folder / "served" / "project.git"
    bare.parent.mkdir()
    subprocess.run(["git", "init", "-q", "--bare", str(bare)], check=True)
    subprocess.run(["git", "--git-dir", str(bare), "config", "http.receivepack", "true"], check=True)
    members = {"repositories": str(bare.parent)} | ({"authorization": ""} if is_open else {})
    handler = type("Handler", (GitBackend,), members)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_address[1]}/project.git", bare
        server.shutdown()
