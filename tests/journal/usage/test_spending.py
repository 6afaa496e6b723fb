"""Costs by day, model and plugin: asked for at once, they are what each grouping says alone."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path

import pytest

from hermes.journal.leases import SessionInfo
from hermes.journal.store.port import home_store
from hermes.journal.turns.steps import ModelCallRow, record_plugin_calls
from hermes.journal.usage.spending import usage_by
from journal.kit import finish_turn, start_turn

DAY = 86_400.0


@pytest.mark.parametrize("days", [0.5, 10, 100])
def test_the_overview_is_what_the_groupings_say(home: Path, days: float) -> None:
    now = time.time()
    rows = [
        ModelCallRow("c1", "model:1", "p", "large", "ok", now, 1.0, input_tokens=10, output_tokens=3, cost_usd=0.5),
        ModelCallRow("c2", "side:title", "p", "small", "error", now - DAY, 2.0, error="no"),
        ModelCallRow("c3", "plugin:acme", "q", "small", "ok", now - 5 * DAY, 2.0, output_tokens=7),
        ModelCallRow("c4", "model:2", "q", "large", "ok", now - 50 * DAY, 2.0, cache_read_tokens=7, cost_usd=0.25),
        ModelCallRow("c5", "model:3", "q", "large", "crashed", now, 2.0, cost_usd=9),
    ]
    with closing(home_store(home)) as store:
        with closing(store.new_runner()) as runner:
            for session in ("one", "branch"):
                turn = start_turn(store, runner, SessionInfo(session, "/"), turn_id=f"{session}:turn")
                for row in rows:
                    turn.model_call(row)
                finish_turn(turn)
        record_plugin_calls(store, [("nowhere", "", ModelCallRow("c9", "plugin:acme", "q", "m", "ok", now, 1.0))])
        # The second one took over what is older than two days.
        change = "UPDATE sessions SET branched_from = 'one', created_at = ? WHERE id = 'branch'"
        store.write(lambda connection: connection.execute(change, (now - 2 * DAY,)))
        since = now - days * DAY
        calls = {0.5: 3, 10: 6, 100: 7}[days]
        for grouping in ("day", "model", "plugin"):
            assert sum(used.calls for used in usage_by(store, grouping, since)) == calls
