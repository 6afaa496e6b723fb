"""A served OpenAI-compatible API in this process, and plain HTTP to call it with."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from hermes.base.config import Config, PrincipalConfig
from hermes.base.config.schema.gateway import GatewayApiConfig, GatewayConfig
from hermes.base.config.schema.sections import AgentConfig, JournalConfig, ModelConfig, WorkerConfig
from hermes.base.http_server.listen_address import ListenAddress
from hermes.base.http_server.principals import read_principals
from hermes.base.sanitize import Redactor
from hermes.host import Host, HostOptions
from hermes.surfaces.openai_api.serve import serve_until
from hermes.testing import ScriptedProvider
from support.a2a_rig import UNUSED_TLS
from support.served import ServerThread

#: A caller with every scope, and one without ``approve``.
KEY = "key-of-alice-0123456789abcdef"
OTHER_KEY = "key-of-bob-0123456789abcdef"


@dataclass
class ServedApi:
    """A running server."""

    #: With ``/v1``, as clients of OpenAI's API want it.
    url: str
    host: Host
    headers: dict[str, str] = field(default_factory=dict)
    #: Asks the server to stop, as a signal does; the second time it waits for nothing.
    stop: Callable[[], None] = lambda: None
    #: The lines that the owner sees.
    reported: list[str] = field(default_factory=list[str])

    def send(self, method: str, path: str, document: Any = None, **more: Any) -> httpx.Response:
        """One request below ``/v1``."""
        headers = {**self.headers, **more.pop("headers", {})}
        fields: dict[str, Any] = {} if document is None else {"json": document}
        return httpx.request(method, self.url + path, headers=headers, timeout=60, verify=UNUSED_TLS, **fields, **more)

    def post(self, path: str, document: Any = None, **more: Any) -> httpx.Response:
        return self.send("POST", path, document, **more)

    def get(self, path: str, **more: Any) -> httpx.Response:
        return self.send("GET", path, **more)

    def chat(self, *messages: str, headers: dict[str, str] | None = None, **fields: Any) -> httpx.Response:
        """A chat completion. The messages are those of the user and the assistant in turn."""
        roles = ("user", "assistant")
        listed = [{"role": roles[number % 2], "content": text} for number, text in enumerate(messages)]
        return self.post("/chat/completions", {"messages": listed, **fields}, headers=headers or {})

    def events(self, run_id: str, **more: Any) -> list[dict[str, Any]]:
        """All events of a run, up to its end."""
        return sse_documents(self.get(f"/runs/{run_id}/events", **more).text)


def sse_documents(text: str) -> list[dict[str, Any]]:
    """The data of a stream of events, without the mark of its end."""
    lines = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


def answer_of(response: httpx.Response) -> str:
    """The text of a chat completion."""
    assert response.status_code == 200, response.text
    return response.json()["choices"][0]["message"]["content"]


@contextmanager
def served_api(
    home: Path,
    workdir: Path,
    provider: ScriptedProvider,
    *,
    with_keys: bool = False,
    gateway: dict[str, Any] | None = None,
    principals: dict[str, PrincipalConfig] | None = None,
    env: dict[str, str] | None = None,
    journal: str = "",
    **settings: Any,
) -> Generator[ServedApi]:
    """Serve an agent that talks to the provider, on a thread of its own. Callers work in ``workdir``.

    ``with_keys``: alice may approve, bob may not; without it every program on this machine is ``local``.
    """
    callers: dict[str, PrincipalConfig] = {"local": PrincipalConfig(workspace=str(workdir))}
    if with_keys:
        everything = ["send", "read", "cancel", "approve"]
        callers["alice"] = PrincipalConfig(token_env="ALICE", workspace=str(workdir), scopes=everything)  # type: ignore[arg-type]
        callers["bob"] = PrincipalConfig(token_env="BOB", workspace=str(workdir))
    config = Config(
        model=ModelConfig(provider="custom", default="scripted", base_url=provider.base_url, api_key="test-key-1234"),
        agent=AgentConfig(api_max_retries=0),
        gateway=GatewayConfig(api=GatewayApiConfig(**settings), **(gateway or {})),
        principals={**callers, **(principals or {})},
        journal=JournalConfig(url=journal),
        worker=WorkerConfig(turns="here"),
    )
    redactor = Redactor()
    known = read_principals(config, {"ALICE": KEY, "BOB": OTHER_KEY, **(env or {})}, redactor, "API_SERVER_KEY")
    options = HostOptions(platform="api_server", unattended=True)
    with Host(home, config, options, cwd=workdir, env={}, redactor=redactor) as host:
        lines: list[str] = []
        thread = ServerThread(
            lambda stop, announce: serve_until(stop, host, ListenAddress(), known, announce, lines.append)
        )
        headers = {"authorization": f"Bearer {KEY}"} if with_keys else {}
        try:
            yield ServedApi(thread.wait_until_ready(), host, headers, thread.ask_to_stop, lines)
        finally:
            thread.stop()
