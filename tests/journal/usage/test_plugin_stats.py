"""The counters of plugins: added up over sessions, gone with them, never made up."""

from __future__ import annotations

import pytest

from hermes.journal.leases import SessionInfo
from hermes.journal.runner import Runner
from hermes.journal.sessions import Sessions
from hermes.journal.store.port import Store
from hermes.journal.store.sqlite.store import SqliteStore
from hermes.journal.turns.lifecycle import begin_turn
from hermes.journal.usage.plugins import PluginCalls, plugin_totals, record_plugin_counters

pytestmark = pytest.mark.both_stores


def begin(store: Store, runner: Runner, session_id: str) -> None:
    begin_turn(
        store,
        runner,
        SessionInfo(session_id, "/", "cli", "p", "m", None, None),
        turn_id=f"{session_id}:t",
        task_id="t",
        request_key="t",
        message={"role": "user", "content": "hi"},
    )


def test_counters_add_up_over_sessions_and_processes(store: Store, runner: Runner) -> None:
    begin(store, runner, "one")
    begin(store, runner, "two")
    hook = PluginCalls("p", "pre_tool_call", 2, 1, 0.5, "ValueError: no")
    record_plugin_counters(store, "one", [hook, PluginCalls("p", "register", 1, 1, 0, "it broke")])
    record_plugin_counters(store, "one", [PluginCalls("p", "pre_tool_call", 1), PluginCalls("p", "register", 1)])
    record_plugin_counters(store, "two", [PluginCalls("p", "post_tool_call", 4, 0, 1.0), PluginCalls("p", "tool:grep")])
    record_plugin_counters(store, "two", [PluginCalls("q", "register", 1, 1, 0, "x" * 1000)])
    totals = plugin_totals(store)
    assert set(totals) == {"p", "q"}
    p = totals["p"]
    assert (p.calls, p.failures, p.seconds, p.last_error, p.sessions) == (7, 1, 1.5, "ValueError: no", 2)
    # What it joined is told by the session that ended last.
    assert (p.sites, p.tools, p.load_error) == (["post_tool_call"], ["grep"], "")
    assert totals["q"].load_error == "x" * 500
    assert totals["q"].calls == 0


def test_a_load_that_failed_is_forgotten_once_it_works(store: Store, runner: Runner) -> None:
    begin(store, runner, "one")
    record_plugin_counters(store, "one", [PluginCalls("p", "register", 1, 1, 0, "it broke")])
    assert plugin_totals(store)["p"].load_error == "it broke"
    record_plugin_counters(store, "one", [PluginCalls("p", "register", 1)])
    assert plugin_totals(store)["p"].load_error == ""


def test_a_session_that_is_not_on_record_leaves_nothing(store: Store, runner: Runner) -> None:
    record_plugin_counters(store, "one", [PluginCalls("p", "register", 1)])
    if isinstance(store, SqliteStore):
        assert not store.path.exists()
    begin(store, runner, "one")
    record_plugin_counters(store, "other", [PluginCalls("p", "register", 1)])
    assert plugin_totals(store) == {}


def test_deleting_a_session_deletes_its_counters(store: Store, runner: Runner) -> None:
    begin(store, runner, "one")
    record_plugin_counters(store, "one", [PluginCalls("p", "\ud800", 1), PluginCalls("p\ud800", "register", 1)])
    store.write(lambda connection: connection.execute("UPDATE sessions SET runner = NULL"))
    Sessions(store).delete("one", runner)
    assert plugin_totals(store) == {}
