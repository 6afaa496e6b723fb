"""Signing in, against a real authorization server: with a browser on this machine, and on another device."""

from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

from hermes.base.config import Config
from hermes.base.config.schema.sections import ModelProviderConfig, OAuthConfig
from hermes.base.errors import CredentialError
from hermes.base.http.client import HttpClient
from hermes.models.credentials.home_keys import sign_in_settings
from hermes.models.credentials.oauth import (
    AuthorizationServer as Client,
)
from hermes.models.credentials.oauth import DeviceCode, OAuthRefused, Tokens, authorization_server, is_confidential_url
from hermes.models.credentials.sign_in import challenge_of, sign_in_on_another_device, sign_in_with_browser
from support.authorization_server import CLIENT, AuthorizationServer, visit


@pytest.fixture
def client(server: AuthorizationServer, http: HttpClient) -> Client:
    return Client("lab", server.settings, http)


def in_background(action: Callable[[str], object]) -> Callable[[str], None]:
    """What a person does in a browser while the program waits."""
    return lambda address: threading.Thread(target=action, args=(address,), daemon=True).start()


def query_of(address: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}


def test_the_challenge_is_that_of_the_standard() -> None:
    assert challenge_of("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk") == "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"


# -- a browser on this machine --------------------------------------------------------------------------------------


def test_signing_in_with_a_browser(client: Client, server: AuthorizationServer) -> None:
    pages: list[tuple[int, str]] = []
    tokens = sign_in_with_browser(client, in_background(lambda address: pages.append(visit(address))))
    assert tokens.access_token in server.secrets and tokens.refresh_token in server.secrets
    assert tokens.expires_at is not None
    [asked], [form] = server.visits, server.asked("authorization_code")
    assert asked["response_type"] == "code" and asked["client_id"] == CLIENT and asked["scope"] == "models offline"
    assert asked["code_challenge_method"] == "S256" and asked["code_challenge"] == challenge_of(form["code_verifier"])
    assert len(form["code_verifier"]) >= 43 and len(asked["state"]) >= 32
    redirect = urlsplit(asked["redirect_uri"])
    assert (redirect.scheme, redirect.hostname, redirect.path) == ("http", "127.0.0.1", "/callback")
    assert form["redirect_uri"] == asked["redirect_uri"]
    assert "access-" not in repr(tokens) and "refresh-" not in repr(tokens)


def test_the_person_says_no(client: Client, server: AuthorizationServer) -> None:
    server.refusal = "access_denied"
    with pytest.raises(CredentialError, match=r"^lab: the sign-in was refused \(access_denied\)$"):
        sign_in_with_browser(client, in_background(visit))
    server.refusal = "server_error"
    with pytest.raises(CredentialError, match=r"^lab: the sign-in failed \(server_error\)$"):
        sign_in_with_browser(client, in_background(visit))
    assert server.asked("authorization_code") == []


def test_nobody_comes_back(client: Client) -> None:
    opened: list[str] = []
    with pytest.raises(CredentialError, match=r"no one signed in within 0\.1 s; try again, or with --device"):
        sign_in_with_browser(client, opened.append, timeout=0.1)
    address = urlsplit(query_of(opened[0])["redirect_uri"])
    with pytest.raises(ConnectionRefusedError), socket.create_connection((address.hostname, address.port or 0)):
        pass  # nothing listens there any more


def test_only_the_answer_with_our_state_from_our_address_counts(client: Client, server: AuthorizationServer) -> None:
    seen: dict[str, Any] = {}

    def act(address: str) -> None:
        query = query_of(address)
        target = query["redirect_uri"]
        ours = {"code": "stolen-code", "state": query["state"]}
        seen["no state"] = visit(f"{target}?code=stolen-code")
        seen["wrong state"] = visit(f"{target}?{urlencode(ours | {'state': 'guess'})}")
        seen["twice"] = visit(f"{target}?{urlencode(ours)}&state=guess")
        seen["other path"] = visit(f"{target}/x?{urlencode(ours)}")
        seen["other host"] = _visit_as(target, f"/callback?{urlencode(ours)}", "evil.example")
        seen["post"] = _visit_as(target, f"/callback?{urlencode(ours)}", "", "POST")
        seen["ours"] = visit(address)

    tokens = sign_in_with_browser(client, in_background(act))
    assert tokens.access_token in server.secrets
    assert [form["code"] for form in server.asked("authorization_code")] != ["stolen-code"]
    refused = ("no state", "wrong state", "twice", "other path", "other host")
    assert {name: seen[name][0] for name in refused} == dict.fromkeys(refused, 404)
    assert seen["post"][0] == 501
    assert all("stolen" not in text and "guess" not in text for _, text in seen.values())


