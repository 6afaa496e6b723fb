"""Sign-in flows of OAuth: authorization code with PKCE in a browser on this machine, and device code on another one."""

from __future__ import annotations

import base64
import hashlib
import hmac
import queue
import secrets
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from hermes.base.errors import CredentialError
from hermes.base.version import __version__
from hermes.models.credentials.oauth import AuthorizationServer, DeviceCode, OAuthRefused, Tokens

#: How long the user may take.
TIMEOUT_SECONDS = 300.0
_PATH = "/callback"
_PAGE = "<!doctype html><meta charset=utf-8><title>Hermes</title><p>{text}</p>"
_DONE = "You can close this page and go back to the terminal."
_STRANGE = "This is not the answer that Hermes waits for."

#: RFC 8628: ``slow_down`` adds this to the polling interval.
_SLOWER_BY = 5.0
#: The interval doubles with each poll that gets no answer, up to this.
_LONGEST_PAUSE = 60.0

_ENDINGS = {
    "expired_token": "the code was not used in time; try again",
    "access_denied": "the sign-in was refused",
}

#: The query of the redirect, each name once.
RedirectQuery = dict[str, str]


def sign_in_with_browser(
    server: AuthorizationServer, show: Callable[[str], None], *, timeout: float = TIMEOUT_SECONDS
) -> Tokens:
    """Authorization code flow with PKCE and a redirect to this machine. ``show`` is given the address to open."""
    verifier, state = secrets.token_urlsafe(64), secrets.token_urlsafe(32)
    with _redirect_target(state) as (redirect_uri, answers):
        show(server.authorization_address(redirect_uri, state, challenge_of(verifier)))
        try:
            answer = answers.get(timeout=timeout)
        except queue.Empty:
            raise CredentialError(
                f"{server.provider}: no one signed in within {timeout:g} s; try again, or with --device"
            ) from None
    if "code" in answer:
        return server.exchange(answer["code"], verifier, redirect_uri)
    code = answer.get("error", "no code")[:60]
    what = "the sign-in was refused" if code == "access_denied" else "the sign-in failed"
    raise CredentialError(f"{server.provider}: {what} ({code})")


def challenge_of(verifier: str) -> str:
    """The PKCE challenge (S256) of a verifier."""
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()


@contextmanager
def _redirect_target(state: str) -> Generator[tuple[str, queue.Queue[RedirectQuery]]]:
    """An address on this machine that accepts one redirect with the right state, and nothing else."""
    answers: queue.Queue[RedirectQuery] = queue.Queue()
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
    """Listens on loopback only. Browsers open spare connections, so each has its own thread."""

    daemon_threads = True

    def __init__(self, state: str, answers: queue.Queue[RedirectQuery]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.state = state
        self.answers = answers

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore a broken connection; a traceback would show the code."""


class _Handler(BaseHTTPRequestHandler):
    timeout = 5.0
    server_version = f"hermes/{__version__}"
    sys_version = ""

    def do_GET(self) -> None:
        """The redirect of the browser."""
        listener = self.server
        assert isinstance(listener, _Listener)
        parts = urlsplit(self.path)
        answer = {name: values[0] for name, values in parse_qs(parts.query).items() if len(values) == 1}
        # Another page could send a browser here too: only this host name and our own state are accepted.
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


# -- device code ----------------------------------------------------------------------------------------------------


def sign_in_on_another_device(
    server: AuthorizationServer,
    show: Callable[[DeviceCode], None],
    *,
    wait: Callable[[float], None] = time.sleep,
) -> Tokens:
    """Device code flow: show a code, and poll for the tokens until the user has agreed, refused or let it expire."""
    code = server.start_device()
    show(code)
    pause, left = code.interval, code.expires_in
    while left > 0:
        wait(pause)
        left -= pause
        try:
            return server.poll_device(code.device_code)
        except OAuthRefused as error:
            if error.code == "slow_down":
                pause += _SLOWER_BY
            elif error.code != "authorization_pending":
                raise CredentialError(_ended(server, error)) from None
        except CredentialError:
            # No answer at all: the user may be signing in at this moment, so only the interval grows.
            pause = min(pause * 2, _LONGEST_PAUSE)
    raise CredentialError(f"{server.provider}: {_ENDINGS['expired_token']}")


def _ended(server: AuthorizationServer, error: OAuthRefused) -> str:
    return f"{server.provider}: {_ENDINGS[error.code]}" if error.code in _ENDINGS else str(error)
