"""Context windows that servers tell, and when they are asked for."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import msgspec
import pytest

from hermes.agent.context.window import ASK_FROM_TOKENS
from hermes.base.config.schema.sections import AgentConfig, Config, ModelConfig, ModelProviderConfig
from hermes.host import Host
from hermes.models.windows import window_in_description, window_in_list
from hermes.testing.scripted.replies import completion, text


class Told:
    """A server with one model that tells its window, and what it was asked."""

    def __init__(self, entry: dict[str, Any], show: dict[str, Any] | None) -> None:
        self.entry, self.show = entry, show
        self.requests: list[str] = []
        self.base_url = ""


@contextmanager
def telling(entry: dict[str, Any], show: dict[str, Any] | None = None) -> Generator[Told]:
    told = Told(entry, show)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer({"object": "list", "data": [told.entry]})

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            if self.path == "/api/show":
                self._answer(told.show or {})
            else:
                self._answer(msgspec.json.decode(completion(text("fine", usage=None), 1, "m")))

        def _answer(self, document: dict[str, Any]) -> None:
            told.requests.append(f"{self.command} {self.path}")
            body = msgspec.json.encode(document)
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  (the base class names it)
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    told.base_url = f"http://127.0.0.1:{server.server_port}/v1"
    try:
        yield told
    finally:
        server.shutdown()
        server.server_close()


def host_at(home: Path, workdir: Path, server: Told, provider: str = "custom", **model: Any) -> Host:
    config = Config(
        model=ModelConfig(provider=provider, default="m", base_url=server.base_url, **model),
        providers={provider: ModelProviderConfig(base_url=server.base_url)} if provider != "custom" else {},
        agent=AgentConfig(api_max_retries=0),
    )
    return Host(home, config, cwd=workdir, env={})


LONG = "Some words about nothing in particular. " * (ASK_FROM_TOKENS // 8)


@pytest.mark.parametrize(
    "entry",
    [
        {"id": "m", "max_model_len": 20_480},
        {"id": "m", "context_length": 20_480},
        {"id": "m", "context_window": 20_480},
        {"id": "other-name.gguf", "meta": {"n_ctx_train": 131_072, "n_ctx": 20_480}},
    ],
)
def test_a_server_is_asked_once_a_conversation_is_long(home: Path, workdir: Path, entry: dict[str, Any]) -> None:
    with telling(entry) as server:
        with host_at(home, workdir, server) as host:
            session = host.new_session()
            assert session.run("hello").status == "completed"
            assert server.requests == ["POST /v1/chat/completions"]  # not for a short question
            for _ in range(2):
                assert session.run(LONG).status == "completed"
            assert session.window.status()["context_length"] == 20_480
        assert server.requests.count("GET /v1/models") == 1
        with host_at(home, workdir, server) as host:  # another process remembers it
            session = host.new_session()
            session.run(LONG)
            session.run(LONG)
            assert session.window.status()["context_length"] == 20_480
        assert server.requests.count("GET /v1/models") == 1


def test_ollama_is_asked_for_the_description(home: Path, workdir: Path) -> None:
    shown: dict[str, Any] = {"parameters": 'stop "x"\nnum_ctx 8192', "model_info": {}}
    with telling({"id": "m"}, shown) as server, host_at(home, workdir, server, provider="ollama") as host:
        session = host.new_session()
        session.run(LONG)
        session.run(LONG)
        assert session.window.status()["context_length"] == 8_192
    assert "POST /api/show" in server.requests


def test_a_window_that_is_configured_is_not_asked_for(home: Path, workdir: Path) -> None:
    with (
        telling({"id": "m", "max_model_len": 4_096}) as server,
        host_at(home, workdir, server, context_length=50_000) as host,
    ):
        host.new_session().run(LONG)
    assert "GET /v1/models" not in server.requests


@pytest.mark.parametrize(
    "document",
    [
        None,
        [],
        {},
        {"data": None},
        {"data": [{"id": "a"}, {"id": "b", "max_model_len": 9_000}]},
        {"data": [{"id": "m", "context_length": "x"}]},
    ],
)
def test_a_list_that_says_nothing_about_it(document: Any) -> None:
    assert window_in_list(document, "m") is None


def test_the_window_a_model_was_made_for_counts_where_nothing_else_is_set() -> None:
    assert window_in_description({"model_info": {"qwen3.context_length": 40_960}}) == 40_960
    assert window_in_description({"parameters": 7}) is None
    assert window_in_description(None) is None
