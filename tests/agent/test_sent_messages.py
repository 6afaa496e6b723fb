"""The requests of a turn encode only new messages: the bytes are those of a wire that encodes everything again."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.agent.pipelines.attempt import DigestingWire, MessageTexts
from hermes.base.errors import ProviderError
from hermes.models.endpoint import Endpoint
from hermes.models.wires.chat.wire import ChatCompletions

WIRE = ChatCompletions()
ENDPOINT = Endpoint("http://h:1/v1", "gpt-x")


def message(role: str, content: object) -> dict[str, Any]:
    return {"role": role, "content": content}


MESSAGE = st.builds(
    message, st.sampled_from(["user", "tool"]), st.one_of(st.none(), st.text(max_size=8), st.integers(0, 9))
)
CONVERSATION = st.lists(MESSAGE, max_size=6)
REQUEST = st.tuples(CONVERSATION, st.sampled_from(["messages", "input"]), st.integers(0, 3))


def check(texts: MessageTexts, kwargs: dict[str, Any]) -> bytes:
    body = DigestingWire(WIRE, texts).http_request(ENDPOINT, kwargs).body
    assert body == WIRE.http_request(ENDPOINT, kwargs).body
    return body


@given(st.lists(REQUEST, max_size=6))
def test_bodies_are_those_of_the_wire(requests: list[tuple[list[dict[str, Any]], str, int]]) -> None:
    texts = MessageTexts()
    for messages, name, number in requests:
        check(texts, {"model": "m", name: messages, "seed": number})


@given(CONVERSATION, CONVERSATION, st.integers(0, 6))
def test_a_conversation_that_grows_and_one_that_is_cut(
    first: list[dict[str, Any]], more: list[dict[str, Any]], kept: int
) -> None:
    texts, grown = MessageTexts(), [*first]
    for messages in (first, grown, [*first[:kept], *more]):
        check(texts, {"messages": messages})
        grown += more  # also in place


def test_a_message_is_encoded_once() -> None:
    texts, one = MessageTexts(), message("user", "one")
    check(texts, {"messages": [one]})
    one["content"] = "changed in place, which looks the same"
    body = DigestingWire(WIRE, texts).http_request(ENDPOINT, {"messages": [one, message("user", "two")]}).body
    assert [sent["content"] for sent in msgspec.json.decode(body)["messages"]] == ["one", "two"]


@pytest.mark.parametrize(
    "extra", [{"messages": [message("user", "instead")]}, {"input": []}, {"last": "b\udcff"}], ids=str
)
def test_extras_are_sent_as_by_the_wire(extra: dict[str, Any]) -> None:
    check(MessageTexts(), {"messages": [message("user", "one")], "extra_body": extra})


def test_a_lone_surrogate_costs_a_character() -> None:
    texts, messages = MessageTexts(), [message("user", "a")]
    check(texts, {"messages": messages})
    body = check(texts, {"messages": [*messages, message("user", "b\udcff")]})
    assert body.decode().endswith('"b\ufffd"}]}')
    check(texts, {"messages": messages})


def test_what_cannot_be_written_is_a_bad_request() -> None:
    with pytest.raises(ProviderError, match="cannot be written as JSON"):
        DigestingWire(WIRE, MessageTexts()).http_request(ENDPOINT, {"messages": [object()]})
