"""``hermes doctor`` about models: which one and why, where its key comes from, and what is wrong when none answers."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Generator
from pathlib import Path

import pytest

from hermes.base.config import Config, hermes_home
from hermes.base.config.schema.sections import ModelProviderConfig
from hermes.models.credentials.store import AuthFile, add_key
from hermes.models.endpoint import Endpoint, Timeouts
from hermes.surfaces.cli.doctor import model as model_checks
from hermes.surfaces.cli.doctor.model import probe
from hermes.surfaces.cli.setup.model.problems import is_among
from hermes.surfaces.cli.setup.model.setup import ModelSetup, Origins
from hermes.testing import ScriptedProvider, failure, text
from hermes.testing.scripted.replies import ScriptedReply
from support import CERTIFICATE, run_hermes
from support.doctor_rig import answering, examine, model_config, write_private_config
from support.model_server import model_server

KEY = "sk-doctor-0123456789abcdef"


@pytest.fixture
def dead_port() -> Generator[int]:
    """A port that nothing listens on, and that nobody else can take."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        yield sock.getsockname()[1]


# -- the choice and the key -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "env_file", "env", "why", "key"),
    [
        (model_config("http://127.0.0.1:1/v1"), "", {}, "chosen by model.base_url", "api_key in config.yaml"),
        (
            "model:\n  provider: groq\n  default: m\n",
            f"GROQ_API_KEY={KEY}\n",
            {},
            "chosen by model.provider",
            "GROQ_API_KEY in HOME/.env",
        ),
        (
            "model:\n  default: m\n",
            "",
            {"MISTRAL_API_KEY": KEY},
            "chosen by its key, MISTRAL_API_KEY in the environment",
            "MISTRAL_API_KEY in the environment",
        ),
        (
            "model:\n  default: m\n  base_url: http://127.0.0.1:1/v1\n  api_key: ${MY_KEY}\n",
            f"MY_KEY={KEY}\n",
            {},
            "chosen by model.base_url",
            "MY_KEY, which api_key in config.yaml names",
        ),
        (
            "model:\n  provider: mine\nproviders:\n  mine:\n    base_url: http://127.0.0.1:1/v1\n    model: m\n"
            f"    api_key: {KEY}\n",
            "",
            {},
            "chosen by model.provider",
            "providers.mine.api_key in config.yaml",
        ),
        (
            "model:\n  default: m\n",
            "CUSTOM_BASE_URL=http://127.0.0.1:1/v1\n",
            {},
            "chosen by CUSTOM_BASE_URL in HOME/.env",
            "none needed for custom",
        ),
    ],
    ids=["address", "env file", "environment", "reference", "named provider", "no key"],
)
def test_the_choice_and_where_its_key_comes_from(
    home: Path, workdir: Path, config: str, env_file: str, env: dict[str, str], why: str, key: str
) -> None:
    write_private_config(home, config)
    (home / ".env").write_text(env_file)
    (home / ".env").chmod(0o600)
    seen = examine(home, workdir, "model", "--offline", env=env)
    assert seen.code == 0, seen.output
    assert why.replace("HOME", str(home)) in seen.one("model", "ok")["detail"]
    assert key.replace("HOME", str(home)) in seen.one("key", "ok")["detail"]
    assert seen.one("provider", "skipped")["detail"] == "skipped (--offline)"
    assert KEY not in seen.output


def test_missing_keys_and_unusable_settings(home: Path, workdir: Path) -> None:
    write_private_config(
        home,
        "model:\n  provider: openrouter\n  default: m\n"
        "fallback_providers:\n  - {provider: groq, model: m}\n  - {provider: opnrouter, model: m}\n",
    )
    seen = examine(home, workdir, "model", "--offline")
    own, fallback = seen.about("key")
    assert (own["status"], own["fix"]) == ("broken", f"set OPENROUTER_API_KEY in {home}/.env")
    assert (fallback["status"], fallback["fix"]) == ("warning", f"set GROQ_API_KEY in {home}/.env")
    assert "did you mean 'openrouter'?" in seen.one("fallback 2", "warning")["fix"]
    write_private_config(home, "model:\n  base_url: ftp://somewhere/v1\n  default: m\n")
    assert "must start with http" in examine(home, workdir, "model").one("model", "broken")["detail"]


