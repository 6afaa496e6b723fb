"""Bad input: wrong types, limits, unsupported fields, other methods, web pages; each answered in OpenAI's shape."""

from __future__ import annotations

import base64
import socket
from collections.abc import Generator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from hermes.base.errors import HermesError
from hermes.base.http_server import server as http_server
from hermes.base.http_server.listen_address import ListenAddress
from hermes.base.http_server.principals import Principals
from hermes.surfaces.openai_api.serve import serve_until
from hermes.testing import RecordedRequest, ScriptedProvider, ScriptedReply, text
from support.a2a_rig import UNUSED_TLS
from support.api_rig import ServedApi, answer_of, served_api
from support.configured import configured_host

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def reply(request: RecordedRequest) -> ScriptedReply:
    return text("fine")


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    home, workdir = tmp_path_factory.mktemp("home"), tmp_path_factory.mktemp("work")
    return home, workdir


@pytest.fixture(scope="module")
def provider() -> Generator[ScriptedProvider]:
    with ScriptedProvider(reply) as found:
        yield found


@pytest.fixture(scope="module")
def api(places: tuple[Path, Path], provider: ScriptedProvider) -> Generator[ServedApi]:
    with served_api(*places, provider, max_body_bytes=200_000) as served:
        yield served


USER = {"role": "user", "content": "hello"}


@pytest.mark.parametrize(
    ("path", "document", "param", "words"),
    [
        ("/chat/completions", {}, "messages", "missing required field"),
        ("/chat/completions", {"messages": []}, "messages", "is empty"),
        ("/chat/completions", {"messages": "hello"}, "messages", "expected `array`, got `str`"),
        ("/chat/completions", {"messages": [1]}, "messages[0]", "expected `object`, got `int`"),
        ("/chat/completions", {"messages": [{"role": "boss"}]}, "messages[0].role", "found 'boss'"),
        ("/chat/completions", {"messages": [{"role": "assistant", "content": "x"}]}, "messages", "one of the user"),
        ("/chat/completions", {"messages": [{"role": "user", "content": " "}]}, "messages", "is empty"),
        ("/chat/completions", {"messages": [{"role": "user", "content": 7}]}, "messages[0].content", "found int"),
        (
            "/chat/completions",
            {"messages": [{"role": "user", "content": [{"type": "input_audio"}]}]},
            "messages[0].content[0].type",
            "allowed: text and image_url",
        ),
        (
            "/chat/completions",
            {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "file:///etc"}}]}]},
            "messages[0].content[0].image_url",
            "data: URL",
        ),
        (
            "/chat/completions",
            {
                "messages": [
                    {"role": "user", "content": [{"type": "image_url", "image_url": "data:image/png;base64,AAAA"}]}
                ]
            },
            "image_url",
            "not a PNG",
        ),
        (
            "/chat/completions",
            {
                "messages": [
                    {"role": "user", "content": [{"type": "image_url", "image_url": "http://127.0.0.1:9/x.png"}]}
                ]
            },
            "image_url",
            "cannot be fetched",
        ),
        ("/chat/completions", {"messages": [USER], "n": 2}, "n", "only 1 is allowed"),
        ("/chat/completions", {"messages": [USER], "stream": "yes"}, "stream", "expected `bool | null`"),
        ("/chat/completions", {"messages": [USER], "model": 3}, "model", "expected `str`"),
        ("/chat/completions", {"messages": [USER], "temperature": "hot"}, "temperature", "expected `float | null`"),
        ("/chat/completions", {"messages": [USER], "tools": [{"type": "function"}]}, "tools", "leave tools out"),
        ("/chat/completions", {"messages": [USER], "modalities": ["audio"]}, "modalities", "only text"),
        ("/chat/completions", {"messages": [USER], "stream_options": {}}, "stream_options", "only allowed with stream"),
        (
            "/chat/completions",
            {"messages": [USER], "response_format": {"type": "xml"}},
            "response_format",
            "allowed: text, json_object and json_schema",
        ),
        ("/chat/completions", [], None, "expected `object`, got `array`"),
        ("/responses", {}, "input", "missing required field"),
        ("/responses", {"input": 5}, "input", "expected `str | array`"),
        (
            "/responses",
            {"input": [{"role": "user", "content": "x"}], "text": {"format": 1}},
            "text.format",
            "an object",
        ),
        ("/runs", {"input": []}, "input", "is empty"),
    ],
)
def test_mistakes_are_named(api: ServedApi, path: str, document: Any, param: str | None, words: str) -> None:
    refused = api.post(path, document)
    error = refused.json()["error"]
    assert (refused.status_code, error["type"], error["param"]) == (400, "invalid_request_error", param), error
    assert words in error["message"]


@pytest.mark.parametrize("body", [b"{", b"", b"\xff", b"[" * 100_000, b'{"messages": NaN}'])
def test_what_is_not_json_is_refused(api: ServedApi, body: bytes) -> None:
    refused = api.send("POST", "/chat/completions", content=body, headers={"content-type": "application/json"})
    assert refused.status_code == 400, refused.text
    assert refused.json()["error"]["type"] == "invalid_request_error"


