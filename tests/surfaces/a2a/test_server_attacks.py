"""What a hostile caller tries at the door of the server."""

from __future__ import annotations

import asyncio
import http.client
import socket
from collections.abc import Generator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import msgspec
import pytest

from hermes.base.config import A2AConfig, PrincipalConfig
from hermes.base.config.schema.sections import A2APushConfig
from hermes.base.errors import HermesError
from hermes.base.http_server import server as http_server
from hermes.testing import ScriptedProvider, by_step, text, tool_call
from support.a2a_rig import VERSION, Served, served, sse_documents, wire_message
from support.approval_rig import RISKY

READER = "the-token-of-a-reader-0123456789"
SETTINGS = A2AConfig(principals={"reader": PrincipalConfig(token_env="READER_TOKEN", scopes=["read"])})
MESSAGE = msgspec.json.encode(wire_message("hi")).decode()
HEAD = b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\n"


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Generator[tuple[Served, ScriptedProvider]]:
    """A server whose only caller may read, and the model that must not hear of it."""
    folder = tmp_path_factory.mktemp("attacked")
    with (
        ScriptedProvider("fine") as provider,
        served(folder / "home", folder, provider, SETTINGS, env={"READER_TOKEN": READER}) as agent,
    ):
        yield agent, provider


def post(agent: Served, path: str, body: str) -> int:
    where = urlsplit(agent.url)
    connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=60)
    headers = {"Content-Type": "application/json", "A2A-Version": "1.0", "Authorization": f"Bearer {READER}"}
    try:
        connection.request("POST", path, body, headers)
        return connection.getresponse().status
    finally:
        connection.close()


@pytest.mark.parametrize(
    "path",
    [
        "/rest/message:send",
        "/rest/message%3Asend",
        "/rest/message:send%0A",
        "/rest/message:stream%0A",
        "/rest/tenant/message:send%0A",
        "/rest/tasks/x:cancel%0A",
        "/rest//message:send",
        "/rest/./message:send",
        "/rest/message:send/",
        "/rest/message:send%00",
    ],
)
def test_no_spelling_of_a_path_gets_past_the_scopes(reader: tuple[Served, ScriptedProvider], path: str) -> None:
    agent, provider = reader
    assert post(agent, path, MESSAGE) in (403, 404)
    assert provider.requests == []


@pytest.mark.parametrize("path", ["/", "/%0A", "/?x=1", "//"])
@pytest.mark.parametrize(
    "method",
    ['"method":"SendMessage"', '"method":1,"method":"SendMessage"', '"\\u006dethod":"SendMessage"'],
)
def test_no_spelling_of_a_method_gets_past_the_scopes(
    reader: tuple[Served, ScriptedProvider], path: str, method: str
) -> None:
    agent, provider = reader
    assert post(agent, path, f'{{"jsonrpc":"2.0","id":1,{method},"params":{MESSAGE}}}') in (403, 404)
    assert provider.requests == []


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        HEAD + b"X-Slow: ",
        HEAD + b"Content-Length: 100\r\n\r\n{",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n",
    ],
)
def test_slow_loris_connections_are_closed(
    home: Path, workdir: Path, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(http_server, "SECONDS_FOR_HEAD", 0.2)
    monkeypatch.setattr(http_server, "SECONDS_FOR_BODY", 0.2)
    with ScriptedProvider("fine") as provider, served(home, workdir, provider) as agent:
        where = urlsplit(agent.url)
        with socket.create_connection((where.hostname, where.port), timeout=60) as slow:
            slow.sendall(sent)
            try:
                assert slow.recv(1) == b""
            except ConnectionResetError:
                pass
        monkeypatch.setattr(http_server, "SECONDS_FOR_HEAD", 60.0)  # not for this caller
        monkeypatch.setattr(http_server, "SECONDS_FOR_BODY", 60.0)
        answer = agent.rpc("SendMessage", wire_message("hello"))
        assert answer["result"]["task"]["status"]["state"] == "TASK_STATE_COMPLETED"


def test_request_time_limits_do_not_apply_to_answers(
    home: Path, workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "SECONDS_FOR_HEAD", 1.0)
    monkeypatch.setattr(http_server, "SECONDS_FOR_BODY", 1.0)
    with ScriptedProvider(text("late", delay=1.2)) as provider, served(home, workdir, provider) as agent:
        answer = agent.rpc("SendMessage", wire_message("hello"))
        assert answer["result"]["task"]["status"]["state"] == "TASK_STATE_COMPLETED"


def test_only_one_of_several_concurrent_answers_counts(home: Path, workdir: Path) -> None:
    settings = A2AConfig(push=A2APushConfig(allowed_hosts=["127.0.0.1"], max_tries=1))
    script = by_step(tool_call("terminal", {"command": RISKY}), text("done"))
    with ScriptedProvider(script) as provider, served(home, workdir, provider, settings) as agent:
        task_id = agent.rpc("SendMessage", wire_message("ask"))["result"]["task"]["id"]

        async def answer() -> list[httpx.Response]:
            # A webhook has to be looked up first, which gives the others the time to come in.
            webhook = {"taskPushNotificationConfig": {"url": "http://127.0.0.1:9/hook"}}
            calls = [
                {"configuration": webhook, **wire_message(word, taskId=task_id)} for word in ("approve", "deny") * 3
            ]
            async with httpx.AsyncClient(base_url=agent.url, headers=VERSION, timeout=60) as http:
                return await asyncio.gather(*(http.post("/rest/message:send", json=call) for call in calls))

        statuses = sorted(response.status_code for response in asyncio.run(answer()))
        assert statuses[0] == 200 and all(status >= 400 for status in statuses[1:])
        history = agent.rpc("GetTask", {"id": task_id})["result"]["history"]
        said = [part.get("text") for entry in history if entry["role"] == "ROLE_USER" for part in entry["parts"]]
        assert said in (["ask", "approve"], ["ask", "deny"])


def test_a_home_has_one_server(home: Path, workdir: Path) -> None:
    with ScriptedProvider("fine") as provider:
        with served(home, workdir, provider) as agent:
            with pytest.raises(HermesError, match="another A2A server uses"), served(home, workdir, provider):
                pass
            assert agent.rpc("ListTasks")["result"]["totalSize"] == 0
        with served(home, workdir, provider) as agent:  # the first one has let go
            assert agent.rpc("ListTasks")["result"]["totalSize"] == 0
        assert {path.stat().st_mode & 0o777 for path in home.glob("a2a.*")} == {0o600}


@pytest.mark.parametrize("chunks", [1, 12])
def test_the_servers_own_keys_are_in_no_answer(home: Path, workdir: Path, chunks: int) -> None:
    key = "test-key-of-a-model"  # the one that the model is asked with
    settings = A2AConfig(answer_in_status=True)
    with (
        ScriptedProvider(text(f"It is {key}, is it not?", chunks=chunks, chunk_delay=0.02)) as provider,
        served(home, workdir, provider, settings) as agent,
    ):
        whole = agent.post("/rest/message:send", wire_message("which key?")).json()["task"]
        streamed = agent.post("/rest/message:stream", wire_message("which key?")).text
    assert [part["text"] for part in whole["artifacts"][0]["parts"]] == ["It is <redacted:model.api_key>, is it not?"]
    assert len(whole["artifacts"]) == 1 and key not in str(whole)
    updates = [event["artifactUpdate"] for event in sse_documents(streamed) if "artifactUpdate" in event]
    assert "".join(part["text"] for update in updates for part in update["artifact"]["parts"]) == (
        "It is <redacted:model.api_key>, is it not?"
    )
    assert key not in streamed
