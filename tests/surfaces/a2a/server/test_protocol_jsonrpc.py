"""The JSON-RPC binding of protocol 1.0, as its specification has it: methods, error codes, headers, streams."""

from __future__ import annotations

import uuid
from typing import Any

import httpx
import msgspec
import pytest

from support.a2a_rig import UNUSED_TLS, Served, sse_documents, wire_message


def error_of(agent: Served, method: str, params: Any, **options: Any) -> int:
    answer = agent.rpc(method, params, **options)
    assert answer["jsonrpc"] == "2.0" and answer["id"] == "1" and "result" not in answer
    return answer["error"]["code"]


def finished(agent: Served) -> dict[str, Any]:
    return agent.rpc("SendMessage", wire_message())["result"]["task"]


def parked(agent: Served) -> dict[str, Any]:
    task = agent.rpc("SendMessage", wire_message("ask"))["result"]["task"]
    assert task["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    return task


# -- methods --------------------------------------------------------------------------------------------------------


def test_send_wire_message(agent: Served) -> None:
    sent = wire_message(metadata={"trace": "x"})
    answer = agent.rpc("SendMessage", sent)
    assert answer["jsonrpc"] == "2.0" and answer["id"] == "1"
    task = answer["result"]["task"]
    assert task["status"]["state"] == "TASK_STATE_COMPLETED" and task["status"]["timestamp"].endswith("Z")
    assert task["artifacts"][0]["parts"] == [{"text": "Hello there."}]
    [said] = task["history"]
    assert said["messageId"] == sent["message"]["messageId"] and said["role"] == "ROLE_USER"
    assert said["taskId"] == task["id"] and said["contextId"] == task["contextId"]


def test_send_message_and_return_immediately(agent: Served) -> None:
    task = agent.rpc("SendMessage", {**wire_message(), "configuration": {"returnImmediately": True}})["result"]["task"]
    assert task["status"]["state"] in ("TASK_STATE_SUBMITTED", "TASK_STATE_WORKING")
    while task["status"]["state"] != "TASK_STATE_COMPLETED":
        task = agent.rpc("GetTask", {"id": task["id"]})["result"]


@pytest.mark.parametrize(("length", "kept"), [(0, 0), (1, 1), (50, 1)])
def test_history_length(agent: Served, length: int, kept: int) -> None:
    task = agent.rpc("SendMessage", {**wire_message(), "configuration": {"historyLength": length}})["result"]["task"]
    assert len(task.get("history", [])) == kept
    read = agent.rpc("GetTask", {"id": task["id"], "historyLength": length})["result"]
    assert len(read.get("history", [])) == kept


def test_streaming_order(agent: Served) -> None:
    response = agent.post("/", {"jsonrpc": "2.0", "id": 9, "method": "SendStreamingMessage", "params": wire_message()})
    assert response.headers["content-type"].startswith("text/event-stream")
    events = sse_documents(response.text)
    assert all(event["id"] == 9 and event["jsonrpc"] == "2.0" for event in events)
    results = [event["result"] for event in events]
    assert list(results[0]) == ["task"] and results[0]["task"]["status"]["state"] == "TASK_STATE_SUBMITTED"
    assert results[1]["statusUpdate"]["status"]["state"] == "TASK_STATE_WORKING"
    assert results[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
    chunks = [result["artifactUpdate"] for result in results[2:-1]]
    assert "".join(chunk["artifact"]["parts"][0]["text"] for chunk in chunks) == "Hello there."
    assert [chunk.get("lastChunk", False) for chunk in chunks] == [*[False] * (len(chunks) - 1), True]
    ids = {(part["taskId"], part["contextId"]) for result in results[1:] for part in result.values()}
    assert ids == {(results[0]["task"]["id"], results[0]["task"]["contextId"])}


def test_get_and_list_tasks(agent: Served) -> None:
    context = uuid.uuid4().hex
    made = [agent.rpc("SendMessage", wire_message(contextId=context))["result"]["task"]["id"] for _ in range(3)]
    assert agent.rpc("GetTask", {"id": made[0]})["result"]["id"] == made[0]
    first = agent.rpc("ListTasks", {"contextId": context, "pageSize": 2})["result"]
    assert (first["totalSize"], first["pageSize"]) == (3, 2) and "artifacts" not in first["tasks"][0]
    second = agent.rpc(
        "ListTasks",
        {"contextId": context, "pageSize": 2, "pageToken": first["nextPageToken"], "includeArtifacts": True},
    )["result"]
    assert second["nextPageToken"] == "" and second["tasks"][0]["artifacts"]
    assert [task["id"] for task in first["tasks"] + second["tasks"]] == made[::-1]
    by_state = {"contextId": context, "status": "TASK_STATE_FAILED"}
    assert agent.rpc("ListTasks", by_state)["result"]["tasks"] == []
    last = agent.rpc("GetTask", {"id": made[-1]})["result"]["status"]["timestamp"]
    after = agent.rpc("ListTasks", {"contextId": context, "statusTimestampAfter": last})["result"]
    assert [task["id"] for task in after["tasks"]] == made[-1:]


def test_cancel_and_its_errors(agent: Served) -> None:
    task = parked(agent)
    assert agent.rpc("CancelTask", {"id": task["id"]})["result"]["status"]["state"] == "TASK_STATE_CANCELED"
    assert error_of(agent, "CancelTask", {"id": task["id"]}) == -32002
    assert error_of(agent, "CancelTask", {"id": finished(agent)["id"]}) == -32002
    assert error_of(agent, "CancelTask", {"id": "unknown"}) == -32001


def test_subscribe(agent: Served) -> None:
    task = parked(agent)
    body = {"jsonrpc": "2.0", "id": "1", "method": "SubscribeToTask", "params": {"id": task["id"]}}
    with httpx.stream(
        "POST", agent.url, json=body, headers={"A2A-Version": "1.0"}, timeout=60, verify=UNUSED_TLS
    ) as response:
        lines = response.iter_lines()
        first = next(line for line in lines if line.startswith("data: "))
        assert msgspec.json.decode(first[6:])["result"]["task"]["id"] == task["id"]
        agent.rpc("SendMessage", wire_message("deny", taskId=task["id"]))
        rest = [msgspec.json.decode(line[6:])["result"] for line in lines if line.startswith("data: ")]
    assert rest[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
    assert error_of(agent, "SubscribeToTask", {"id": task["id"]}) == -32004
    assert error_of(agent, "SubscribeToTask", {"id": "unknown"}) == -32001


def test_no_extended_card_without_tokens(agent: Served) -> None:
    assert error_of(agent, "GetExtendedAgentCard", {}) == -32004


# -- errors ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("NoSuchMethod", {}, -32601),
        ("GetTask", {}, -32602),
        ("GetTask", {"id": "unknown"}, -32001),
        ("GetTask", {"id": 3}, -32602),
        ("GetTask", [], -32602),
        ("GetTask", {"id": "x", "historyLength": -1}, -32602),
        ("ListTasks", {"pageSize": 0}, -32602),
        ("ListTasks", {"pageSize": 101}, -32602),
        ("ListTasks", {"pageToken": "no token"}, -32602),
        ("SendMessage", {}, -32602),
        ("SendMessage", {"message": {"messageId": "m", "role": "ROLE_USER", "parts": []}}, -32602),
        ("SendMessage", {"message": {"role": "ROLE_USER", "parts": [{"text": "x"}]}}, -32602),
        ("SendMessage", {"message": "hello"}, -32602),
        ("SendMessage", wire_message(taskId="unknown"), -32001),
        ("SendStreamingMessage", wire_message(taskId="unknown"), -32001),
        (
            "SendMessage",
            {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"raw": "AA==", "mediaType": "video/mp4"}]}},
            -32005,
        ),
        ("CancelTask", {}, -32602),
    ],
)
def test_error_codes(agent: Served, method: str, params: Any, code: int) -> None:
    assert error_of(agent, method, params) == code


