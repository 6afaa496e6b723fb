"""The response object plugins see."""

from __future__ import annotations

import copy
import pickle
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.contract.response import Record, chat_response, to_plain

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(st.text(max_size=8), plain, max_size=5))
def test_model_dump_gives_back_the_plain_data(data: dict[str, Any]) -> None:
    record = Record(data)
    assert to_plain(record) == data
    assert record == Record(data)
    assert record == data
    assert copy.deepcopy(record) == record
    assert pickle.loads(pickle.dumps(record)) == record


def test_fields_are_read_as_attributes_items_and_with_get() -> None:
    record = Record({"choices": [{"message": {"content": "hi"}}], "usage": {"prompt_tokens": 3}})
    assert record.choices[0].message.content == "hi"
    assert record["usage"]["prompt_tokens"] == record.usage.get("prompt_tokens") == 3
    assert record.get("missing") is None
    assert record.get("missing", 7) == 7
    assert "usage" in record
    assert "missing" not in record
    with pytest.raises(AttributeError):
        _ = record.missing
    with pytest.raises(KeyError):
        _ = record["missing"]


def test_a_record_can_be_changed() -> None:
    record = Record(message={"content": "a"})
    record.message.content = "b"
    record["extra"] = 1
    assert record.model_dump() == {"message": {"content": "b"}, "extra": 1}


def test_repr_shows_the_fields() -> None:
    assert repr(Record(name="x", inner={"n": 1})) == "Record(name='x', inner=Record(n=1))"


def test_exclude_none_leaves_absent_fields_out_at_every_depth() -> None:
    record = Record({"a": None, "b": [{"c": None, "d": 1}]})
    assert record.model_dump(exclude_none=True, mode="json") == {"b": [{"d": 1}]}


def test_a_record_differs_from_other_things() -> None:
    assert Record(a=1) != Record(a=2)
    assert Record(a=1) != 1


def test_optional_fields_of_a_chat_response_exist_as_none() -> None:
    response = chat_response({"choices": [{"message": {"content": "hi"}}]})
    message = response.choices[0].message
    assert (message.tool_calls, message.reasoning, message.reasoning_content, message.refusal) == (None,) * 4
    assert message.role == "assistant"
    assert response.choices[0].finish_reason is None
    assert (response.id, response.model, response.usage) == (None, None, None)


class Struct(msgspec.Struct):
    name: str
    inner: Any


@dataclass(slots=True)
class Slotted:
    name: str
    inner: Any


class Pydantic:
    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def model_dump(self) -> dict[str, Any]:
        return {"name": "x", "inner": self.inner}


def test_whatever_a_plugin_returns_becomes_plain() -> None:
    expected = {"name": "x", "inner": {"n": 1}}
    inner = Record(n=1)
    for value in (
        {"name": "x", "inner": inner},
        Record(name="x", inner=inner),
        SimpleNamespace(name="x", inner=inner),
        Slotted("x", inner),
        Struct("x", inner),
        Pydantic(inner),
    ):
        assert to_plain(value) == expected
    assert to_plain((inner, [Struct("a", None)])) == [{"n": 1}, [{"name": "a", "inner": None}]]


def test_opaque_values_are_left_alone() -> None:
    thing = object()
    assert to_plain({"a": thing, "kind": Pydantic}) == {"a": thing, "kind": Pydantic}
