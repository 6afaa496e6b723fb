"""Fetching from addresses that somebody else chose: what is refused, what is bounded, what arrives."""

from __future__ import annotations

import contextlib
import socket
import threading

import pytest

from hermes.base.http.fetch import fetch
from hermes.base.http.ssrf import is_public
from support.image_server import PNG, ImageServer


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("93.184.216.34", True),
        ("2606:2800:220:1:248:1893:25c8:1946", True),
        ("127.0.0.1", False),
        ("10.1.2.3", False),
        ("172.16.0.1", False),
        ("192.168.1.1", False),
        ("169.254.169.254", False),
        ("100.64.0.1", False),
        ("0.0.0.0", False),
        ("224.0.0.1", False),
        ("255.255.255.255", False),
        ("::1", False),
        ("::", False),
        ("fe80::1%eth0", False),
        ("fd00::1", False),
        ("::ffff:10.0.0.1", False),
        ("::ffff:93.184.216.34", True),
        ("64:ff9b::a00:1", False),
        ("2002:a00:1::", False),
        ("::127.0.0.1", False),
        ("::ffff:0:127.0.0.1", False),
        ("64:ff9b:1::7f00:1", False),
        ("fec0::1", False),
        ("3fff::1", False),
        ("5f00::1", False),
    ],
)
def test_which_addresses_are_public(address: str, public: bool) -> None:
    assert is_public(address) is public


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "127.1", "0x7f000001", "2130706433", "0"])
def test_no_spelling_of_a_private_address_gets_through(host: str) -> None:
    with pytest.raises((ValueError, OSError)) as refused:
        fetch(f"http://{host}:9/x", max_bytes=10)
    assert "private network" in str(refused.value) or isinstance(refused.value, socket.gaierror)


def test_a_name_that_leads_inside_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The look-up that is checked is the one that is connected to, so there is no second one to change its mind."""
    answers = iter(["127.0.0.1", "93.184.216.34"])

    def look_up(host: str, port: int, **_options: object) -> list[tuple[object, ...]]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (next(answers), port))]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    with pytest.raises(ValueError, match=r"images\.example is in a private network"):
        fetch("http://images.example/x.png", max_bytes=10)


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://example.com/x", "data:,x", "example.com/x", "http://"])
def test_only_the_web_is_fetched(url: str) -> None:
    with pytest.raises(ValueError, match="only http and https"):
        fetch(url, max_bytes=10, allow_private=True)


def test_what_is_there_arrives() -> None:
    with ImageServer() as server:
        assert fetch(f"{server.address}/x", max_bytes=1000, allow_private=True) == (PNG, "image/png")


def test_too_much_is_an_error() -> None:
    with ImageServer() as server, pytest.raises(ValueError, match="larger than 10 bytes"):
        fetch(f"{server.address}/x", max_bytes=10, allow_private=True)


def test_a_status_is_an_error() -> None:
    with ImageServer() as server:
        server.image = lambda _path: (404, {}, b"gone")
        with pytest.raises(OSError, match="status 404"):
            fetch(f"{server.address}/x", max_bytes=10, allow_private=True)


def test_redirections_are_followed_a_few_times_and_only_on_the_web() -> None:
    with ImageServer() as server:
        server.image = lambda path: (200, {}, PNG) if path == "/end" else (302, {"Location": "/end"}, b"")
        assert fetch(f"{server.address}/start", max_bytes=1000, allow_private=True).data == PNG
        server.image = lambda _path: (302, {"Location": "/again"}, b"")
        with pytest.raises(OSError, match="302"):
            fetch(f"{server.address}/start", max_bytes=1000, allow_private=True)
        server.image = lambda _path: (302, {"Location": "file:///etc/passwd"}, b"")
        with pytest.raises((OSError, ValueError)):
            fetch(f"{server.address}/start", max_bytes=1000, allow_private=True)


@pytest.mark.parametrize(
    "host",
    [
        *("10.0.0.1", "router", "printer.local", "metadata.internal", "Metadata.Internal.", "localhost.", "127.0.0.1."),
        *("127.1", "0x7f.1", "0177.0.0.1", "2130706433", "[::127.0.0.1]"),
    ],
)
def test_behind_a_proxy_the_name_itself_is_judged(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    with pytest.raises(ValueError, match="private network"):
        fetch(f"http://{host}/x", max_bytes=10)


def test_a_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    with ImageServer() as server:
        monkeypatch.setenv("http_proxy", server.address)
        assert fetch("http://images.example/x.png", max_bytes=1000).data == PNG
    assert server.fetched == ["http://images.example/x.png"]


@pytest.mark.parametrize("sent", [b"HTTP/1.1 200 OK\r\nX-Slow: ", b"HTTP/1.1 200 OK\r\n\r\n"], ids=["head", "body"])
def test_a_server_that_sends_a_byte_now_and_then_is_given_up(sent: bytes) -> None:
    done = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def drip() -> None:
            connection, _ = listener.accept()
            with connection, contextlib.suppress(OSError):
                connection.sendall(sent)
                while not done.wait(0.05):
                    connection.sendall(b"x")

        server = threading.Thread(target=drip)
        server.start()
        try:
            with pytest.raises(TimeoutError, match=r"longer than 0\.3 s"):
                fetch(
                    f"http://127.0.0.1:{listener.getsockname()[1]}/x", max_bytes=10_000, timeout=0.3, allow_private=True
                )
        finally:
            done.set()
            server.join()
