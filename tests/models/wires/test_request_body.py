"""The bodies of a conversation's requests: the same bytes as when everything is encoded again."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.models.wires import request_body
from hermes.models.wires.request_body import BodyEncoder, encode


def message(role: str, content: object) -> dict[str, Any]:
    return {"role": role, "content": content}


MESSAGE = st.builds(
    message, st.sampled_from(["user", "tool"]), st.one_of(st.none(), st.text(max_size=8), st.integers(0, 9))
)
CONVERSATION = st.lists(MESSAGE, max_size=6)


@given(st.lists(st.tuples(CONVERSATION, st.sampled_from(["messages", "input"]), st.integers(0, 3)), max_size=6))
def test_bodies_are_those_of_a_plain_encoder(requests: list[tuple[list[dict[str, Any]], str, int]]) -> None:
    bodies = BodyEncoder()
    for messages, name, number in requests:
        body = {"model": "m", "seed": number, name: messages}
        assert bodies.encode(body) == encode(body)


@given(CONVERSATION, CONVERSATION, st.integers(0, 6))
def test_a_conversation_that_grows_and_one_that_is_cut(
    first: list[dict[str, Any]], more: list[dict[str, Any]], kept: int
) -> None:
    bodies = BodyEncoder()
    for messages in (first, [*first, *more], [*first[:kept], *more]):
        assert bodies.encode({"messages": messages}) == encode({"messages": messages})


def test_a_message_is_encoded_once_after_the_first_body(monkeypatch: pytest.MonkeyPatch) -> None:
    encoded: list[Any] = []

    def note(value: Any) -> bytes:
        encoded.append(value)
        return msgspec.json.Encoder().encode(value)

    bodies, messages = BodyEncoder(), [{"role": "user", "content": "one"}]
    monkeypatch.setattr(request_body.msgspec.json, "encode", note)
    bodies.encode({"model": "m", "messages": messages})
    assert encoded == [{"model": "m", "messages": messages}]  # as a whole: there may be no other
    bodies.encode({"model": "m", "messages": messages})
    encoded.clear()
    two = {"role": "assistant", "content": "two"}
    assert bodies.encode({"model": "m", "messages": [*messages, two]}).endswith(b'"two"}]}')
    assert encoded == [{"model": "m", "messages": []}, two]


def test_a_lone_surrogate_costs_a_character() -> None:
    bodies, messages = BodyEncoder(), [{"content": "a"}]
    assert bodies.encode({"messages": messages}) == b'{"messages":[{"content":"a"}]}'
    messages = [*messages, {"content": "b\udcff"}]
    assert bodies.encode({"messages": messages}) == '{"messages":[{"content":"a"},{"content":"b\ufffd"}]}'.encode()
    assert bodies.encode({"messages": messages[:1]}) == b'{"messages":[{"content":"a"}]}'
