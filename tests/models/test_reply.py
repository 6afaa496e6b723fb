"""Whatever comes back from a model or a middleware, as one typed reply."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.base.errors import ProviderError
from hermes.contract.response import Record
from hermes.models.costs.usage import Usage
from hermes.models.reply import Reply, ToolRequest, normalise, to_response


def completion(message: dict[str, Any], **choice: Any) -> dict[str, Any]:
    return {"id": "r1", "model": "m", "choices": [{"message": message, "finish_reason": "stop", **choice}]}


def calls(*pairs: tuple[str | None, str]) -> list[dict[str, Any]]:
    return [{"id": call_id, "function": {"name": name, "arguments": "{}"}} for call_id, name in pairs]


def as_namespaces(value: Any) -> Any:
    return json.loads(json.dumps(value), object_hook=lambda fields: SimpleNamespace(**fields))


class SdkResponse:
    def __init__(self, body: dict[str, Any]) -> None:
        self.body = body

    def model_dump(self) -> dict[str, Any]:
        return self.body


def test_every_form_of_a_response_gives_the_same_reply() -> None:
    body = completion(
        {"content": "hi", "reasoning": "hm", "tool_calls": calls(("a", "ls"))}, finish_reason="tool_calls"
    )
    body["usage"] = {"prompt_tokens": 3, "completion_tokens": 2}
    expected = Reply("hi", "hm", [ToolRequest("a", "ls", "{}")], "tool_calls", "m", Usage(3, 2), "r1")
    round_trip = msgspec.json.decode(msgspec.json.encode(body))
    for response in (body, Record(body), as_namespaces(body), SdkResponse(body), round_trip):
        assert normalise(response) == expected


texts = st.text(max_size=20)
replies = st.builds(
    Reply,
    content=st.text(min_size=1, max_size=20),
    reasoning=texts,
    tool_calls=st.lists(
        st.builds(ToolRequest, st.text(min_size=1), st.text(min_size=1), texts), unique_by=lambda c: c.id
    ),
    finish_reason=st.sampled_from(["stop", "length", "tool_calls"]),
    model=texts,
    usage=st.none() | st.builds(Usage, st.integers(0, 9), st.integers(0, 9), st.integers(0, 9)),
    response_id=texts,
)


@given(replies)
def test_a_reply_survives_the_way_through_a_response(reply: Reply) -> None:
    response = to_response(reply)
    assert normalise(response) == reply
    assert normalise(msgspec.json.decode(msgspec.json.encode(response.model_dump()))) == reply


def test_the_response_reads_as_the_ecosystem_expects() -> None:
    response = to_response(Reply(tool_calls=[ToolRequest("a", "ls", '{"p":1}')], usage=Usage(3, 2)))
    message = response.choices[0].message
    assert message.content is None
    assert message.tool_calls[0].function.arguments == '{"p":1}'
    assert message.tool_calls[0].type == "function"
    assert response.usage.prompt_tokens == 3


def test_arguments_that_were_parsed_already_become_text_again() -> None:
    call: dict[str, Any] = {"id": "a", "function": {"name": "ls", "arguments": {"path": "."}}}
    assert normalise(completion({"tool_calls": [call]})).tool_calls == [ToolRequest("a", "ls", '{"path":"."}')]
    call["function"] = {"name": "ls", "arguments": None}
    assert normalise(completion({"tool_calls": [call]})).tool_calls == [ToolRequest("a", "ls", "")]


def test_missing_and_repeated_ids_are_replaced_the_same_way_every_time() -> None:
    message = {"tool_calls": calls((None, "a"), ("", "b"), ("x", "c"), ("x", "d"), ("x", "e"), ("call_0", "f"))}
    ids = [call.id for call in normalise(completion(message)).tool_calls]
    assert ids == ["call_0", "call_1", "x", "x_2", "x_3", "call_0_2"]
    assert ids == [call.id for call in normalise(completion(message)).tool_calls]


@given(st.lists(st.none() | st.sampled_from(["a", "call_0", "call_1", "a_2", ""]), min_size=1, max_size=8))
def test_ids_are_always_unique_and_present(given_ids: list[str | None]) -> None:
    found = [c.id for c in normalise(completion({"tool_calls": calls(*((i, "f") for i in given_ids))})).tool_calls]
    assert len(set(found)) == len(given_ids)
    assert all(found)


def test_content_parts_and_a_refusal_are_text() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "image_url"}, "b", 3]
    assert normalise(completion({"content": parts})).content == "ab"
    assert normalise(completion({"content": None, "refusal": "I cannot"})).content == "I cannot"


def test_an_answer_cut_by_length_or_with_reasoning_only_is_a_reply() -> None:
    assert normalise(completion({"content": ""}, finish_reason="length")).finish_reason == "length"
    assert normalise(completion({"reasoning_content": "hm"})).reasoning == "hm"


def test_the_finish_reason_is_filled_in() -> None:
    assert normalise(completion({"content": "x"}, finish_reason=None)).finish_reason == "stop"
    assert normalise(completion({"tool_calls": calls(("a", "b"))}, finish_reason="")).finish_reason == "tool_calls"


UNREADABLE: list[tuple[object, str]] = [
    (None, "found NoneType"),
    ("text", "found str"),
    ([], "found list"),
    ({}, "no choices"),
    ({"detail": "x"}, "keys: detail"),
    ({"choices": []}, "empty list of choices"),
    ({"choices": ["x"]}, "first choice is str"),
    ({"choices": [{"text": "x"}]}, "no message"),
    (completion({"content": ""}), "empty response"),
    (completion({"content": None, "tool_calls": []}), "empty response"),
    (completion({"tool_calls": {"a": 1}}), "tool_calls is dict"),
    (completion({"tool_calls": [{"id": "a"}]}), "tool call 0 names no function"),
    (completion({"tool_calls": ["x"]}), "tool call 0 names no function"),
]


@pytest.mark.parametrize(("response", "found"), UNREADABLE)
def test_what_cannot_be_read_says_what_was_found(response: object, found: str) -> None:
    with pytest.raises(ProviderError, match=found) as caught:
        normalise(response)
    assert caught.value.reason == "malformed"


def test_an_answer_withheld_by_a_filter_says_so() -> None:
    with pytest.raises(ProviderError, match="content filter") as caught:
        normalise(completion({"content": None}, finish_reason="content_filter"))
    assert caught.value.reason == "content_policy"


@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["choices", "message", "content", "tool_calls", "function", "name", "arguments", "id"]),
                inner,
                max_size=4,
            )
        ),
    )
)
def test_wild_input_gives_a_reply_or_the_typed_error(response: object) -> None:
    try:
        normalise(response)
    except ProviderError as error:
        assert error.reason in ("malformed", "content_policy")
