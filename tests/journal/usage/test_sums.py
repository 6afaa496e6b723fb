"""What was spent on a day is found without reading the whole history."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from hermes.journal.store.sqlite.store import SqliteStore
from hermes.journal.usage import sums

pytestmark = pytest.mark.both_stores


@pytest.mark.parametrize("condition", ["started_at >= :since", "key = :id AND started_at >= :since"])
@pytest.mark.sqlite_only
def test_the_sum_of_a_day_reads_no_other_day(store: SqliteStore, condition: str) -> None:
    store.write(lambda connection: connection.execute("SELECT 1").fetchall())
    query = sums._SUM.format(condition=condition)  # pyright: ignore[reportPrivateUsage]
    with closing(sqlite3.connect(store.path)) as connection:
        plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {query}", {"since": 1.0, "id": "plugin:p"})]
    tables = [line for line in plan if "model_calls" in line or "outside_calls" in line]
    assert len(tables) == 2 and all("USING INDEX" in line and "started_at>?" in line for line in tables)
