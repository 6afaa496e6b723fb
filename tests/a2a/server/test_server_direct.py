"""Messages that the server answers by itself are answered as the SDK would answer them."""

from __future__ import annotations

import http.client
import threading
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import msgspec
import pytest

from hermes.a2a.server import direct
from hermes.testing import ScriptedProvider, hanging, text
from support.a2a_rig import Served, served, sse_documents, wait_until, wire_message

#: The SDK takes it for the same protocol; the server leaves it to the SDK.
BY_THE_SDK = {"A2A-Version": "1.0.0"}


def plain(value: Any) -> Any:
    """A document without what differs from one task to the next."""
    if isinstance(value, dict):
        unlike = ("id", "taskId", "contextId", "messageId", "timestamp", "artifactId", "hermes.session_id")
        fields = cast("dict[str, Any]", value)
        return {name: plain(item) for name, item in fields.items() if name not in unlike}
    return [plain(item) for item in cast("list[Any]", value)] if isinstance(value, list) else value


def both(agent: Served, method: str, params: Any) -> tuple[Any, Any]:
    body = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}
    return agent.post("/", body), agent.post("/", body, headers=BY_THE_SDK)


PARAMS: list[Any] = [
    wire_message(),
    wire_message(metadata={"a": {"b": [1, None]}}),
    {**wire_message(), "configuration": {"historyLength": 0}, "unknown": 1},
    wire_message(taskId="unknown"),
    wire_message(role="ROLE_OF_NOBODY"),
    {"message": {"messageId": "m", "role": "ROLE_USER", "parts": []}},
    {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{}]}},
    {"message": "hello"},
    {},
]


@pytest.mark.parametrize("params", PARAMS)
def test_the_answer_is_that_of_the_sdk(agent: Served, params: Any) -> None:
    ours, theirs = both(agent, "SendMessage", params)
    assert plain(ours.json()) == plain(theirs.json()) and ours.json()["id"] == 7
    assert ours.headers["content-type"] == theirs.headers["content-type"] == "application/json"


def test_so_is_the_stream(agent: Served) -> None:
    ours, theirs = both(agent, "SendStreamingMessage", wire_message())
    for response in (ours, theirs):
        documents = sse_documents(response.text)
        chunks = [document["result"].get("artifactUpdate") for document in documents]
        said = "".join(chunk["artifact"]["parts"][0]["text"] for chunk in chunks if chunk)
        assert said == "Hello there." and documents[0]["id"] == 7
        assert "task" in documents[0]["result"]
        assert documents[-1]["result"]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
    assert ours.headers["content-type"] == theirs.headers["content-type"]
    assert ours.headers["cache-control"] == theirs.headers["cache-control"] == "no-store"


@pytest.mark.parametrize("params", [wire_message(taskId="unknown"), {"message": {"role": "ROLE_USER"}}, {}])
def test_a_stream_that_cannot_begin_is_an_error(agent: Served, params: Any) -> None:
    ours, theirs = both(agent, "SendStreamingMessage", params)
    assert plain(ours.json()) == plain(theirs.json()) and "error" in ours.json()


def open_stream(agent: Served) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
    place = urlsplit(agent.url)
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=20)
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": wire_message()}
    connection.request("POST", "/", msgspec.json.encode(body), {"A2A-Version": "1.0"})
    return connection, connection.getresponse()


def test_who_hears_nothing_is_told_that_the_server_is_there(
    home: Path, workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(direct, "_SECONDS_BETWEEN_SIGNS", 0.02)
    with ScriptedProvider([hanging()]) as provider, served(home, workdir, provider) as agent:
        connection, response = open_stream(agent)
        while response.readline() != b": alive\r\n":
            pass
        connection.close()


def test_who_leaves_is_not_waited_for(home: Path, workdir: Path) -> None:
    """The work goes on, and nothing of the connection stays behind."""
    go_on = threading.Event()

    def script(_request: Any) -> Any:
        go_on.wait(10)
        return text("done")

    with ScriptedProvider(script) as provider, served(home, workdir, provider) as agent:
        connection, response = open_stream(agent)
        first = msgspec.json.decode(response.readline().removeprefix(b"data: "))
        task = first["result"]["task"]["id"]
        response.close()
        connection.close()
        go_on.set()

        def state() -> str:
            return agent.rpc("GetTask", {"id": task})["result"]["status"]["state"]

        wait_until(lambda: state() == "TASK_STATE_COMPLETED")
