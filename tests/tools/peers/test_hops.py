"""The count of agents that a message has passed, whatever a caller writes there."""

from __future__ import annotations

import contextvars
import math
from typing import Any

import pytest
from a2a.types import Message
from hypothesis import given
from hypothesis import strategies as st

from hermes.tools.peers.failures import PeerError
from hermes.tools.peers.hops import HOPS, hops_of, hops_scope, next_hop


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0, 0), (3, 3), (2.0, 2), (-1, 0), (math.inf, 1_000_000), (math.nan, 0), ("4", 0), (True, 0), (None, 0), ([1], 0)],
)
def test_what_is_no_count_counts_as_none(value: object, expected: int) -> None:
    assert hops_of({HOPS: value}) == expected


def test_no_metadata_is_no_hop() -> None:
    assert hops_of(None) == hops_of({}) == hops_of(Message().metadata) == 0


@given(
    st.dictionaries(st.text(), st.one_of(st.none(), st.booleans(), st.floats(), st.text(), st.integers()), max_size=3)
)
def test_any_metadata_gives_a_count(metadata: dict[str, Any]) -> None:
    for value in (*metadata.values(), 1):
        assert 0 <= hops_of({**metadata, HOPS: value}) <= 1_000_000


def test_the_count_survives_the_wire() -> None:
    message = Message()
    message.metadata[HOPS] = 3
    assert hops_of(Message.FromString(message.SerializeToString()).metadata) == 3


def test_every_agent_adds_one_up_to_the_limit() -> None:
    assert next_hop(1) == 1
    with hops_scope(2):
        assert next_hop(3) == 3
        assert contextvars.copy_context().run(next_hop, 3) == 3
        with pytest.raises(PeerError, match=r"by way of 2 agents, and a2a\.max_hops allows 2"):
            next_hop(2)
    assert next_hop(1) == 1
