"""Calls with a message of text alone, which are read in one step: as the SDK reads them, and answered alike."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from a2a.types import SendMessageRequest
from google.protobuf.json_format import ParseDict

from hermes.surfaces.a2a.server.transports.rpc import plain_call
from support.a2a_rig import Served, sse_documents, wire_message

MESSAGE = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hello"}]}
CALL = {"jsonrpc": "2.0", "id": 7, "method": "SendMessage", "params": {"message": MESSAGE}}


def said(**fields: Any) -> dict[str, Any]:
    return {"message": {**MESSAGE, **fields}}


@pytest.mark.parametrize(
    "params",
    [
        said(),
        said(role="ROLE_AGENT", contextId="c", taskId="t"),
        said(parts=[], messageId=""),
        said(parts=[{"text": ""}, {"text": "ü\u2028\n\0🙂"}]),
        {**said(), "configuration": {}},
        {**said(), "configuration": {"acceptedOutputModes": ["text/plain"], "historyLength": 0}},
        {**said(), "configuration": {"returnImmediately": True, "historyLength": None}},
        {**said(), "configuration": {"historyLength": -(2**31)}},
    ],
)
@pytest.mark.parametrize("method", ["SendMessage", "SendStreamingMessage"])
def test_a_plain_call_is_read_as_the_sdk_reads_it(params: dict[str, Any], method: str) -> None:
    call = plain_call(msgspec.json.encode({**CALL, "method": method, "params": params}))
    assert call is not None and (call.id, call.method) == (7, method)
    expected = ParseDict(params, SendMessageRequest())
    assert call.request() == expected and call.request().SerializeToString() == expected.SerializeToString()


@pytest.mark.parametrize(
    "document",
    [
        {**CALL, "jsonrpc": "1.0"},
        {**CALL, "id": None},
        {**CALL, "id": True},
        {**CALL, "id": 1.5},
        {**CALL, "method": "message/send"},
        {**CALL, "method": "GetTask"},
        {**CALL, "extra": 1},
        {name: value for name, value in CALL.items() if name != "id"},
        {**CALL, "params": {**said(), "tenant": "x"}},
        {**CALL, "params": said(role=1)},
        {**CALL, "params": said(role="user")},
        {**CALL, "params": said(metadata={"hops": 1})},
        {**CALL, "params": said(message_id="m")},
        {**CALL, "params": said(taskId=None)},
        {**CALL, "params": said(parts=[{"text": 5}])},
        {**CALL, "params": said(parts=[{"data": {}}])},
        {**CALL, "params": said(parts=[{"text": "x", "filename": "y"}])},
        {**CALL, "params": {**said(), "configuration": {"historyLength": 2**31}}},
        [CALL],
        5,
    ],
)
def test_any_other_call_is_left_to_the_sdk(document: Any) -> None:
    assert plain_call(msgspec.json.encode(document)) is None


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b'{"id":"\\ud800"}', b"[" * 100_000])
def test_a_body_that_is_no_json_is_left_to_the_sdk(body: bytes) -> None:
    assert plain_call(body) is None


@pytest.mark.parametrize(
    ("message", "headers"),
    [
        ({"role": "ROLE_AGENT"}, {}),
        ({"taskId": "unknown"}, {}),
        ({"parts": []}, {}),
        ({"messageId": ""}, {}),
        ({}, {"A2A-Version": "2.0"}),
    ],
)
@pytest.mark.parametrize("method", ["SendMessage", "SendStreamingMessage"])
def test_errors_are_those_of_the_sdk(
    agent: Served, method: str, message: dict[str, Any], headers: dict[str, str]
) -> None:
    params = wire_message(**message)
    plain = agent.rpc(method, params, headers=headers)
    assert plain["error"]["code"] < 0 and plain["id"] == "1"
    assert plain == agent.rpc(method, {**params, "unknown": 1}, headers=headers)  # no plain call


def test_answers_are_those_of_the_sdk(agent: Served) -> None:
    plain, other = (
        agent.rpc("SendMessage", {**wire_message(), **more})["result"]["task"] for more in ({}, {"unknown": 1})
    )
    assert plain.keys() == other.keys()
    for task in (plain, other):
        assert task["status"]["state"] == "TASK_STATE_COMPLETED"
        assert task["artifacts"][0]["parts"] == [{"text": "Hello there."}]


def test_a_plain_call_streams(agent: Served) -> None:
    call = {"jsonrpc": "2.0", "id": "s", "method": "SendStreamingMessage", "params": wire_message()}
    response = agent.post("/", call)
    assert response.headers["content-type"].startswith("text/event-stream")
    events = sse_documents(response.text)
    assert [event["id"] for event in events] == ["s"] * len(events)
    assert events[-1]["result"]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
