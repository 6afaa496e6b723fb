"""Token counts in the spellings of different servers."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.models.costs.usage import Usage, usage_from

SPELLINGS: list[tuple[dict[str, Any], Usage]] = [
    ({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}, Usage(10, 5)),
    (
        {
            "prompt_tokens": 100,
            "completion_tokens": 50,
            "prompt_tokens_details": {"cached_tokens": 60},
            "completion_tokens_details": {"reasoning_tokens": 20},
        },
        Usage(40, 50, 60, 0, 20),
    ),
    ({"prompt_tokens": 100, "completion_tokens": 5, "prompt_cache_hit_tokens": 30}, Usage(70, 5, 30)),
    (
        {"input_tokens": 7, "output_tokens": 3, "cache_read_input_tokens": 90, "cache_creation_input_tokens": 10},
        Usage(7, 3, 90, 10),
    ),
    (
        {"input_tokens": 100, "output_tokens": 3, "input_tokens_details": {"cached_tokens": 90}},
        Usage(10, 3, 90),
    ),
    (
        {
            "prompt_tokens": 100,
            "completion_tokens": 5,
            "prompt_tokens_details": {"cached_tokens": 20, "cache_write_tokens": 30},
            "cost": 0.0125,
        },
        Usage(50, 5, 20, 30, cost_usd=0.0125),
    ),
    ({"prompt_tokens": 5, "prompt_tokens_details": {"cached_tokens": 50}}, Usage(0, 0, 50)),
    ({"prompt_tokens": "many", "completion_tokens": None, "cost": True}, Usage()),
    ({"prompt_tokens": -4, "completion_tokens": 2.0, "prompt_tokens_details": None}, Usage(0, 2)),
]


@pytest.mark.parametrize(("raw", "expected"), SPELLINGS)
def test_spellings(raw: dict[str, Any], expected: Usage) -> None:
    assert usage_from(raw) == expected


@pytest.mark.parametrize("raw", [None, {}, [], "usage", 3])
def test_nothing_usable_is_none(raw: object) -> None:
    assert usage_from(raw) is None


counts = st.integers(0, 10**9)


@given(st.builds(Usage, counts, counts, counts, counts, counts, st.none() | st.floats(0, 1e6)))
def test_the_response_form_reads_back_unchanged(usage: Usage) -> None:
    assert usage_from(usage.as_response_usage()) == usage


def test_the_hook_payload() -> None:
    assert Usage(10, 5, 20, 30, 2).as_hook_payload() == {
        "input_tokens": 10,
        "output_tokens": 5,
        "cache_read_tokens": 20,
        "cache_write_tokens": 30,
        "reasoning_tokens": 2,
        "request_count": 1,
        "prompt_tokens": 60,
        "total_tokens": 65,
    }


def test_sums_count_requests_and_known_costs() -> None:
    total = Usage(1, 2, 3, 4, 5, 0.5) + Usage(1, 1, 1, 1, 1, None)
    assert total == Usage(2, 3, 4, 5, 6, 0.5, request_count=2)
    assert (Usage() + Usage()).cost_usd is None


@given(
    st.dictionaries(st.sampled_from(list(SPELLINGS[5][0])), st.none() | st.text() | st.floats() | st.lists(st.none()))
)
def test_odd_values_never_raise(raw: dict[str, Any]) -> None:
    usage = usage_from(raw)
    assert usage is None or usage.total_tokens >= 0
