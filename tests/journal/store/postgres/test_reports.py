"""Reports over the journal say the same on both stores."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from hermes.base.config.schema.sections import JournalConfig
from hermes.journal.history.lists import overview
from hermes.journal.history.passages import families, family_of, last_result, passage
from hermes.journal.leases import SessionInfo
from hermes.journal.sessions import Sessions
from hermes.journal.store.port import Store, open_store
from hermes.journal.turns.recovery import dead_letters
from hermes.journal.turns.steps import ModelCallRow, record_plugin_calls
from hermes.journal.usage import latency
from hermes.journal.usage.plugins import PluginCalls, plugin_totals, recent_counters, record_plugin_counters
from hermes.journal.usage.spending import GROUPINGS, session_spending, usage_by
from hermes.journal.usage.sums import spent_in_session, spent_in_turn, spent_today
from journal.kit import finish_turn, start_turn

NOW = time.time()

REPORTS: dict[str, Callable[[Store], Any]] = {
    "usage": lambda store: [usage_by(store, grouping) for grouping in GROUPINGS],
    "spending": lambda store: session_spending(store, "one"),
    "sums": lambda store: (
        spent_in_session(store, "one"),
        spent_in_turn(store, "one", "one:turn"),
        spent_today(store),
        spent_today(store, plugin="acme"),
        spent_today(store, principal="p", own=frozenset({"c1"})),
    ),
    "overview": lambda store: [
        (row.id, row.failed_calls, row.tokens) for row in overview(store, limit=5, children=True)
    ],
    "latency": lambda store: [latency.figures(store, grouping) for grouping in latency.GROUPINGS],
    "plugins": lambda store: [(name, one.calls, one.last_error) for name, one in sorted(plugin_totals(store).items())],
    "recent": lambda store: recent_counters(store, 0.0),
    "families": lambda store: (families(store, ["two"]), family_of(store, "two"), dead_letters(store, 5)),
    "results": lambda store: (last_result(store, "one", "todo"), passage(store, "one", around=None, window=2)),
    "assign": lambda store: (Sessions(store).assign({"one": "p"}), Sessions(store).list(principal="p")[0].principal),
}


def fill(store: Store) -> None:
    calls = [
        ModelCallRow("c1", "model:1", "p", "large", "ok", NOW, 1.0, input_tokens=10, output_tokens=3, cost_usd=0.5),
        ModelCallRow("c2", "side:title", "p", "small", "error", NOW, 2.0, error="no"),
        ModelCallRow("c3", "plugin:acme", "q", "small", "ok", NOW, 2.0, output_tokens=7),
    ]
    with closing(store.new_runner()) as runner:
        for session, parent in (("one", None), ("two", "one")):
            turn = start_turn(store, runner, SessionInfo(session, "/", parent_id=parent), turn_id=f"{session}:turn")
            body = {"id": "x", "name": "todo", "status": "ok", "result": "list", "duration_ms": 5}
            turn.step("tool:1.0", "done", "pure", body)
            for call in calls:
                turn.model_call(call)
            finish_turn(turn)
            record_plugin_counters(store, session, [PluginCalls("acme", "hook", 2, 1, 0.5, "broke")] * 2)
    record_plugin_calls(store, [("nowhere", "", ModelCallRow("c9", "plugin:acme", "q", "m", "ok", NOW, 1.0))])


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory, shared_database: str) -> Any:
    folder: Path = tmp_path_factory.mktemp("reports")
    # The folder's name is new each time: a worker may come back to this module after others.
    settings = JournalConfig(url=shared_database, schema=folder.name)
    with closing(open_store(folder)) as file, closing(open_store(folder, settings)) as database:
        for store in (file, database):
            fill(store)
        yield file, database


@pytest.mark.parametrize("name", REPORTS)
def test_a_report_is_the_same_on_both_stores(name: str, both: tuple[Store, Store]) -> None:
    file, database = (REPORTS[name](store) for store in both)
    assert database == file