def test_a_long_body_is_refused_with_and_without_its_length(api: ServedApi) -> None:
    json = {"content-type": "application/json"}
    for content in (b" " * 200_001, iter([b" " * 200_001])):
        refused = api.send("POST", "/chat/completions", content=content, headers=json)
        assert (refused.status_code, refused.json()["error"]["code"]) == (413, "request_too_large")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nothing", 404),
        ("GET", "/chat/completions", 405),
        ("DELETE", "/models", 405),
        ("GET", "/models/gpt-9", 404),
        ("GET", "/responses/resp_none", 404),
        ("DELETE", "/responses/resp_none", 404),
        ("GET", "/runs/run_none/events", 404),
        ("POST", "/runs/run_none/stop", 404),
    ],
)
def test_other_paths_and_methods(api: ServedApi, method: str, path: str, status: int) -> None:
    refused = api.send(method, path)
    assert refused.status_code == status
    assert set(refused.json()["error"]) == {"message", "type", "param", "code"}


def test_another_content_type_is_refused(api: ServedApi) -> None:
    sent = api.send("POST", "/chat/completions", content=b'{"messages": []}', headers={"content-type": "text/plain"})
    assert sent.status_code == 415
    assert "send application/json" in sent.json()["error"]["message"]


@pytest.mark.parametrize(
    "headers",
    [{"origin": "https://evil.example.org"}, {"host": "evil.example.org"}, {"sec-fetch-site": "cross-site"}],
)
def test_without_a_key_web_pages_are_refused(api: ServedApi, headers: dict[str, str]) -> None:
    refused = api.chat("hello", headers=headers)
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "key_required")


def test_an_image_reaches_the_model(api: ServedApi, provider: ScriptedProvider) -> None:
    url = f"data:image/png;base64,{PIXEL}"
    parts = [{"type": "text", "text": "see"}, {"type": "image_url", "image_url": {"url": url}}]
    assert answer_of(api.post("/chat/completions", {"messages": [{"role": "user", "content": parts}]})) == "fine"
    content = str(provider.requests[-1].messages)
    assert "see" in content
    assert base64.b64decode(PIXEL)[:4] == b"\x89PNG" and (PIXEL in content or "image" in content)


def test_the_wanted_format_is_asked_for(api: ServedApi, provider: ScriptedProvider) -> None:
    schema = {"type": "object", "properties": {"colour": {"type": "string"}}}
    wanted = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    assert api.chat("hello", response_format=wanted).status_code == 200
    assert '"colour"' in str(provider.requests[-1].messages)


def test_small_endpoints(api: ServedApi) -> None:
    root = api.url.removesuffix("/v1")
    assert httpx.get(f"{root}/health", verify=UNUSED_TLS).json()["status"] == "ok"
    detailed = httpx.get(f"{root}/health/detailed", verify=UNUSED_TLS).json()
    assert detailed["runs"] == {"queued": 0, "in_progress": 0, "waiting": 0}
    features = api.get("/capabilities").json()["features"]
    assert features["streaming"] is True and features["client_tools"] is False


def test_a_request_that_never_ends_is_cut_off(api: ServedApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "SECONDS_FOR_HEAD", 0.2)
    port = urlsplit(api.url).port or 0
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n")
        assert connection.recv(100) == b""


def test_too_many_requests(home: Path, workdir: Path, provider: ScriptedProvider) -> None:
    with served_api(home, workdir, provider, max_requests_per_minute=1) as api:
        assert api.get("/models").status_code == 200
        refused = api.get("/models")
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "rate_limit_exceeded")
        assert int(refused.headers["retry-after"]) >= 1


def test_pages_of_named_origins_may_call_with_a_key(home: Path, workdir: Path, provider: ScriptedProvider) -> None:
    origin = "https://chat.example.org"
    with served_api(home, workdir, provider, with_keys=True, cors_origins=[origin]) as api:
        asked = {"access-control-request-method": "POST", "access-control-request-headers": "authorization"}
        allowed = api.send("OPTIONS", "/chat/completions", headers={"origin": origin, **asked})
        assert allowed.headers["access-control-allow-origin"] == origin
        other = api.send("OPTIONS", "/chat/completions", headers={"origin": "https://evil.example.org", **asked})
        assert "access-control-allow-origin" not in other.headers
        answered = api.chat("hello", headers={"origin": origin})
        assert answered.headers["access-control-allow-origin"] == origin


def test_a_full_disk_is_reported_to_the_owner(api: ServedApi) -> None:
    def limit(pages: str) -> None:
        api.host.store.write(lambda connection: connection.execute(f"PRAGMA max_page_count = {pages}").fetchone())

    limit("1")  # the file has more pages already, so it cannot grow
    for _ in range(2):
        refused = api.chat("hello " * 20_000)
        assert refused.status_code == 503
        error = refused.json()["error"]
        assert (error["type"], error["code"]) == ("server_error", "storage_failed")
        assert "state.db" not in error["message"]
    (line,) = api.reported
    assert line.startswith("Error: no space left for ") and "state.db; free some" in line
    limit("1000000")
    assert api.chat("hello").status_code == 200


def test_another_address_needs_a_key(home: Path, workdir: Path, provider: ScriptedProvider) -> None:
    import asyncio

    host = configured_host(home, workdir, provider)
    with host, pytest.raises(HermesError, match=r"0\.0\.0\.0 can be reached by other machines.*set API_SERVER_KEY"):
        known = Principals(token_variable="API_SERVER_KEY")
        asyncio.run(serve_until(asyncio.Event(), host, ListenAddress("0.0.0.0"), known, print))
