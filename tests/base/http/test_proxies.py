"""Proxies by the usual environment variables, directly and from an event loop."""

from __future__ import annotations

import ssl
from collections.abc import Callable

import pytest

from hermes.base.errors import ConfigError, ProviderError
from hermes.base.http.proxy import parse_proxy, proxy_for
from hermes.models.endpoint import Timeouts
from hermes.models.reply import Completion, normalise
from hermes.testing import FaultServer, ScriptedProvider
from hermes.testing.proxies import connect_proxy, socks_proxy
from support.drivers import AnyDriver

Ask = Callable[..., Completion]
LOGIN = "us%65r:p%40ss"


def test_plain_requests_go_to_the_proxy_whole(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    with ScriptedProvider("by proxy") as proxy:
        monkeypatch.setenv("http_proxy", proxy.base_url.removesuffix("/v1").replace("http://", f"http://{LOGIN}@"))
        assert normalise(ask("http://scripted.invalid/v1")).content == "by proxy"
        assert normalise(ask("http://scripted.invalid/v1")).content == "by proxy"
        first, second = proxy.requests
        assert first.path == "http://scripted.invalid/v1/chat/completions"
        assert first.headers["host"] == "scripted.invalid"
        assert second.headers["proxy-authorization"] == "Basic dXNlcjpwQHNz"
        assert proxy.connections == 1


@pytest.mark.parametrize("variable", ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"])
def test_secure_requests_go_through_a_tunnel(
    driver: AnyDriver,
    ask: Ask,
    server_tls: ssl.SSLContext,
    certificate: str,
    monkeypatch: pytest.MonkeyPatch,
    variable: str,
) -> None:
    with ScriptedProvider("tunnelled", tls=server_tls) as provider, connect_proxy() as proxy:
        monkeypatch.setenv(variable, f"http://{LOGIN}@{proxy.address}")
        url = provider.base_url.replace("127.0.0.1", "scripted.invalid")
        for _ in range(2):
            assert normalise(ask(url, ca_bundle=certificate)).content == "tunnelled"
        [asked] = proxy.asked
        assert asked.startswith(b"CONNECT scripted.invalid:")
        assert b"proxy-authorization: basic dxnlcjpwqhnz" in asked.lower()
        assert provider.requests[0].headers.get("proxy-authorization") is None
        driver.close()  # ends the proxy's threads, which wait for their connections


REFUSALS = [
    (b"407 Proxy Authentication Required", "refused the login in the proxy URL"),
    (b"403 Forbidden", "it answered HTTP 403"),
    (b"nonsense", "does not answer in HTTP"),
]


@pytest.mark.parametrize(("status", "says"), REFUSALS)
def test_a_proxy_that_refuses(ask: Ask, monkeypatch: pytest.MonkeyPatch, status: bytes, says: str) -> None:
    with connect_proxy(status) as proxy:
        monkeypatch.setenv("https_proxy", f"http://{LOGIN}@{proxy.address}")
        with pytest.raises(ProviderError, match=r"the proxy did not connect to https://scripted\.invalid: ") as caught:
            ask("https://scripted.invalid/v1")
    assert caught.value.reason == "connection"
    assert says in str(caught.value)
    assert "p@ss" not in str(caught.value) and "p%40ss" not in str(caught.value)


def test_a_proxy_that_is_not_there(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    with connect_proxy() as proxy:
        gone = proxy.address
    monkeypatch.setenv("https_proxy", f"http://{LOGIN}@{gone}")
    with pytest.raises(ProviderError, match=f"the proxy {gone}: .*refused; check the proxy in HTTPS_PROXY") as caught:
        ask("https://scripted.invalid/v1")
    assert caught.value.reason == "connection"
    assert "p@ss" not in str(caught.value)


def test_a_proxy_that_never_answers(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    with FaultServer("silence") as proxy:
        monkeypatch.setenv("https_proxy", proxy.base_url.removesuffix("/v1"))
        with pytest.raises(ProviderError, match="timeout: connect"):
            ask("https://scripted.invalid/v1", timeouts=Timeouts(connect=0.1))


@pytest.mark.parametrize("scheme", ["socks5", "socks5h"])
@pytest.mark.parametrize("login", ["", "user:p@ss"])
def test_any_request_goes_through_a_socks_proxy(
    driver: AnyDriver, ask: Ask, monkeypatch: pytest.MonkeyPatch, scheme: str, login: str
) -> None:
    with ScriptedProvider("by socks") as provider, socks_proxy(login.encode()) as proxy:
        monkeypatch.setenv("ALL_PROXY", f"{scheme}://{f'{LOGIN}@' if login else ''}{proxy.address}")
        url = provider.base_url.replace("127.0.0.1", "scripted.invalid")
        for _ in range(2):
            assert normalise(ask(url)).content == "by socks"
        assert [asked.partition(b":")[0] for asked in proxy.asked] == [b"scripted.invalid"]
        assert provider.requests[0].path == "/v1/chat/completions"
        driver.close()  # ends the proxy's threads, which wait for their connections


SOCKS_REFUSALS = [
    (b"", f"socks5://{LOGIN}@", "scripted.invalid", "it wants another kind of login"),
    (b"a:b", f"socks5://{LOGIN}@", "scripted.invalid", "it refused the login"),
    (b"", "socks5://", "forbidden.invalid", "its rules forbid it"),
]


@pytest.mark.parametrize(("login", "prefix", "host", "says"), SOCKS_REFUSALS)
def test_a_socks_proxy_that_refuses(
    ask: Ask, monkeypatch: pytest.MonkeyPatch, login: bytes, prefix: str, host: str, says: str
) -> None:
    with socks_proxy(login) as proxy:
        monkeypatch.setenv("ALL_PROXY", f"{prefix}{proxy.address}")
        with pytest.raises(ProviderError, match=says) as caught:
            ask(f"http://{host}/v1")
    assert "p@ss" not in str(caught.value)


def test_a_web_server_in_the_place_of_a_socks_proxy(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    with connect_proxy() as proxy:
        monkeypatch.setenv("ALL_PROXY", f"socks5://{proxy.address}")
        with pytest.raises(ProviderError, match="timeout: connect"):  # it waits for more of the request
            ask("http://scripted.invalid/v1", timeouts=Timeouts(connect=0.1))


@pytest.mark.parametrize("url", ["gopher://user:hunter2@h:1", "http://user:hunter2@", "http://user:hunter2@h:port"])
def test_a_proxy_url_that_cannot_be_used(ask: Ask, monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("all_proxy", url)
    with pytest.raises(ConfigError, match=r"proxy URLs? ") as caught:
        ask("http://scripted.invalid/v1")
    assert "hunter2" not in str(caught.value)


def test_tls_to_a_proxy_and_through_it_is_too_much(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", f"https://{LOGIN}@proxy.invalid")
    with pytest.raises(ConfigError, match=r"https://proxy\.invalid:443, which cannot carry https:// requests"):
        ask("https://scripted.invalid/v1")


def test_plain_requests_through_a_secured_proxy(
    ask: Ask, server_tls: ssl.SSLContext, certificate: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ScriptedProvider("by proxy", tls=server_tls) as proxy:
        monkeypatch.setenv("http_proxy", proxy.base_url.removesuffix("/v1"))
        assert normalise(ask("http://scripted.invalid/v1", ca_bundle=certificate)).content == "by proxy"
        assert proxy.requests[0].path == "http://scripted.invalid/v1/chat/completions"


def test_a_password_is_in_no_representation() -> None:
    assert "hunter2" not in repr(parse_proxy("http://user:hunter2@h:1"))


def test_which_hosts_go_through_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    assert proxy_for("https", "api.example.com") is None
    monkeypatch.setenv("HTTPS_PROXY", "proxy.example:3128")
    monkeypatch.setenv("NO_PROXY", "internal.example,10.0.0.0/8, .corp")
    assert proxy_for("https", "api.example.com") == "http://proxy.example:3128"
    for host in ("localhost", "127.0.0.1", "127.1.2.3", "::1", "internal.example", "10.1.2.3", "a.corp"):
        assert proxy_for("https", host) is None
    # A name that only begins like an address of this machine is somebody else's.
    assert proxy_for("https", "127.0.0.1.evil.example") == "http://proxy.example:3128"
    assert proxy_for("http", "api.example.com") is None
    monkeypatch.setenv("ALL_PROXY", "socks5://proxy.example")
    assert proxy_for("http", "api.example.com") == "socks5://proxy.example"
