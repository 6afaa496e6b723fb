"""``hermes model test``: one request the way a conversation sends it, and the one thing that is in the way."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from hermes.models.credentials.oauth import Tokens
from hermes.models.credentials.store import AuthFile, add_key, add_sign_in
from hermes.models.endpoint import Timeouts
from hermes.surfaces.cli.main import main
from hermes.surfaces.cli.setup.model import show
from hermes.testing import FaultServer, ScriptedProvider, failure
from hermes.testing.proxies import connect_proxy
from support import CERTIFICATE
from support.model_server import ModelServer, model_server

KEY = "sk-sentinel-0123456789abcdef"

Output = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """What ``.env`` adds to the environment ends with the test."""
    monkeypatch.setattr(os, "environ", os.environ.copy())


@pytest.fixture
def server() -> Generator[ModelServer]:
    with model_server(key=KEY) as running:
        yield running


def use(home: Path, base_url: str, model: str = "alpha", more: str = "") -> None:
    home.mkdir(parents=True, exist_ok=True)
    (home / "config.yaml").write_text(
        f"model: {{provider: custom, default: '{model}', base_url: '{base_url}', key_env: LAB_TOKEN}}\n{more}"
    )
    (home / ".env").write_text(f"LAB_TOKEN={KEY}\n")
    (home / ".env").chmod(0o600)


def problem(capsys: Output, *words: str) -> tuple[str, str]:
    """The kind of problem, and the line about it."""
    capsys.readouterr()
    assert main(["model", "test", *words, "--json"]) == 1
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert not found["ok"] and found["latency_ms"] is None
    assert main(["model", "test", *words]) == 1
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.count("\n") == 1
    assert KEY not in captured.err + repr(found)
    return found["problem"], captured.err


def test_a_model_that_works(home: Path, capsys: Output) -> None:
    with ScriptedProvider("OK", model="scripted") as provider:
        use(home, provider.base_url, "scripted")
        assert main(["model", "test"]) == 0
        assert capsys.readouterr().out.startswith("scripted at custom works: it answered in ")
        assert main(["model", "test", "custom:elsewise", "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert (found["ok"], found["model"], found["answered_as"]) == (True, "elsewise", "scripted")
        first = provider.requests[0]
        assert (first.body["model"], first.body["stream"], first.body["max_tokens"]) == ("scripted", True, 16)
        assert first.headers["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize("api_mode", ["anthropic_messages", "codex_responses"])
def test_every_format_is_spoken(home: Path, capsys: Output, api_mode: str) -> None:
    with ScriptedProvider("OK") as provider:
        use(home, provider.base_url, "scripted", f"providers: {{custom: {{api_mode: {api_mode}}}}}\n")
        assert main(["model", "test", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["api_mode"] == api_mode


def test_a_server_that_speaks_another_format(home: Path, capsys: Output, server: ModelServer) -> None:
    use(home, server.base_url, more="providers: {custom: {api_mode: anthropic_messages}}\n")
    kind, line = problem(capsys)
    assert kind == "url" and "check model.base_url, api_mode and what the server logs" in line


def test_the_next_stored_key_is_tried(home: Path, capsys: Output, server: ModelServer) -> None:
    use(home, server.base_url)
    (home / ".env").write_text("LAB_TOKEN=sk-refused-0123456789\n")
    add_key(AuthFile(home), "custom", KEY, "good")
    assert main(["model", "test"]) == 0
    assert server.keys == ["sk-refused-0123456789", KEY]
    server.key = "neither-of-them"
    assert main(["model", "test"]) == 1
    assert "refused the key ('good' of hermes auth)" in capsys.readouterr().err
    assert main(["model", "test"]) == 1  # that one rests now, and the one in .env is asked alone
    assert "refused the key (LAB_TOKEN in " in capsys.readouterr().err


def test_keys_that_all_rest_and_a_sign_in_that_has_expired(home: Path, capsys: Output, server: ModelServer) -> None:
    use(home, server.base_url)
    (home / "config.yaml").write_text(
        f"model: {{provider: lab, default: alpha}}\nproviders: {{lab: {{base_url: '{server.base_url}'}}}}\n"
    )
    file = AuthFile(home)
    for number in range(2):
        add_key(file, "lab", f"sk-refused-{number}-0123456789", str(number))
    assert main(["model", "test"]) == 1
    assert "refused the key" in capsys.readouterr().err
    kind, line = problem(capsys)
    assert kind == "rate_limit" and "lab: all keys are cooling down, the first is back in 5 min" in line
    file.path.unlink()
    add_sign_in(file, "lab", Tokens("access-of-yesterday", "", time.time() - 60))
    kind, line = problem(capsys)
    assert kind == "key" and "hermes auth login lab" in line and "None" not in line


def test_the_key(home: Path, capsys: Output, server: ModelServer) -> None:
    use(home, server.base_url)
    server.key = "another"
    kind, line = problem(capsys)
    assert kind == "key" and f"refused the key (LAB_TOKEN in {home}/.env): HTTP 401" in line
    (home / ".env").write_text("")
    del os.environ["LAB_TOKEN"]
    kind, line = problem(capsys)
    assert kind == "key" and "refused a request without a key: HTTP 401" in line and "hermes auth add custom" in line


def test_the_model_name(home: Path, capsys: Output, server: ModelServer) -> None:
    use(home, server.base_url, "alfa")
    kind, line = problem(capsys)
    assert kind == "model" and "does not list the model 'alfa'; did you mean 'alpha'?" in line


def test_the_address(home: Path, capsys: Output, server: ModelServer) -> None:
    server.refusal = (404, {"detail": "Not Found"})
    use(home, server.base_url)
    kind, line = problem(capsys)
    assert kind == "url" and "(HTTP 404)" in line and "/v1" in line


def test_what_the_server_says_about_it_is_not_lost(home: Path, capsys: Output, server: ModelServer) -> None:
    use(home, server.base_url)
    server.refusal = (403, {"error": {"message": "This country is not supported", "code": 403}})
    assert "HTTP 403: This country is not supported; " in problem(capsys)[1]
    server.refusal = (404, {"error": {"message": "No endpoints match your data policy", "code": 404}})
    assert "(HTTP 404): No endpoints match your data policy; " in problem(capsys)[1]


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (402, {"error": {"code": "insufficient_quota"}}, "billing"),
        (429, {"error": {"message": "slow down"}}, "rate_limit"),
        (503, {}, "overloaded"),
        (500, {"error": {"message": f"oops {KEY}"}}, "server"),
        (400, {"error": {"message": "no"}}, "other"),
        (405, {}, "url"),
        (407, {}, "proxy"),
    ],
)
def test_the_server_says_no(
    home: Path, capsys: Output, server: ModelServer, status: int, body: dict[str, Any], kind: str
) -> None:
    server.refusal = (status, body)
    use(home, server.base_url)
    assert problem(capsys)[0] == kind


def test_one_attempt_is_enough(home: Path) -> None:
    with ScriptedProvider(failure(503, "busy")) as provider:
        use(home, provider.base_url)
        assert main(["model", "test"]) == 1
        assert len(provider.requests) == 1


def test_the_network(home: Path, capsys: Output) -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        use(home, f"http://127.0.0.1:{sock.getsockname()[1]}/v1")
        kind, line = problem(capsys)
    assert kind == "connection" and "the connection was refused; start the server" in line
    use(home, "http://no-such-host.invalid/v1")
    kind, line = problem(capsys)
    assert kind == "dns" and "the name no-such-host.invalid does not resolve" in line


def test_tls(home: Path, capsys: Output, server: ModelServer) -> None:
    with model_server(key=KEY, tls=True) as secure:
        use(home, secure.base_url)
        kind, line = problem(capsys)
        assert kind == "tls" and "its certificate is not trusted" in line and "SSL_CERT_FILE" in line
        use(home, secure.base_url, more=f"providers: {{custom: {{ca_bundle: '{CERTIFICATE}'}}}}\n")
        assert main(["model", "test"]) == 0
    use(home, server.base_url.replace("http:", "https:"))
    kind, line = problem(capsys)
    assert kind == "tls" and "use http:// in model.base_url" in line


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ("redirect", "url"),
        ("web_page", "url"),
        ("no_http", "url"),
        ("long_line", "url"),
        ("gzip_bomb", "url"),
        ("half_chunk", "connection"),
        ("reset", "connection"),
        ("empty_body", "connection"),
        ("echoed_key", "key"),
        ("error_as_success", "overloaded"),
        ("cut_error", "server"),
        ("no_tls", "tls"),
    ],
)
def test_a_server_that_misbehaves(home: Path, capsys: Output, fault: str, kind: str) -> None:
    with FaultServer(fault) as misbehaving:
        use(home, misbehaving.base_url)
        assert problem(capsys)[0] == kind


def test_a_socket_file_that_is_not_there(home: Path, capsys: Output) -> None:
    use(home, f"http+unix://{home}/none.sock/v1")
    kind, line = problem(capsys)
    assert kind == "connection" and "check the socket file in model.base_url" in line


def test_the_proxy(home: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    with connect_proxy(status=b"407 Proxy Authentication Required") as proxy:
        monkeypatch.setitem(os.environ, "https_proxy", f"http://me:{KEY}@{proxy.address}")
        use(home, "https://model.example/v1")
        kind, line = problem(capsys)
    assert kind == "proxy" and "the proxy refused" in line
    kind, line = problem(capsys)  # now nobody listens there
    assert kind == "proxy" and "check the proxy in HTTPS_PROXY" in line


def test_the_time(home: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(show, "_FIRST_ANSWER", Timeouts(1, 0.2, 0.2, 1))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        use(home, f"http://127.0.0.1:{silent.getsockname()[1]}/v1")
        kind, line = problem(capsys)
    assert kind == "timeout" and "no answer within 0.2 s (first byte)" in line


def test_the_setup(home: Path, capsys: Output) -> None:
    kind, line = problem(capsys)
    assert kind == "setup" and "no model is set up" in line
    use(home, "ftp://somewhere/v1")
    assert "must start with http" in problem(capsys)[1]


def test_a_provider_that_a_plugin_adds(home: Path, capsys: Output) -> None:
    with ScriptedProvider("OK") as provider:
        folder = home / "plugins" / "labbench"
        folder.mkdir(parents=True)
        (folder / "plugin.yaml").write_text("name: labbench\nversion: '1'\nkind: model-provider\n")
        (folder / "__init__.py").write_text(
            "def register(ctx):\n"
            f"    ctx.register_model_provider({{'name': 'labbench', 'base_url': {provider.base_url!r}, "
            "'default_model': 'scripted'})\n"
        )
        (home / "config.yaml").write_text("model: {provider: labbench}\nplugins: {enabled: [labbench]}\n")
        code = main(["model", "test"])
        captured = capsys.readouterr()
        assert (code, captured.err) == (0, ""), captured.err
        assert captured.out.startswith("scripted at labbench works")
