"""How a chat completion is asked for."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from hermes.base.errors import ProviderError
from hermes.models.endpoint import Endpoint
from hermes.models.wires.chat.wire import ChatCompletions
from hermes.models.wires.wire import ModelRequest

WIRE = ChatCompletions()
ENDPOINT = Endpoint("http://h:1/v1", "gpt-x", api_key="sk-secret")
MESSAGES: list[dict[str, Any]] = [{"role": "user", "content": "hi"}]
TOOL: dict[str, Any] = {"type": "function", "function": {"name": "ls", "parameters": {}}}


def sent(kwargs: dict[str, Any], endpoint: Endpoint = ENDPOINT) -> dict[str, Any]:
    return msgspec.json.decode(WIRE.http_request(endpoint, kwargs).body)


def headers(kwargs: dict[str, Any], endpoint: Endpoint = ENDPOINT) -> dict[str, str]:
    return dict(WIRE.http_request(endpoint, kwargs).headers)


def test_the_kwargs_are_those_of_the_sdk() -> None:
    kwargs = WIRE.kwargs(ENDPOINT, ModelRequest(MESSAGES, [TOOL], max_tokens=5, temperature=0.0))
    assert kwargs == {
        "model": "gpt-x",
        "messages": MESSAGES,
        "tools": [TOOL],
        "max_tokens": 5,
        "temperature": 0.0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    assert kwargs["messages"] is MESSAGES
    assert WIRE.kwargs(ENDPOINT, ModelRequest(MESSAGES, [], stream=False)) == {"model": "gpt-x", "messages": MESSAGES}


def test_the_request() -> None:
    request = WIRE.http_request(ENDPOINT, WIRE.kwargs(ENDPOINT, ModelRequest(MESSAGES, stream=False)))
    assert (request.method, request.url) == ("POST", "http://h:1/v1/chat/completions")
    assert msgspec.json.decode(request.body) == {"model": "gpt-x", "messages": MESSAGES}
    assert dict(request.headers)["authorization"] == "Bearer sk-secret"
    assert dict(request.headers)["content-type"] == "application/json"


def test_no_key_sends_no_authorization() -> None:
    endpoint = Endpoint("http://h", "m")
    assert "authorization" not in headers(WIRE.kwargs(endpoint, ModelRequest(MESSAGES)), endpoint)


def test_extra_body_is_merged_and_sdk_arguments_stay_out() -> None:
    endpoint = Endpoint("http://h", "m", extra_body={"reasoning": {"enabled": True}})
    kwargs = WIRE.kwargs(endpoint, ModelRequest(MESSAGES, stream=False))
    kwargs.update(timeout=3, http_client=None, extra_headers={"X-A": "1"}, extra_query={"q": ["1", "a b"]})
    kwargs["extra_body"]["model"] = "other"
    assert sent(kwargs, endpoint) == {"model": "other", "messages": MESSAGES, "reasoning": {"enabled": True}}
    assert WIRE.http_request(endpoint, kwargs).url.endswith("/chat/completions?q=1&q=a+b")
    assert endpoint.extra_body == {"reasoning": {"enabled": True}}


def test_extra_headers_win_whatever_their_case_and_none_removes_one() -> None:
    endpoint = Endpoint("http://h", "m", api_key="k", extra_headers={"User-Agent": "mine", "X-B": "b"})
    found = headers({"extra_headers": {"x-b": "c", "AUTHORIZATION": "Basic z", "accept-encoding": None}}, endpoint)
    assert found["user-agent"] == "mine"
    assert found["x-b"] == "c"
    assert found["authorization"] == "Basic z"
    assert "accept-encoding" not in found


def test_text_that_is_not_unicode_can_be_sent() -> None:
    messages: list[dict[str, Any]] = [{"role": "user", "content": ["bad \udcff name", {"\ud83d": "x"}]}]
    assert sent({"messages": messages}) == {
        "messages": [{"role": "user", "content": ["bad \ufffd name", {"\ufffd": "x"}]}]
    }


@pytest.mark.parametrize("value", [object(), {1, object()}, {b"\xff": object()}])
def test_what_is_not_json_is_a_bad_request(value: object) -> None:
    with pytest.raises(ProviderError, match="cannot be written as JSON") as caught:
        WIRE.http_request(ENDPOINT, {"messages": MESSAGES, "extra_body": {"x": value}})
    assert caught.value.reason == "bad_request"
    assert not caught.value.retryable


def test_endless_nesting_is_a_bad_request() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(ProviderError, match="cannot be written as JSON"):
        WIRE.http_request(ENDPOINT, {"messages": loop})


def test_a_lone_surrogate_in_a_message_costs_a_character() -> None:
    kwargs = WIRE.kwargs(ENDPOINT, ModelRequest([{"role": "user", "content": "b\udcff"}]))
    assert WIRE.http_request(ENDPOINT, kwargs).body.decode().endswith('"content":"b\ufffd"}]}')
