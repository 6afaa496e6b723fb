"""Signing in with a browser on this machine: PKCE, and a redirect to a port that listens here for one answer."""

from __future__ import annotations

import base64
import hashlib
import hmac
import queue
import secrets
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from hermes.errors import CredentialError
from hermes.models.credentials.oauth import AuthorizationServer, Tokens
from hermes.version import __version__

#: How long the person may take.
PATIENCE_SECONDS = 300.0
_PATH = "/callback"
_PAGE = "<!doctype html><meta charset=utf-8><title>Hermes</title><p>{text}</p>"
_DONE = "You can close this page and go back to the terminal."
_STRANGE = "This is not the answer that Hermes waits for."

#: The query of the redirect, each name once.
Answer = dict[str, str]


def sign_in_with_browser(
    server: AuthorizationServer, show: Callable[[str], None], *, patience: float = PATIENCE_SECONDS
) -> Tokens:
    """Send the person to the provider and wait for the way back. ``show`` is given the address to open."""
    verifier, state = secrets.token_urlsafe(64), secrets.token_urlsafe(32)
    with _redirect_target(state) as (redirect_uri, answers):
        show(server.address_to_sign_in(redirect_uri, state, challenge_of(verifier)))
        try:
            answer = answers.get(timeout=patience)
        except queue.Empty:
            raise CredentialError(
                f"{server.provider}: nobody signed in within {patience:g} s; try again, or with --device"
            ) from None
    if "code" in answer:
        return server.exchange(answer["code"], verifier, redirect_uri)
    code = answer.get("error", "no code")[:60]
    what = "the sign-in was refused" if code == "access_denied" else "the sign-in failed"
    raise CredentialError(f"{server.provider}: {what} ({code})")


def challenge_of(verifier: str) -> str:
    """What the provider is shown of the verifier before it is told it."""
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()


@contextmanager
def _redirect_target(state: str) -> Generator[tuple[str, queue.Queue[Answer]]]:
    """An address on this machine that takes the answer with the right state, and nothing else."""
    answers: queue.Queue[Answer] = queue.Queue()
    listener = _Listener(state, answers)
    thread = threading.Thread(target=listener.serve_forever, args=(0.05,), name="sign-in", daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.server_port}{_PATH}", answers
    finally:
        listener.shutdown()
        listener.server_close()
        thread.join()


class _Listener(ThreadingHTTPServer):
    """Listens on the loopback device alone. Browsers open spare connections, so each has its own thread."""

    daemon_threads = True

    def __init__(self, state: str, answers: queue.Queue[Answer]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.state = state
        self.answers = answers

    def handle_error(self, request: object, client_address: object) -> None:
        """A connection that breaks is the browser's business; a traceback would show the code."""


class _Handler(BaseHTTPRequestHandler):
    timeout = 5.0
    server_version = f"hermes/{__version__}"
    sys_version = ""

    def do_GET(self) -> None:
        """The browser comes back."""
        listener = self.server
        assert isinstance(listener, _Listener)
        parts = urlsplit(self.path)
        answer = {name: values[0] for name, values in parse_qs(parts.query).items() if len(values) == 1}
        # Another page could send a browser here too: only the name of this machine, and only our own state.
        is_ours = self.headers.get("host") == f"127.0.0.1:{listener.server_port}" and parts.path == _PATH
        if not is_ours or not hmac.compare_digest(answer.get("state", "").encode(), listener.state.encode()):
            self._say(404, _STRANGE)
            return
        self._say(200, _DONE)
        listener.answers.put(answer)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  (the name that the library gives it)
        """The line would hold the code."""

    def _say(self, status: int, text: str) -> None:
        page = _PAGE.format(text=text).encode()
        self.send_response(status)
        for name, value in (
            ("content-type", "text/html; charset=utf-8"),
            ("content-length", str(len(page))),
            ("cache-control", "no-store"),
            ("referrer-policy", "no-referrer"),
            ("connection", "close"),
        ):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(page)
