"""From a URL to a server and what is said to it."""

from __future__ import annotations

import pytest

from hermes.base.errors import ConfigError
from hermes.base.http.address import Address, is_loopback, parse_url
from hermes.models.endpoint import Endpoint


def test_urls_in_the_form_that_is_sent() -> None:
    address, target = parse_url("https://bücher.example/v1/chät?q=a b&k=%20")
    assert address == Address("https", "xn--bcher-kva.example", 443)
    assert target == "/v1/ch%C3%A4t?q=a%20b&k=%20"
    assert parse_url("http://h:81") == (Address("http", "h", 81), "/")


@pytest.mark.parametrize(
    ("url", "authority"),
    [
        ("http://h/v1", "h"),
        ("http://h:80/v1", "h"),
        ("https://h/v1", "h"),
        ("http://h:443/v1", "h:443"),
        ("http://[::1]:8000/v1", "[::1]:8000"),
    ],
)
def test_a_port_that_goes_without_saying_is_not_said(url: str, authority: str) -> None:
    address, _ = parse_url(url)
    assert address.authority == authority
    assert address.origin == f"{url.partition(':')[0]}://{authority}"


@pytest.mark.parametrize(
    ("url", "path", "target"),
    [
        ("http+unix:///run/llm.sock/v1", "/run/llm.sock", "/v1"),
        ("unix:///run/llm.sock/v1", "/run/llm.sock", "/v1"),
        ("unix:/run/llm.sock/v1?key=1", "/run/llm.sock", "/v1?key=1"),
        ("http+unix:///run/my%20llm.socket/v1/a.sock", "/run/my llm.socket", "/v1/a.sock"),
        ("http+unix://%2Frun%2Fllm/v1", "/run/llm", "/v1"),
        ("http+unix:///run/llm.sock", "/run/llm.sock", "/"),
    ],
)
def test_socket_files(url: str, path: str, target: str) -> None:
    address, found = parse_url(url)
    assert (address.socket_path, found) == (path, target)
    assert address.authority == "localhost"
    assert address.origin == f"http+unix://{path}"


def test_an_operation_below_a_socket_file() -> None:
    endpoint = Endpoint("http+unix:///run/llm.sock/v1", "m")
    address, target = parse_url(endpoint.url("/chat/completions"))
    assert (address.socket_path, target) == ("/run/llm.sock", "/v1/chat/completions")


def test_a_url_that_names_no_socket_file() -> None:
    for url in ("http+unix:///run/llm/v1", "unix://", "http+unix://localhost/v1"):
        with pytest.raises(ConfigError, match=r"names no socket file: its name ends in \.sock"):
            Endpoint(url, "m")


def test_which_hosts_are_this_machine() -> None:
    for host in ("localhost", "127.0.0.1", "127.1.2.3", "::1"):
        assert is_loopback(host)
    for host in ("", "127.0.0.1.evil.example", "127.evil.example", "localhost.example", "10.0.0.1", "::2", "128.0.0.1"):
        assert not is_loopback(host)