def _visit_as(target: str, path: str, host: str, method: str = "GET") -> tuple[int, str]:
    parts = urlsplit(target)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)
    try:
        connection.request(method, path, headers={"host": host or parts.netloc})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def test_idle_connections_of_a_browser_do_not_hold_it_up(client: Client) -> None:
    idle: list[socket.socket] = []

    def act(address: str) -> None:
        parts = urlsplit(query_of(address)["redirect_uri"])
        idle.extend(socket.create_connection((parts.hostname, parts.port or 0)) for _ in range(3))
        visit(address)

    assert sign_in_with_browser(client, in_background(act), timeout=60).access_token
    for connection in idle:
        connection.close()


def test_a_code_that_the_server_does_not_take(client: Client, server: AuthorizationServer) -> None:
    def act(address: str) -> None:
        query = query_of(address)
        visit(f"{query['redirect_uri']}?{urlencode({'code': 'made-up-code', 'state': query['state']})}")

    with pytest.raises(OAuthRefused) as caught:
        sign_in_with_browser(client, in_background(act))
    assert str(caught.value) == "lab: the authorization server refused (invalid_grant: bad code <redacted>)"
    assert caught.value.code == "invalid_grant"


def test_the_query_of_an_address_is_kept(server: AuthorizationServer, http: HttpClient) -> None:
    settings = server.settings
    settings.authorization_url += "?tenant=a"
    settings.scopes = []
    address = Client("lab", settings, http).authorization_address("http://127.0.0.1:1/callback", "s", "c")
    assert address.startswith(f"{server.url}/authorize?tenant=a&response_type=code&")
    assert "scope" not in query_of(address)


# -- another device -------------------------------------------------------------------------------------------------


class Person:
    """Sees the code, and counts how long the program waits."""

    def __init__(self) -> None:
        self.codes: list[DeviceCode] = []
        self.waits: list[float] = []

    def sign_in(self, client: Client) -> Tokens:
        return sign_in_on_another_device(client, self.codes.append, wait=self.waits.append)


@pytest.fixture
def person() -> Person:
    return Person()


def test_signing_in_on_another_device(client: Client, server: AuthorizationServer, person: Person) -> None:
    server.device_errors = ["authorization_pending", "slow_down", "authorization_pending"]
    tokens = person.sign_in(client)
    assert tokens.access_token in server.secrets
    [code] = person.codes
    assert (code.user_code, code.address) == ("WDJB-MJHT", f"{server.url}/go")
    assert code.direct_address == f"{server.url}/go?code=WDJB-MJHT"
    assert code.device_code not in repr(code)
    assert person.waits == [1, 1, 6, 6]
    assert [form for path, form in server.forms if path == "/device"] == [
        {"client_id": CLIENT, "scope": "models offline"}
    ]


@pytest.mark.parametrize(
    ("error", "message"),
    [
        ("access_denied", "lab: the sign-in was refused"),
        ("expired_token", "lab: the code was not used in time; try again"),
        ("invalid_scope", "lab: the authorization server refused (invalid_scope: wait)"),
    ],
)
def test_a_sign_in_that_comes_to_nothing(
    client: Client, server: AuthorizationServer, person: Person, error: str, message: str
) -> None:
    server.device_errors = ["authorization_pending", error]
    with pytest.raises(CredentialError) as caught:
        person.sign_in(client)
    assert str(caught.value) == message
    assert person.waits == [1, 1]


