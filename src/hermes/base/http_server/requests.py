"""Checks of a request before an application sees it: its body within limits, and no web page behind it."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from starlette.types import Message, Receive, Scope

from hermes.base.http_server.listen_address import is_loopback

#: Values of ``Sec-Fetch-Site`` of requests that no page of another site made.
_OWN_SITES = ("none", "same-origin")


def request_headers(scope: Scope) -> dict[str, str]:
    """The headers of a request, their names in lower case."""
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}


def media_type_of(header: str) -> str:
    """The media type of a ``Content-Type`` header, without its parameters."""
    return header.partition(";")[0].strip().lower()


def is_from_program(headers: Mapping[str, str]) -> bool:
    """Whether a request (names of headers in lower case) can only come from a program on this machine.

    Keeps out cross-site requests and DNS rebinding. A page of another port is another site: a development server may
    show pages of strangers.
    """
    host = headers.get("host", "")
    return is_local_name(host) and is_own_origin(headers)


def is_local_name(host: str) -> bool:
    """Whether a ``Host`` header names this machine by a loopback name."""
    try:
        name = urlsplit(f"//{host}").hostname
    except ValueError:
        return False
    return name is not None and is_loopback(name)


def is_own_origin(headers: Mapping[str, str]) -> bool:
    """Whether a request is not from a page, or from a page that this very server has sent."""
    host, origin = headers.get("host", ""), headers.get("origin")
    is_own = origin is None or origin.lower() == f"http://{host.lower()}"
    return is_own and headers.get("sec-fetch-site", "none") in _OWN_SITES


async def read_body(receive: Receive, headers: Mapping[str, str], limit: int) -> bytes | None:
    """The body; None when it is too long, without reading all of it."""
    announced = headers.get("content-length", "")
    if announced.isdecimal() and int(announced) > limit:
        return None
    body = bytearray()
    while True:
        message = await receive()
        body += message.get("body", b"")
        if len(body) > limit:
            return None
        if not message.get("more_body"):
            return bytes(body)


def replayed_body(body: bytes, receive: Receive) -> Receive:
    """A source of messages that begins with a body that was read already."""
    first: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return first.pop() if first else await receive()

    return replay
