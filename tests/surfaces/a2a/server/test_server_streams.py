"""Messages over JSON-RPC: errors, streams as server-sent events, keep-alive comments, callers that disconnect."""

from __future__ import annotations

import http.client
import threading
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest
from sse_starlette import EventSourceResponse

from hermes.testing import ScriptedProvider, hanging, text
from support.a2a_rig import Served, served, sse_documents, wait_until, wire_message

PARAMS: list[tuple[Any, int]] = [
    (wire_message(taskId="unknown"), -32001),
    (wire_message(role="ROLE_OF_NOBODY"), -32602),
    ({"message": {"messageId": "m", "role": "ROLE_USER", "parts": []}}, -32602),
    ({"message": {"role": "ROLE_USER"}}, -32602),
    ({"message": "hello"}, -32602),
    ({}, -32602),
]


@pytest.mark.parametrize(("params", "code"), PARAMS)
@pytest.mark.parametrize("method", ["SendMessage", "SendStreamingMessage"])
def test_a_message_that_cannot_be_used_is_an_error_document(agent: Served, method: str, params: Any, code: int) -> None:
    """Also for a stream: it does not begin."""
    response = agent.post("/", {"jsonrpc": "2.0", "id": 7, "method": method, "params": params})
    assert response.headers["content-type"] == "application/json"
    assert (response.json()["id"], response.json()["error"]["code"]) == (7, code)


def test_a_stream_is_sent_as_server_sent_events(agent: Served) -> None:
    body = {"jsonrpc": "2.0", "id": 7, "method": "SendStreamingMessage", "params": wire_message()}
    response = agent.post("/", body)
    documents = sse_documents(response.text)
    chunks = [document["result"].get("artifactUpdate") for document in documents]
    assert "".join(chunk["artifact"]["parts"][0]["text"] for chunk in chunks if chunk) == "Hello there."
    assert {document["id"] for document in documents} == {7} and "task" in documents[0]["result"]
    assert documents[-1]["result"]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
    assert response.headers["content-type"].startswith("text/event-stream")
    assert response.headers["cache-control"] == "no-store"


def open_stream(agent: Served) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
    place = urlsplit(agent.url)
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=60)
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": wire_message()}
    connection.request(
        "POST", "/", msgspec.json.encode(body), {"A2A-Version": "1.0", "Content-Type": "application/json"}
    )
    return connection, connection.getresponse()


def test_a_silent_stream_has_keep_alive_comments(home: Path, workdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EventSourceResponse, "DEFAULT_PING_INTERVAL", 0.02)
    with ScriptedProvider([hanging()]) as provider, served(home, workdir, provider) as agent:
        connection, response = open_stream(agent)
        while not (line := response.readline()).startswith(b": ping"):
            assert line, "the stream ended without a comment"
        connection.close()


def test_a_task_continues_when_its_caller_disconnects(home: Path, workdir: Path) -> None:
    """The turn continues without a subscriber."""
    go_on = threading.Event()

    def script(_request: Any) -> Any:
        go_on.wait(60)
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
