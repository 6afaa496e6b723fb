"""Figures over all sessions: percentiles, failures and costs of models, tools and plugins."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.journal.leases import SessionInfo
from hermes.journal.runner import FileRunner
from hermes.journal.store.sqlite.store import SqliteStore
from hermes.journal.turns.lifecycle import begin_turn
from hermes.journal.turns.steps import ModelCallRow, record_plugin_calls
from hermes.journal.usage.latency import figures, percentile
from hermes.journal.usage.plugins import PluginCalls, record_plugin_counters


@pytest.mark.parametrize(("part", "expected"), [(0.5, 5), (0.95, 10), (1.0, 10), (0.1, 1), (0.11, 2)])
def test_percentiles_of_ten(part: float, expected: float) -> None:
    assert percentile(range(10, 0, -1), part) == expected


@given(st.lists(st.floats(0, 1e6), min_size=1), st.floats(0.01, 1.0))
def test_a_percentile_is_one_of_the_values_that_enough_of_them_do_not_exceed(values: list[float], part: float) -> None:
    found = percentile(values, part)
    assert found in values and sum(value <= found for value in values) >= part * len(values) - 1e-9


def test_plugins_have_their_callbacks_and_the_models_they_asked(home: Path) -> None:
    now = time.time()
    with closing(SqliteStore(home / "state.db")) as store, closing(FileRunner(home / "runners")) as runner:
        info = SessionInfo("one", "/", "cli", "custom", "large", None, None)
        message = {"role": "user", "content": "go"}
        turn = begin_turn(store, runner, info, turn_id="one:t", task_id="t", request_key="t", message=message)
        turn.model_call(ModelCallRow("r", "model:1", "custom", "large", "ok", now, 2.0, cost_usd=0.5))
        turn.end("completed", answer="so")
        turn.commit()
        asked = ModelCallRow("p1", "plugin:acme", "custom", "small", "ok", now, 3.0, cost_usd=0.25)
        outside = ModelCallRow("p2", "plugin:acme", "custom", "small", "error", now, 1.0)
        record_plugin_calls(store, [("one", "one:t", asked), ("", "", outside)])
        counted = [PluginCalls("acme", "pre_tool_call", 4, 1, 0.5), PluginCalls("acme", "register", 1)]
        record_plugin_counters(store, "one", [*counted, PluginCalls("acme", "export:there", 9, 0)])
        plugins = {(one.name, one.detail): one for one in figures(store, "plugin")}
        models = {one.name: one for one in figures(store, "model")}
        nothing = figures(store, "model", now + 60)
    assert list(plugins) == [("acme", "models"), ("acme", "pre_tool_call"), ("acme", "export:there")]
    spent = plugins["acme", "models"]
    assert (spent.calls, spent.failed, spent.p50, spent.p95, spent.cost_usd) == (2, 1, 1.0, 3.0, 0.25)
    called = plugins["acme", "pre_tool_call"]
    assert (called.calls, called.failed, called.total, called.p50) == (4, 1, 0.5, None)
    assert models["large"].cost_usd == 0.5 and nothing == []