# -- what is in the way ---------------------------------------------------------------------------------------------


def ask(base_url: str, model: str = "scripted") -> tuple[str, str, str]:
    env = {"DEMO_API_KEY": KEY}
    config = Config(providers={"demo": ModelProviderConfig(base_url=base_url, key_env="DEMO_API_KEY")})
    with ModelSetup(Origins(hermes_home(), config, {}, {}, env)) as setup:
        found = probe(setup, Endpoint(base_url, model, "demo", KEY), "model")
    assert KEY not in found.detail + found.fix
    return found.status, found.detail, found.fix


def test_a_model_on_the_list_costs_no_completion() -> None:
    with ScriptedProvider("never asked") as provider:
        status, detail, _ = ask(provider.base_url)
        assert (status, provider.requests) == ("ok", [])
    assert detail.startswith(f"{provider.base_url} answers")


def test_a_server_without_a_list_is_asked_for_one_token() -> None:
    completion = {"id": "1", "choices": [{"message": {"content": "H"}, "finish_reason": "length"}]}
    for listing in ((404, b""), (405, b""), (200, b"<html>my server</html>")):
        with answering(lambda method, _, it=listing: (200, completion) if method == "POST" else it) as (url, requests):
            assert ask(url)[0] == "ok"
        assert requests == ["GET /v1/models", "POST /v1/chat/completions"]


def test_a_name_that_is_not_listed_is_tried_before_it_is_called_wrong() -> None:
    with ScriptedProvider("I answer to it", model="scripted-2026-01-01") as provider:
        assert ask(provider.base_url)[0] == "ok"
        assert provider.requests[0].body["max_tokens"] == 1
    with ScriptedProvider(failure(404, "no such model", code="model_not_found"), model="scripted-large") as provider:
        status, detail, fix = ask(provider.base_url, "scripted-lage")
    assert status == "broken"
    assert "does not list the model 'scripted-lage'" in detail
    assert fix.startswith("did you mean 'scripted-large'?")


def test_the_server_says_no() -> None:
    replies: list[tuple[int, object, str, str, str]] = [
        (
            401,
            {"error": {"message": f"bad key {KEY}"}},
            "broken",
            "refused the key (DEMO_API_KEY in the environment): HTTP 401",
            "",
        ),
        (403, {"error": {"message": "no"}}, "broken", "HTTP 403", "put a key that is valid there"),
        (402, {"error": {"code": "insufficient_quota"}}, "broken", "no credit", "add credit"),
        (404, {}, "broken", "nothing there answers for model scripted (HTTP 404)", "check the name of the model"),
        (429, {"error": {"message": "slow down"}}, "warning", "rate limit", "wait a little"),
        (503, {}, "warning", "overloaded", "try again later"),
        (
            500,
            {"error": {"message": "oops"}},
            "broken",
            "the server failed (HTTP 500): oops",
            "check the base_url of demo",
        ),
        (307, {}, "broken", "redirects", "redirects are not followed"),
    ]
    for code, body, status, detail, fix in replies:
        with answering(lambda _method, _path, answer=(code, body): answer) as (url, _):
            found = ask(url)
        assert found[0] == status and detail in found[1] and fix in found[2], found


def test_the_network_says_no(dead_port: int) -> None:
    status, detail, fix = ask(f"http://127.0.0.1:{dead_port}/v1")
    assert (status, "the connection was refused" in detail) == ("broken", True)
    assert fix.startswith("start the server")
    _, detail, _ = ask("http://no-such-host.invalid/v1")
    assert "the name no-such-host.invalid does not resolve" in detail


def test_tls_that_does_not_match() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    with ScriptedProvider("never", tls=context) as provider:
        _, detail, fix = ask(provider.base_url)
        assert "TLS: its certificate is not trusted" in detail and "SSL_CERT_FILE" in fix
        plain = ask(provider.base_url.replace("https:", "http:"))
        assert plain[0] == "broken"
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=refuse_in_plain_text, args=(listener,))
        server.start()
        _, detail, fix = ask(f"https://127.0.0.1:{listener.getsockname()[1]}/v1")
        server.join()
    assert "TLS: the connection cannot be secured" in detail and "use http://" in fix


