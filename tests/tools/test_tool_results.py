from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes.tools.results import tool_error, tool_result

any_text = st.text(st.characters(codec=None))
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | any_text,
    lambda inner: st.lists(inner) | st.dictionaries(any_text, inner) | st.tuples(inner),
)


@settings(max_examples=50)
@given(values)
def test_any_value_becomes_json(value: Any) -> None:
    decoded = msgspec.json.decode(tool_result(value=value))
    assert set(decoded) == {"value"}


def test_lone_surrogates_are_replaced_and_the_rest_is_kept() -> None:
    encoded = tool_result(path="bad\udcffname", items=["ok", {"\ud800": "\ud800x"}], count=3)
    assert msgspec.json.decode(encoded) == {
        "path": "bad\ufffdname",
        "items": ["ok", {"\ufffd": "\ufffdx"}],
        "count": 3,
    }


@pytest.mark.parametrize("path", ["plain", "odd\udcff"])
def test_objects_json_does_not_know_become_text(path: str) -> None:
    shown = path.replace("\udcff", "\ufffd")
    assert msgspec.json.decode(tool_result(path=Path(path))) == {"path": shown}


def test_an_error_carries_its_extras() -> None:
    assert msgspec.json.decode(tool_error("no", status="blocked")) == {"error": "no", "status": "blocked"}
