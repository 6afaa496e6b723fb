"""Access to the page: a token that a browser exchanges for a cookie, checks of Host, Origin and CSRF, response headers.

The page belongs to the owner of the home. Its address has a random token; the first request exchanges it for a cookie
that scripts cannot read and other sites cannot use. Programs and pages that do not have it are refused.

Browsers know no ports in cookies: one of 127.0.0.1 goes to every server of the machine. So the page is below a folder
with a random name, and its cookie is for that folder alone: a browser sends it to another port only when it is led to
the same folder there, whose name no other server knows.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Iterable, Mapping
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs, quote, urlencode, urlsplit

from starlette.datastructures import MutableHeaders
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hermes.base.http_server.requests import is_local_name, read_body, replayed_body, request_headers
from hermes.surfaces.web.documents.assets import content_hash, style
from hermes.surfaces.web.documents.frame import sign_in_page

#: Holds a token that stays the same; without it, each start makes a new one.
TOKEN_VARIABLE = "HERMES_WEB_TOKEN"
#: The header in which the page sends back the CSRF token it was given.
CSRF_HEADER = "x-hermes-csrf"

_OWN_SITES = ("none", "same-origin")
_SAFE_METHODS = ("GET", "HEAD")
_LARGEST_BODY = 1_000_000
_COOKIE_DAYS = 30
#: Hexadecimal digits, four bits each.
_FOLDER_LENGTH = 20

_HEADERS = {
    "content-security-policy": (
        f"default-src 'none'; script-src 'self'; style-src 'self' '{content_hash(style())}'; "
        "img-src 'self' data:; connect-src 'self'; "
        "manifest-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "x-frame-options": "DENY",
}


class PageAccess:
    """The token of one page, and what follows from it."""

    def __init__(self, token: str = "", hosts: Iterable[str] = ()) -> None:
        """``hosts`` are the names, beside those of this machine, by which the page may be called."""
        self.token = token or secrets.token_urlsafe(32)
        self._hosts = frozenset(host.lower() for host in hosts)
        #: The folder of the page, from the root of its server.
        self.folder = f"/{self._derived('folder')[:_FOLDER_LENGTH]}"
        self._cookie = self._derived(f"cookie of {self.folder}")
        #: Sent with the page, and back with every change.
        self.csrf = self._derived("csrf")

    def _derived(self, purpose: str) -> str:
        return hmac.new(self.token.encode(), f"hermes page {purpose}".encode(), hashlib.sha256).hexdigest()

    def is_token(self, text: str) -> bool:
        """Whether the text is the token; takes the same time for every wrong one."""
        return hmac.compare_digest(text.encode(), self.token.encode())

    def is_host(self, host: str) -> bool:
        """Whether a ``Host`` header names this server. A name that others may point here is not one (DNS rebinding)."""
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        return name in self._hosts or is_local_name(host)

    def is_signed_in(self, headers: Mapping[str, str]) -> bool:
        """Whether the cookie is there."""
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(self.cookie_name(headers))
        except CookieError:
            return False
        return cookie is not None and hmac.compare_digest(cookie.value.encode(), self._cookie.encode())

    @staticmethod
    def cookie_name(headers: Mapping[str, str]) -> str:
        """Browsers share cookies between the ports of a machine: each page has a name of its own."""
        port = headers.get("host", "").rpartition(":")[2]
        return f"hermes_page_{port}" if port.isdecimal() else "hermes_page"

    def sign_in(self, response: Response, headers: Mapping[str, str], scheme: str, root: str = "") -> Response:
        """Give the cookie to a browser that has shown the token, for the folder of the page below ``root``."""
        response.set_cookie(
            self.cookie_name(headers),
            self._cookie,
            max_age=_COOKIE_DAYS * 86_400,
            path=root + self.folder,
            httponly=True,
            samesite="strict",
            secure=scheme == "https",
        )
        return response

    def refusal(self, method: str, headers: Mapping[str, str]) -> str:
        """Why a request of a signed-in browser is refused; empty when it is not."""
        if headers.get("sec-fetch-site", "none") not in _OWN_SITES and not _is_navigation(method, headers):
            return "requests from other sites are refused"
        if method in _SAFE_METHODS:
            return ""
        if not _is_own_page(headers):
            return "the Origin header names another site"
        if not hmac.compare_digest(headers.get(CSRF_HEADER, "").encode(), self.csrf.encode()):
            return f"the header {CSRF_HEADER} is missing or wrong; load the page again"
        return ""


def _is_own_page(headers: Mapping[str, str]) -> bool:
    """Whether a change was asked for by a page of this server, or by no page."""
    origin = headers.get("origin")
    return origin is None or urlsplit(origin).netloc.lower() == headers.get("host", "").lower()


def _is_navigation(method: str, headers: Mapping[str, str]) -> bool:
    """Whether a link of another site was followed: the cookie is not sent, so that at most the sign-in page is seen."""
    return method == "GET" and headers.get("sec-fetch-mode") == "navigate"


class AccessGate:
    """Lets requests with the cookie through to the page, and adds the security headers to every response."""

    def __init__(self, app: ASGIApp, access: PageAccess) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
                headers.setdefault("cache-control", "no-store")
            await send(message)

        headers = request_headers(scope)
        response = await self._response(scope, receive, headers)
        if isinstance(response, Response):
            await response(scope, receive, send_with_headers)
            return
        if _is_below(_path(scope), self._access.folder):
            scope = {**scope, "root_path": scope.get("root_path", "") + self._access.folder}
        await self._app(scope, response, send_with_headers)

    async def _response(self, scope: Scope, receive: Receive, headers: Mapping[str, str]) -> Response | Receive:
        """The answer when the page is not to see the request; else the messages of the request."""
        access, method, path = self._access, scope["method"], _path(scope)
        if not access.is_host(headers.get("host", "")):
            return PlainTextResponse("this server is not called by that name (Host header)", 421)
        if path.startswith("/static/") and method in _SAFE_METHODS:
            return receive
        token = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        if token and method == "GET":
            return self._exchange(scope, headers, token)
        body = b"" if method in _SAFE_METHODS else await read_body(receive, headers, _LARGEST_BODY)
        if body is None:
            return JSONResponse({"error": f"the request is longer than {_LARGEST_BODY:,} bytes"}, 413)
        if path == "/sign-in" and method == "POST":
            if not _is_own_page(headers):
                return PlainTextResponse("the Origin header names another site", 403)
            return self._exchange(scope, headers, parse_qs(body.decode("latin-1")).get("token", [""])[0])
        if not _is_below(path, access.folder) or not access.is_signed_in(headers):
            return self._sign_in_needed(scope, path)
        refused = access.refusal(method, headers)
        if refused:
            return JSONResponse({"error": refused}, 403)
        return receive if method in _SAFE_METHODS else replayed_body(body, receive)

    def _exchange(self, scope: Scope, headers: Mapping[str, str], token: str) -> Response:
        """The cookie for the token. The token leaves the address, which history and logs keep."""
        if not self._access.is_token(token):
            return self._sign_in_needed(scope, "/", "This token is not valid, or the page was started again.")
        root, path, folder = scope.get("root_path", ""), _path(scope), self._access.folder
        inner = path.removeprefix(folder) if _is_below(path, folder) else path
        # A path with two slashes at its beginning would be another server.
        there = "/" if inner == "/sign-in" else "/" + quote(inner).lstrip("/")
        rest = [(name, value) for name, value in _pairs(scope) if name != "token"]
        where = RedirectResponse(root + folder + there + (f"?{urlencode(rest)}" if rest else ""), 303)
        return self._access.sign_in(where, headers, scope.get("scheme", "http"), root)

    @staticmethod
    def _sign_in_needed(scope: Scope, path: str, problem: str = "") -> Response:
        if "/api/" in path:
            return JSONResponse({"error": "signed out; open the address that the command printed"}, 401)
        return HTMLResponse(sign_in_page(scope.get("root_path", ""), problem), 401)


def _path(scope: Scope) -> str:
    """The path of a request from the root of the page's server."""
    return scope["path"].removeprefix(scope.get("root_path", ""))


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")


def _pairs(scope: Scope) -> list[tuple[str, str]]:
    query = parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True)
    return [(name, value) for name, values in query.items() for value in values]
