"""TLS, proxies and the keeping of connections."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager, suppress

import httpcore2
import pytest

from hermes.contract.response import Record
from hermes.errors import ConfigError, ProviderError
from hermes.providers.connections import Connection, Connections, parse_url
from hermes.providers.driver import Driver
from hermes.providers.endpoint import Timeouts
from hermes.providers.exchange import Exchange
from hermes.providers.proxies import proxy_for
from hermes.providers.reply import normalise
from hermes.scope import Interrupt
from hermes.testing import ScriptedProvider

Ask = Callable[..., Record]


def test_urls_in_the_form_that_is_sent() -> None:
    url = parse_url("https://bücher.example/v1/chät?q=a b&k=%20")
    assert (url.host, url.port) == (b"xn--bcher-kva.example", 443)
    assert url.target == b"/v1/ch%C3%A4t?q=a%20b&k=%20"
    assert parse_url("http://h:81").target == b"/"
    assert parse_url("http://h:81").port == 81


# -- certificates ---------------------------------------------------------------------------------------------------


def test_a_certificate_from_the_environment(
    ask: Ask, server_tls: ssl.SSLContext, certificate: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", certificate)
    with ScriptedProvider("secure", tls=server_tls) as provider:
        assert normalise(ask(provider.base_url)).content == "secure"
        assert normalise(ask(provider.base_url)).content == "secure"
        assert provider.connections == 1


def test_an_unknown_certificate_is_refused(ask: Ask, server_tls: ssl.SSLContext) -> None:
    with (
        ScriptedProvider("secure", tls=server_tls) as provider,
        pytest.raises(ProviderError, match="SSL_CERT_FILE") as caught,
    ):
        ask(provider.base_url)
    assert caught.value.reason == "connection"
    assert provider.requests == []


def test_tls_on_a_plain_port_says_so(ask: Ask) -> None:
    def answer_plainly() -> None:
        client, _ = server.accept()
        with client:
            client.recv(4096)
            client.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=answer_plainly)
        thread.start()
        with pytest.raises(ProviderError, match="use http:// in") as caught:
            ask(f"https://127.0.0.1:{server.getsockname()[1]}/v1")
        thread.join()
    assert caught.value.reason == "connection"


# -- proxies --------------------------------------------------------------------------------------------------------


@contextmanager
def tunnel(status: bytes = b"200 OK") -> Generator[tuple[str, list[bytes]]]:
    """A proxy that answers CONNECT and passes everything on to the port named in it, on loopback."""
    asked: list[bytes] = []
    threads: list[threading.Thread] = []

    def pump(source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
        with suppress(OSError):
            target.shutdown(socket.SHUT_WR)

    def serve(client: socket.socket) -> None:
        with client, ExitStack() as stack:
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                head += client.recv(4096)
            asked.append(head)
            client.sendall(b"HTTP/1.1 " + status + b"\r\n\r\n")
            if not status.startswith(b"200"):
                return
            port = int(head.split(b" ")[1].rpartition(b":")[2])
            upstream = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            back = threading.Thread(target=pump, args=(upstream, client))
            back.start()
            pump(client, upstream)
            back.join()

    def accept() -> None:
        with suppress(OSError):
            while True:
                client, _ = server.accept()
                threads.append(threading.Thread(target=serve, args=(client,)))
                threads[-1].start()

    with socket.create_server(("127.0.0.1", 0)) as server:
        acceptor = threading.Thread(target=accept)
        acceptor.start()
        try:
            yield f"http://us%65r:p%40ss@127.0.0.1:{server.getsockname()[1]}", asked
        finally:
            server.shutdown(socket.SHUT_RDWR)
            acceptor.join()
            for thread in threads:
                thread.join()


def test_plain_requests_go_to_the_proxy_whole(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    with ScriptedProvider("by proxy") as proxy:
        monkeypatch.setenv("http_proxy", proxy.base_url.removesuffix("/v1"))
        assert normalise(ask("http://scripted.invalid/v1")).content == "by proxy"
        assert normalise(ask("http://scripted.invalid/v1")).content == "by proxy"
        assert proxy.requests[0].path == "http://scripted.invalid:80/v1/chat/completions"
        assert proxy.connections == 1


def test_secure_requests_go_through_a_tunnel(
    driver: Driver, ask: Ask, server_tls: ssl.SSLContext, certificate: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", certificate)
    with ScriptedProvider("tunnelled", tls=server_tls) as provider, tunnel() as (proxy, asked):
        monkeypatch.setenv("HTTPS_PROXY", proxy)
        url = provider.base_url.replace("127.0.0.1", "scripted.invalid")
        assert normalise(ask(url)).content == "tunnelled"
        assert normalise(ask(url)).content == "tunnelled"
        assert len(asked) == 1
        assert b"Proxy-Authorization: Basic dXNlcjpwQHNz" in asked[0]
        assert provider.requests[0].headers.get("proxy-authorization") is None
        driver.close()  # ends the tunnel, which waits for its connections


def test_a_proxy_that_refuses(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    with tunnel(b"407 Proxy Authentication Required") as (proxy, _):
        monkeypatch.setenv("https_proxy", proxy)
        with pytest.raises(ProviderError, match="the proxy refused") as caught:
            ask("https://scripted.invalid/v1")
    assert caught.value.reason == "connection"
    assert "p@ss" not in str(caught.value)


def test_an_unknown_kind_of_proxy(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("all_proxy", "gopher://user:hunter2@h:1")
    with pytest.raises(ConfigError, match="gopher") as caught:
        ask("http://scripted.invalid/v1")
    assert "hunter2" not in str(caught.value)


def test_which_hosts_go_through_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    assert proxy_for("https", "api.example.com") is None
    monkeypatch.setenv("HTTPS_PROXY", "proxy.example:3128")
    monkeypatch.setenv("NO_PROXY", "internal.example,10.0.0.0/8, .corp")
    assert proxy_for("https", "api.example.com") == "http://proxy.example:3128"
    for host in ("localhost", "127.0.0.1", "127.1.2.3", "::1", "internal.example", "10.1.2.3", "a.corp"):
        assert proxy_for("https", host) is None
    assert proxy_for("http", "api.example.com") is None
    monkeypatch.setenv("ALL_PROXY", "socks5://proxy.example")
    assert proxy_for("http", "api.example.com") == "socks5://proxy.example"


# -- keeping --------------------------------------------------------------------------------------------------------


def test_idle_connections_are_few_and_young() -> None:
    with ScriptedProvider("ok") as provider:
        connections = Connections(max_idle=2, keep_alive=60)
        url = parse_url(provider.base_url)
        used = [_connected(connections, provider) for _ in range(4)]
        for connection in used:
            connections.give_back(connection)
        assert [connection.http.is_closed() for connection in used] == [True, True, False, False]
        assert connections.take(url) is used[3]
        used[2].idle_since -= 120
        connections.give_back(used[3])
        assert used[2].http.is_closed()
        connections.close()
        assert used[3].http.is_closed()


def _connected(connections: Connections, provider: ScriptedProvider) -> Connection:
    target = parse_url(provider.base_url + "/models")
    connection = connections.take(target)
    connection.backend.exchange = Exchange(Interrupt(), Timeouts())
    response = connection.http.handle_request(httpcore2.Request("GET", target, headers={"host": "h"}))
    response.read()
    response.close()
    return connection
