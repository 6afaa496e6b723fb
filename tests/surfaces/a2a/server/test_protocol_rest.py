"""The HTTP+JSON binding of protocol 1.0: paths, verbs, status codes, media types."""

from __future__ import annotations

from typing import Any

import httpx
import msgspec
import pytest

from support.a2a_rig import UNUSED_TLS, Served, sse_documents, wire_message


def finished(agent: Served) -> dict[str, Any]:
    return agent.post("/rest/message:send", wire_message()).json()["task"]


def problem(response: httpx.Response) -> tuple[int, str]:
    error = response.json()["error"]
    assert error["code"] == response.status_code
    return response.status_code, error["details"][0]["reason"] if "details" in error else error["status"]


def test_send(agent: Served) -> None:
    response = agent.post("/rest/message:send", wire_message())
    assert response.status_code == 200 and response.headers["content-type"] == "application/json"
    assert response.json()["task"]["artifacts"][0]["parts"] == [{"text": "Hello there."}]


def test_stream(agent: Served) -> None:
    response = agent.post("/rest/message:stream", wire_message())
    assert response.headers["content-type"].startswith("text/event-stream")
    events = sse_documents(response.text)
    assert list(events[0]) == ["task"] and events[1]["statusUpdate"]["status"]["state"] == "TASK_STATE_WORKING"
    assert events[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
    chunks = [event["artifactUpdate"]["artifact"]["parts"][0]["text"] for event in events[2:-1]]
    assert "".join(chunks) == "Hello there."


def test_get_list_and_history(agent: Served) -> None:
    task = finished(agent)
    assert agent.get(f"/rest/tasks/{task['id']}").json()["history"][0]["role"] == "ROLE_USER"
    assert "history" not in agent.get(f"/rest/tasks/{task['id']}?historyLength=0").json()
    listed = agent.get(f"/rest/tasks?contextId={task['contextId']}&pageSize=1").json()
    assert [row["id"] for row in listed["tasks"]] == [task["id"]] and listed["totalSize"] == 1


def test_cancel_and_subscribe(agent: Served) -> None:
    parked = agent.post("/rest/message:send", wire_message("ask")).json()["task"]
    with httpx.stream(
        "GET",
        f"{agent.url}/rest/tasks/{parked['id']}:subscribe",
        headers={"A2A-Version": "1.0"},
        timeout=60,
        verify=UNUSED_TLS,
    ) as response:
        lines = response.iter_lines()
        assert "task" in msgspec.json.decode(next(line for line in lines if line.startswith("data: "))[6:])
        cancelled = agent.post(f"/rest/tasks/{parked['id']}:cancel")
        assert cancelled.json()["status"]["state"] == "TASK_STATE_CANCELED"
        assert any("TASK_STATE_CANCELED" in line for line in lines)
    assert problem(agent.post(f"/rest/tasks/{parked['id']}:cancel")) == (400, "TASK_NOT_CANCELABLE")
    assert problem(agent.post(f"/rest/tasks/{parked['id']}:subscribe")) == (400, "UNSUPPORTED_OPERATION")


def test_errors(agent: Served) -> None:
    assert problem(agent.get("/rest/tasks/unknown")) == (404, "TASK_NOT_FOUND")
    assert problem(agent.post("/rest/tasks/unknown:cancel")) == (404, "TASK_NOT_FOUND")
    assert problem(agent.post("/rest/message:send", {})) == (400, "INVALID_PARAMS")
    assert problem(agent.post("/rest/message:send", {"message": 3}))[0] == 400
    assert problem(agent.get("/rest/tasks?pageSize=1000")) == (400, "INVALID_PARAMS")
    file = {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"raw": "AA==", "mediaType": "video/mp4"}]}}
    assert problem(agent.post("/rest/message:send", file)) == (415, "CONTENT_TYPE_NOT_SUPPORTED")
    assert (
        problem(agent.post("/rest/message:send", wire_message(taskId=finished(agent)["id"])))[1]
        == "UNSUPPORTED_OPERATION"
    )
    assert agent.get("/rest/nothing").status_code == 404
    headers = {"A2A-Version": "1.0", "Content-Type": "application/json"}
    broken = httpx.post(f"{agent.url}/rest/message:send", content=b"{", headers=headers, verify=UNUSED_TLS)
    assert problem(broken) == (400, "INVALID_REQUEST")


@pytest.mark.parametrize(("version", "status"), [("1.0", 200), ("", 400), ("0.3", 400), ("9", 400)])
def test_version_negotiation(agent: Served, version: str, status: int) -> None:
    response = agent.get("/rest/tasks", headers={"A2A-Version": version})
    assert response.status_code == status
    if status != 200:
        assert problem(response) == (400, "VERSION_NOT_SUPPORTED")


def test_there_is_no_extended_card_without_tokens(agent: Served) -> None:
    assert problem(agent.get("/rest/extendedAgentCard")) == (400, "UNSUPPORTED_OPERATION")
