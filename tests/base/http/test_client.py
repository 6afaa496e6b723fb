"""The HTTP client for everything that is not a model: redirects, limits, and the SSRF guard on every connection."""

from __future__ import annotations

import gzip
import socket
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from hermes.base.errors import Interrupted
from hermes.base.http.address import Address
from hermes.base.http.client import HttpClient
from hermes.base.http.errors import AddressRefused, BadBody, BodyTooLarge, ConnectError, InvalidUrl, TimedOut
from hermes.base.http.exchange import Timeouts
from hermes.base.http.ssrf import public_only
from hermes.base.scope import Interrupt
from support.waiting import HANG


class Site(ThreadingHTTPServer):
    """Answers by path, and remembers what it was asked."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[tuple[str, str, dict[str, str], bytes]] = []
        self.connections = 0
        self.location = "/there"
        self.hold = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def process_request(self, request: Any, client_address: Any) -> None:
        self.connections += 1
        super().process_request(request, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that leaves early is part of some tests."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def handle_any(self) -> None:
        site = self.server
        assert isinstance(site, Site)
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        site.asked.append((self.command, self.path, headers, body))
        if self.path.startswith("/redirect-"):
            self.answer(int(self.path[10:13]), b"", ("location", site.location))
        elif self.path == "/gzip":
            self.answer(200, gzip.compress(b"x" * 100_000), ("content-encoding", "gzip"))
        elif self.path == "/brotli":
            self.answer(200, b"?", ("content-encoding", "br"))
        elif self.path == "/hold":
            site.hold.wait(60)
        else:
            self.answer(200, b'{"path": "%s"}' % self.path.encode())

    do_GET = do_POST = handle_any  # noqa: N815  (the names that the library calls)

    def answer(self, status: int, body: bytes, *headers: tuple[str, str]) -> None:
        self.send_response(status)
        for name, value in (*headers, ("content-length", str(len(body)))):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  (the name that the library gives it)
        """Nothing is logged."""


@contextmanager
def serving() -> Generator[Site]:
    with Site() as site:
        thread = threading.Thread(target=site.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield site
        finally:
            site.hold.set()
            site.shutdown()
            thread.join()


@pytest.fixture
def client() -> Generator[HttpClient]:
    client = HttpClient()
    yield client
    client.close()


@pytest.fixture
def site() -> Generator[Site]:
    with serving() as site:
        yield site


def test_a_response_and_its_connection_used_again(client: HttpClient, site: Site) -> None:
    for _ in range(2):
        response = client.request("POST", f"{site.url}/a?b=c", [("x-own", "1")], b"body")
        assert (response.status, response.is_success, response.json()) == (200, True, {"path": "/a?b=c"})
    assert site.connections == 1
    method, path, headers, body = site.asked[0]
    assert (method, path, headers["x-own"], body) == ("POST", "/a?b=c", "1", b"body")


@pytest.mark.parametrize(
    ("status", "method", "body"), [(301, "GET", b""), (303, "GET", b""), (307, "POST", b"x"), (308, "POST", b"x")]
)
def test_redirects_are_followed_when_asked(
    client: HttpClient, site: Site, status: int, method: str, body: bytes
) -> None:
    url = f"{site.url}/redirect-{status}"
    assert client.request("POST", url, body=b"x").status == status
    response = client.request("POST", url, [("authorization", "k")], b"x", follow_redirects=1)
    assert response.status == 200 and response.url == f"{site.url}/there"
    asked = site.asked[-1]
    assert (asked[0], asked[1], asked[3]) == (method, "/there", body)
    assert asked[2]["authorization"] == "k"  # the same server


def test_another_server_does_not_get_the_secrets(client: HttpClient, site: Site) -> None:
    with serving() as elsewhere:
        site.location = f"{elsewhere.url}/x"
        headers = [("Authorization", "k"), ("cookie", "c"), ("x-own", "1")]
        assert client.request("GET", f"{site.url}/redirect-302", headers, follow_redirects=3).status == 200
        seen = elsewhere.asked[0][2]
    assert seen["x-own"] == "1" and "authorization" not in seen and "cookie" not in seen


def test_a_redirect_without_end_and_one_to_nowhere(client: HttpClient, site: Site) -> None:
    site.location = "/redirect-302"
    assert client.request("GET", f"{site.url}/redirect-302", follow_redirects=3).status == 302
    assert len(site.asked) == 4
    for location in ("file:///etc/passwd", "http+unix:///run/docker.sock/x", "http://[", "ftp://h/"):
        site.location = location
        with pytest.raises(InvalidUrl):
            client.request("GET", f"{site.url}/redirect-302", follow_redirects=3)


@pytest.mark.parametrize("url", ["ftp://h/", "h/x", "http://", "http://h:port/", "http://user:pw@h:99999/", ""])
def test_a_url_that_cannot_be_requested(client: HttpClient, url: str) -> None:
    with pytest.raises(InvalidUrl) as caught:
        client.request("GET", url)
    assert "pw" not in str(caught.value)


def test_bodies_are_bounded_and_decoded(client: HttpClient, site: Site) -> None:
    assert len(client.request("GET", f"{site.url}/gzip").body) == 100_000
    with pytest.raises(BodyTooLarge, match="more than 50,000 bytes"):
        client.request("GET", f"{site.url}/gzip", max_bytes=50_000)
    with pytest.raises(BadBody, match="'br'"):
        client.request("GET", f"{site.url}/brotli")


def test_the_time_limit_counts_for_all_redirects_together(client: HttpClient, site: Site) -> None:
    site.location = "/hold"
    with pytest.raises(TimedOut, match=r"within 0\.3 s \(timeout: total\)"):
        client.request("GET", f"{site.url}/redirect-302", timeouts=Timeouts.within(0.3), follow_redirects=1)


def test_a_server_that_sends_more_after_the_content_is_not_waited_for(client: HttpClient) -> None:
    most, sent = 500, 0
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        nonlocal sent
        peer, _ = listener.accept()
        with peer, suppress(OSError):
            peer.recv(65536)
            peer.sendall(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nwhole\r\n")
            while sent < most:
                peer.sendall(b"1\r\n:\r\n")
                sent += 1
                time.sleep(0.02)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
    with listener, pytest.raises(TimedOut), client.open("GET", url) as response:
        for _ in response:
            response.expect_end(0.1)
    thread.join(HANG)
    assert sent < most


def test_an_interrupt_ends_the_wait(client: HttpClient, site: Site) -> None:
    interrupt = Interrupt()
    timer = threading.Timer(0.1, interrupt.cancel, ("enough",))
    timer.start()
    with pytest.raises(Interrupted, match="enough"):
        client.request("GET", f"{site.url}/hold", interrupt=interrupt)
    timer.join()


# -- the SSRF guard -------------------------------------------------------------------------------------------------


def test_a_guarded_request_never_connects_to_a_private_address(client: HttpClient, site: Site) -> None:
    with pytest.raises(AddressRefused, match=r"127\.0\.0\.1 is in a private network"):
        client.request("GET", site.url, guard=public_only)
    assert site.connections == 0


def test_an_open_connection_is_no_way_around_the_guard(client: HttpClient, site: Site) -> None:
    assert client.request("GET", site.url).status == 200
    with pytest.raises(AddressRefused):
        client.request("GET", site.url, guard=public_only)
    assert len(site.asked) == 1


def test_a_redirect_is_no_way_around_the_guard(client: HttpClient, site: Site) -> None:
    with serving() as inside:

        def only_the_first(server: Address, is_public: bool) -> str:
            return "" if server.port == site.server_port else "not there"

        site.location = f"{inside.url}/secrets"
        with pytest.raises(AddressRefused, match="not there"):
            client.request("GET", f"{site.url}/redirect-302", guard=only_the_first, follow_redirects=3)
        assert inside.connections == 0


def test_every_address_of_a_name_must_be_allowed(
    client: HttpClient, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DNS rebinding: one public address among the answers does not help, and there is no second look-up."""
    look_ups: list[bytes] = []

    def look_up(host: bytes, port: int, **_options: object) -> list[tuple[object, ...]]:
        look_ups.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (ip, port)) for ip in ("93.184.216.34", "127.0.0.1")]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    with pytest.raises(AddressRefused, match=r"mixed\.example is in a private network"):
        client.request("GET", f"http://mixed.example:{site.server_port}/", guard=public_only)
    assert look_ups == [b"mixed.example"] and site.connections == 0


def test_a_socket_file_is_never_public(client: HttpClient) -> None:
    with pytest.raises(AddressRefused, match="not a socket file"):
        client.request("GET", "http+unix:///run/docker.sock/info", guard=lambda _server, _public: "")


def test_checking_an_address_connects_to_nothing(client: HttpClient, site: Site) -> None:
    client.check(site.url, lambda _server, _public: "")
    with pytest.raises(AddressRefused):
        client.check(site.url, public_only)
    with pytest.raises(ConnectError):
        client.check("http://nothing.invalid/", public_only)
    assert site.connections == 0


def test_behind_a_proxy_the_guard_sees_the_name(
    client: HttpClient, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", site.url)
    seen: list[tuple[str, bool]] = []

    def guard(server: Address, is_public: bool) -> str:
        seen.append((server.host, is_public))
        return ""

    for _ in range(2):
        assert client.request("GET", "http://public.example/x", guard=guard).status == 200
    assert client.request("GET", "http://router.lan/x", guard=guard).status == 200
    assert seen == [("public.example", True), ("public.example", True), ("router.lan", False)]