def refuse_in_plain_text(listener: socket.socket) -> None:
    """What a server without TLS says to the first words of a client that wants it."""
    visitor, _ = listener.accept()
    with visitor:
        visitor.recv(4096)
        visitor.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


def test_a_server_that_never_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_checks, "PROBE_TIMEOUTS", Timeouts(1, 0.2, 0.2, 1))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        _, detail, _ = ask(f"http://127.0.0.1:{silent.getsockname()[1]}/v1")
    assert "no answer within 0.2 s (first byte)" in detail


def test_proxies(dead_port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", f"http://me:proxy-password-1@127.0.0.1:{dead_port}")
    _, detail, fix = ask("http://model.example/v1")
    assert f"refused (through the proxy http://127.0.0.1:{dead_port})" in detail and "HTTPS_PROXY" in fix
    monkeypatch.setenv("https_proxy", f"http://me:proxy-password-1@127.0.0.1:{dead_port}")
    with answering(lambda _method, _path: (407, b"")) as (url, _):
        monkeypatch.setenv("https_proxy", url.removesuffix("/v1"))
        _, detail, _ = ask("https://model.example/v1")
    assert "the proxy refused" in detail
    monkeypatch.setenv("http_proxy", "gopher://127.0.0.1")
    assert "proxy URLs start with" in ask("http://model.example/v1")[1]


def test_all_models_are_asked_and_a_dead_fallback_breaks_nothing(home: Path, workdir: Path, dead_port: int) -> None:
    def reply(_request: object) -> ScriptedReply:
        return text("never asked")

    with ScriptedProvider(reply) as provider:
        fallback = (
            f"fallback_providers:\n  - {{provider: custom, model: m, base_url: 'http://127.0.0.1:{dead_port}/v1'}}\n"
        )
        write_private_config(home, model_config(provider.base_url, fallback))
        seen = examine(home, workdir, "model")
    assert seen.code == 0
    assert [finding["status"] for finding in seen.about("model")] == ["ok", "ok"]
    assert [finding["status"] for finding in seen.about("fallback 1")] == ["ok", "warning"]


def test_a_dead_model_is_broken(home: Path, workdir: Path, dead_port: int) -> None:
    write_private_config(home, model_config(f"http://127.0.0.1:{dead_port}/v1"))
    seen = examine(home, workdir, "model")
    assert seen.code == 1
    assert [finding["status"] for finding in seen.about("model")] == ["ok", "broken"]


def test_names_of_models() -> None:
    assert is_among("llama3.2", ["qwen:latest", "llama3.2:latest"])
    assert is_among("gemini-pro", ["models/gemini-pro"])
    assert not is_among("pro", ["gemini-pro"])


# -- stored keys ----------------------------------------------------------------------------------------------------


def test_a_stored_key_is_used_and_left_as_it_was(home: Path, workdir: Path) -> None:
    with model_server(key=KEY) as server:
        write_private_config(home, f"model: {{default: alpha, base_url: '{server.base_url}'}}\n")
        add_key(AuthFile(home), "custom", KEY, "work")
        before = (home / "auth.json").read_bytes()
        seen = examine(home, workdir, "model")
        assert [finding["status"] for finding in seen.about("model")] == ["ok", "ok"]
        assert seen.one("key", "ok")["detail"] == "of custom: stored by hermes auth"
        assert seen.one("stored keys", "ok")["detail"] == "1 credential for custom"
        server.key = "another"
        assert "refused the key ('work' of hermes auth)" in examine(home, workdir, "model").about("model")[1]["detail"]
    assert (home / "auth.json").read_bytes() == before
    assert KEY not in seen.output


def test_a_damaged_file_of_keys_is_told(home: Path, workdir: Path) -> None:
    write_private_config(home, model_config("http://127.0.0.1:1/v1", "agent: {api_max_retries: 0}\n"))
    (home / "auth.json").write_text("{ not json")
    (home / "auth.json").chmod(0o600)
    found = examine(home, workdir, "model", "--offline").one("stored keys", "warning")
    assert found["detail"].startswith(f"{home}/auth.json is damaged") and "auth.json.corrupt" in found["detail"]
    done = run_hermes("chat", "-q", "hi", home=home, cwd=workdir, timeout=60)
    assert done.stderr.count("auth.json is damaged") == 1