def test_the_code_lapses_here_too(client: Client, server: AuthorizationServer, person: Person) -> None:
    server.device_answer = {"expires_in": "3", "interval": 1}
    server.device_errors = ["authorization_pending"] * 100
    with pytest.raises(CredentialError, match="the code was not used in time"):
        person.sign_in(client)
    assert person.waits == [1, 1, 1]


def test_a_server_that_does_not_answer_for_a_while(client: Client, server: AuthorizationServer) -> None:
    waits: list[float] = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        server.broken = (503, b"") if len(waits) < 4 else None

    assert sign_in_on_another_device(client, lambda _code: None, wait=wait).access_token
    assert waits == [1, 2, 4, 8]


def test_defaults_of_the_standard(client: Client, server: AuthorizationServer, person: Person) -> None:
    server.device_answer = {"interval": None, "expires_in": None, "verification_uri_complete": None}
    person.sign_in(client)
    assert (person.waits, person.codes[0].expires_in, person.codes[0].direct_address) == ([5], 900, "")


def test_a_device_answer_without_a_code(client: Client, server: AuthorizationServer, person: Person) -> None:
    server.device_answer = {"user_code": 5}
    with pytest.raises(CredentialError, match="has no device_code, user_code or verification_uri; check providers"):
        person.sign_in(client)


# -- what is configured ---------------------------------------------------------------------------------------------


def test_a_provider_without_settings(http: HttpClient) -> None:
    for config in (Config(), Config(providers={"lab": ModelProviderConfig(base_url="http://127.0.0.1:9/v1")})):
        assert sign_in_settings(config) == {}
        with pytest.raises(CredentialError, match=r"lab: how to sign in is not configured; set providers\.lab\.oauth"):
            authorization_server("lab", sign_in_settings(config), http)


def test_tokens_are_sent_encrypted_or_to_this_machine(http: HttpClient) -> None:
    for address, good in (
        ("https://login.example/token", True),
        ("http://127.0.0.1:8000/token", True),
        ("http://localhost/token", True),
        ("http://[::1]:9/token", True),
        ("http://login.example/token", False),
        ("http://127.0.0.1.evil.example/token", False),
        ("file:///etc/passwd", False),
        ("http://[bad", False),
    ):
        assert is_confidential_url(address) is good, address
        settings = OAuthConfig(client_id="c", token_url=address)
        if not good:
            with pytest.raises(CredentialError, match=r"providers\.lab\.oauth\.token_url must start with https://"):
                Client("lab", settings, http)
        else:
            Client("lab", settings, http)


def test_a_server_that_is_not_there(http: HttpClient) -> None:
    settings = OAuthConfig(client_id="c", token_url="http://127.0.0.1:9/token")
    with pytest.raises(CredentialError) as caught:
        Client("lab", settings, http).refresh("refresh-sentinel")
    assert str(caught.value).startswith("lab: cannot connect to http://127.0.0.1:9")
    assert "providers.lab.oauth in config.yaml" in str(caught.value)
    assert "model.base_url" not in str(caught.value) and "refresh-sentinel" not in str(caught.value)


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (200, b'{"access_token": ""}'),
        (200, b'{"access_token": "a\\nb"}'),
        (200, b'{"access_token": "\xc3\xbc"}'),
        (200, b'{"access_token": "secret-x", "token_type": "mac"}'),
        (200, b"access_token=secret-x&token_type=bearer"),
        (500, b'{"error": "secret-x"}'),
        (302, b""),
        (200, b'{"a": "' + b"x" * (2 * 1024 * 1024) + b'"}'),
    ],
)
def test_answers_that_are_none(client: Client, server: AuthorizationServer, status: int, body: bytes) -> None:
    server.broken = (status, body)
    with pytest.raises(CredentialError) as caught:
        client.refresh("refresh-sentinel")
    assert not isinstance(caught.value, OAuthRefused)
    assert "secret-x" not in str(caught.value) and "refresh-sentinel" not in str(caught.value)


def test_a_refusal_with_status_200_is_one(client: Client, server: AuthorizationServer) -> None:
    server.broken = (200, b'{"error": "authorization_pending"}')
    with pytest.raises(OAuthRefused) as caught:
        client.poll_device("d")
    assert caught.value.code == "authorization_pending"
