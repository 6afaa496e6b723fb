"""Whose certificates are trusted, directly and from an event loop."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest

from hermes.base.config import Config
from hermes.base.config.schema.sections import ModelConfig, ModelProviderConfig
from hermes.base.errors import ConfigError, ProviderError
from hermes.base.http.address import parse_url
from hermes.base.http.errors import ConnectError, explain
from hermes.base.http.tls import Certificates
from hermes.models.reply import Completion, normalise
from hermes.models.routing import endpoints_for
from hermes.testing import FaultServer, ScriptedProvider, text

Ask = Callable[..., Completion]


@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"])
def test_a_certificate_from_the_environment(
    ask: Ask, server_tls: ssl.SSLContext, certificate: str, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, certificate)
    with ScriptedProvider("secure", tls=server_tls) as provider:
        assert normalise(ask(provider.base_url)).content == "secure"
        assert normalise(ask(provider.base_url)).content == "secure"
        assert provider.connections == 1


def test_a_certificate_of_the_endpoint(ask: Ask, server_tls: ssl.SSLContext, certificate: str) -> None:
    with ScriptedProvider("secure", tls=server_tls) as provider:
        assert normalise(ask(provider.base_url, ca_bundle=certificate)).content == "secure"
        with pytest.raises(ProviderError, match="CERTIFICATE_VERIFY_FAILED"):  # the open connection is not its own
            ask(provider.base_url)


def test_an_unknown_certificate_is_refused(ask: Ask, server_tls: ssl.SSLContext) -> None:
    with (
        ScriptedProvider("secure", tls=server_tls) as provider,
        pytest.raises(ProviderError, match=r"SSL_CERT_FILE or ca_bundle") as caught,
    ):
        ask(provider.base_url)
    assert caught.value.reason == "connection"
    assert not caught.value.retryable  # the next handshake would end in the same way
    assert provider.requests == []


def test_a_server_that_speaks_only_http_2_is_named_as_such() -> None:
    error = ConnectError("[SSL: TLSV1_ALERT_NO_APPLICATION_PROTOCOL] tlsv1 alert no application protocol (_ssl.c:1006)")
    server, _ = parse_url("https://h/v1")
    assert "speaks only HTTP/2" in explain(error, server, "model.base_url")
    assert error.is_permanent


@pytest.mark.parametrize(("number", "is_permanent"), [(socket.EAI_NONAME, True), (socket.EAI_AGAIN, False)])
def test_a_host_that_does_not_exist_is_not_tried_again(number: int, is_permanent: bool) -> None:
    error = ConnectError("the name cannot be looked up")
    error.__cause__ = socket.gaierror(number, "no such name")
    assert error.is_permanent == is_permanent


def test_a_certificate_for_another_host(ask: Ask, server_tls: ssl.SSLContext, certificate: str) -> None:
    with ScriptedProvider("secure", tls=server_tls) as provider:
        url = provider.base_url.replace("127.0.0.1", "127.1")  # another name for the same
        with pytest.raises(ProviderError, match=r"mismatch.*the certificate is for another host"):
            ask(url, ca_bundle=certificate)
    assert provider.requests == []


def test_a_large_answer_and_request_over_tls(ask: Ask, server_tls: ssl.SSLContext, certificate: str) -> None:
    content = "word " * 100_000
    with ScriptedProvider(text(content, chunks=20), tls=server_tls) as provider:
        messages = [{"role": "user", "content": content}]
        assert normalise(ask(provider.base_url, ca_bundle=certificate, messages=messages)).content == content
        assert provider.requests[0].last_user_text == content


def test_an_answer_that_ends_with_a_secured_connection(ask: Ask, server_tls: ssl.SSLContext, certificate: str) -> None:
    """Many servers close without the goodbye that TLS has for it."""
    with FaultServer("half_chunk", tls=server_tls) as server:
        with pytest.raises(ProviderError, match="broke off") as caught:
            ask(server.base_url, ca_bundle=certificate)
        assert caught.value.reason == "truncated"


def test_a_file_that_is_no_use(ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    empty, missing = tmp_path / "empty.pem", tmp_path / "missing.pem"
    empty.write_text("")
    with FaultServer("no_tls") as server:
        with pytest.raises(ConfigError, match=r"ca_bundle names .*empty\.pem, which holds no certificates"):
            ask(server.base_url, ca_bundle=str(empty))
        monkeypatch.setenv("SSL_CERT_FILE", str(missing))
        with pytest.raises(ConfigError, match=r"SSL_CERT_FILE names .*missing\.pem, which cannot be read: No such"):
            ask(server.base_url)


def test_a_folder_of_certificates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))
    certificates = Certificates()
    context = certificates.context("")
    assert context.verify_mode == ssl.CERT_REQUIRED and context.check_hostname
    assert certificates.context("") is context
    monkeypatch.delenv("SSL_CERT_DIR")
    assert certificates.context("") is not context


def test_the_settings() -> None:
    config = Config(
        model=ModelConfig(provider="lab", default="m", ca_bundle="/own.pem"),
        providers={"lab": ModelProviderConfig(base_url="https://h/v1", ca_bundle="/lab.pem")},
    )
    assert endpoints_for(config, {})[0].ca_bundle == "/own.pem"
    config.model.ca_bundle = ""
    assert endpoints_for(config, {})[0].ca_bundle == "/lab.pem"
