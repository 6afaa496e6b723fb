"""A real authorization server on loopback: code flow with PKCE, device flow, refresh tokens that work once."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import threading
import time
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.error import HTTPError
from urllib.parse import parse_qs, urlencode, urlsplit

from hermes.base.config.schema.sections import OAuthConfig

CLIENT = "client-of-the-tests"
DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"


class AuthorizationServer(ThreadingHTTPServer):
    """Grants tokens, and notes what was asked of it. What it should do differently is set on it."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        #: Every form that came in, with the path it came to.
        self.forms: list[tuple[str, dict[str, str]]] = []
        #: Every query to the page where people sign in.
        self.visits: list[dict[str, str]] = []
        #: What the person says there; an error code instead of a yes.
        self.refusal = ""
        #: Answers to the device's questions before the yes, in order.
        self.device_errors: list[str] = []
        self.device_answer: dict[str, Any] = {}
        #: What ``/token`` answers instead, as status and body, for as long as it is set.
        self.broken: tuple[int, bytes] | None = None
        self.token_life: float | None = 3600
        self.rotates = True
        self.token_delay = 0.0
        #: Every secret that was ever handed out or in.
        self.secrets: list[str] = []
        self._codes: dict[str, dict[str, str]] = {}
        self._refresh_tokens: set[str] = set()
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    @property
    def settings(self) -> OAuthConfig:
        return OAuthConfig(
            client_id=CLIENT,
            token_url=f"{self.url}/token",
            authorization_url=f"{self.url}/authorize",
            device_url=f"{self.url}/device",
            scopes=["models", "offline"],
        )

    def config(self, provider: str = "lab", *, base_url: str = "http://127.0.0.1:9/v1") -> str:
        """The ``config.yaml`` of somebody who signs in here."""
        return (
            f"providers:\n  {provider}:\n    base_url: {base_url}\n    model: m\n    oauth:\n"
            f"      client_id: {CLIENT}\n      token_url: {self.url}/token\n"
            f"      authorization_url: {self.url}/authorize\n      device_url: {self.url}/device\n"
            f"      scopes: [models]\n"
        )

    def asked(self, grant: str) -> list[dict[str, str]]:
        """The forms of one kind that came to ``/token``."""
        return [form for path, form in self.forms if path == "/token" and form.get("grant_type") == grant]

    def new_refresh_token(self) -> str:
        """A refresh token as an earlier sign-in would have left it."""
        token = self._secret("refresh")
        self._refresh_tokens.add(token)
        return token

    # -- what it does -------------------------------------------------------------------------------------------

    def authorize(self, query: dict[str, str]) -> str:
        """Where the person is sent after the answer."""
        self.visits.append(query)
        answer = {"state": query["state"]}
        if self.refusal:
            answer["error"] = self.refusal
        else:
            answer["code"] = code = self._secret("code")
            self._codes[code] = query
        return f"{query['redirect_uri']}?{urlencode(answer)}"

    def answer(self, path: str, form: dict[str, str]) -> tuple[int, bytes]:
        """Status and body for one form."""
        with self._lock:
            self.forms.append((path, form))
            self.secrets += [form[name] for name in ("code_verifier",) if name in form]
        if path == "/token":
            time.sleep(self.token_delay)
            if self.broken is not None:
                return self.broken
        if form.get("client_id") != CLIENT:
            return _refused("invalid_client", "who is that?")
        with self._lock:
            return self._device() if path == "/device" else self._token(form)

    def _device(self) -> tuple[int, bytes]:
        answer = {
            "device_code": self._secret("device"),
            "user_code": "WDJB-MJHT",
            "verification_uri": f"{self.url}/go",
            "verification_uri_complete": f"{self.url}/go?code=WDJB-MJHT",
            "expires_in": 600,
            "interval": 1,
        }
        return 200, json.dumps(answer | self.device_answer).encode()

    def _token(self, form: dict[str, str]) -> tuple[int, bytes]:
        match form["grant_type"]:
            case "authorization_code":
                asked = self._codes.pop(form["code"], None)
                challenge = base64.urlsafe_b64encode(hashlib.sha256(form["code_verifier"].encode()).digest())
                if asked is None or asked["code_challenge"] != challenge.rstrip(b"=").decode():
                    return _refused("invalid_grant", f"bad code {form['code']}")
                if asked["redirect_uri"] != form["redirect_uri"] or asked["code_challenge_method"] != "S256":
                    return _refused("invalid_grant", "another address")
            case "refresh_token":
                if form["refresh_token"] not in self._refresh_tokens:
                    return _refused("invalid_grant", f"the token {form['refresh_token']} was used before")
                if self.rotates:
                    self._refresh_tokens.discard(form["refresh_token"])
            case _:
                assert form["grant_type"] == DEVICE_GRANT
                if self.device_errors:
                    return _refused(self.device_errors.pop(0), "wait")
        return self._granted(rotate=self.rotates or form["grant_type"] != "refresh_token")

    def _granted(self, *, rotate: bool) -> tuple[int, bytes]:
        tokens: dict[str, Any] = {"access_token": self._secret("access"), "token_type": "Bearer"}
        if self.token_life is not None:
            tokens["expires_in"] = self.token_life
        if rotate:
            tokens["refresh_token"] = self.new_refresh_token()
        return 200, json.dumps(tokens).encode()

    def _secret(self, kind: str) -> str:
        self.secrets.append(made := f"{kind}-{secrets.token_hex(12)}")
        return made


def _refused(code: str, description: str) -> tuple[int, bytes]:
    return 400, json.dumps({"error": code, "error_description": description}).encode()


class _Handler(BaseHTTPRequestHandler):
    server: AuthorizationServer  # pyright: ignore[reportIncompatibleVariableOverride]

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        if parts.path != "/authorize":
            self.send_error(404)
            return
        self.send_response(302)
        self.send_header("location", self.server.authorize(query))
        self.send_header("content-length", "0")
        self.end_headers()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"])).decode()
        form = {name: values[0] for name, values in parse_qs(body).items()}
        status, answer = self.server.answer(self.path, form)
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: Any) -> None: ...  # noqa: A002


@contextmanager
def authorization_server() -> Generator[AuthorizationServer]:
    """A server that is closed at the end."""
    server = AuthorizationServer()
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def visit(address: str) -> tuple[int, str]:
    """Do as a browser does: follow the address to its end. Status and text of the last page."""
    try:
        with urllib.request.urlopen(address, timeout=60) as page:
            return page.status, page.read().decode()
    except HTTPError as error:
        with error:
            return error.code, error.read().decode()