def test_a_finished_task_takes_no_more_messages(agent: Served) -> None:
    task = finished(agent)
    assert error_of(agent, "SendMessage", wire_message(taskId=task["id"])) == -32004
    assert error_of(agent, "SendMessage", wire_message(taskId=task["id"], contextId="another")) == -32602


@pytest.mark.parametrize(
    ("body", "code", "request_id"),
    [
        (b"{", -32700, None),
        (b"\xff", -32700, None),
        (b"[" * 100_000, -32700, None),
        (b"[]", -32600, None),
        (b'"text"', -32600, None),
        (b'{"jsonrpc": "1.0", "id": "1", "method": "GetTask"}', -32600, "1"),
        (b'{"jsonrpc": "2.0", "id": "1"}', -32600, "1"),
        (b'{"jsonrpc": "2.0", "id": {"a": 1}, "method": "GetTask"}', -32600, None),
        (b'[{"jsonrpc": "2.0", "id": "1", "method": "GetTask"}]', -32600, None),
    ],
)
def test_invalid_requests(agent: Served, body: bytes, code: int, request_id: Any) -> None:
    response = httpx.post(
        agent.url, content=body, headers={"A2A-Version": "1.0", "Content-Type": "application/json"}, verify=UNUSED_TLS
    )
    assert response.json()["error"]["code"] == code and response.json()["id"] == request_id


@pytest.mark.parametrize(
    ("version", "code"), [("1.0", None), ("1.1", None), ("", -32009), ("0.3", -32009), ("2.0", -32009)]
)
def test_version_negotiation(agent: Served, version: str, code: int | None) -> None:
    answer = agent.rpc("ListTasks", headers={"A2A-Version": version})
    assert answer.get("error", {}).get("code") == code


def test_errors_say_what_they_are_in_a_form_for_programs(agent: Served) -> None:
    error = agent.rpc("GetTask", {"id": "unknown"})["error"]
    [info] = error["data"]
    assert info["reason"] == "TASK_NOT_FOUND" and info["domain"] == "a2a-protocol.org"


def test_the_card_is_cached_by_its_tag(agent: Served) -> None:
    card = agent.get("/.well-known/agent-card.json")
    assert "max-age" in card.headers["cache-control"] and card.headers["content-type"] == "application/json"
    again = agent.get("/.well-known/agent-card.json", headers={"If-None-Match": card.headers["etag"]})
    assert again.status_code == 304 and again.content == b"" and again.headers["etag"] == card.headers["etag"]
    assert agent.get("/.well-known/agent-card.json", headers={"If-None-Match": '"other"'}).status_code == 200
    interfaces = {(row["protocolBinding"], row["protocolVersion"]) for row in card.json()["supportedInterfaces"]}
    assert interfaces == {(b, v) for b in ("JSONRPC", "HTTP+JSON") for v in ("1.0", "0.3")}
    assert all(row["url"].startswith(agent.url) for row in card.json()["supportedInterfaces"])
