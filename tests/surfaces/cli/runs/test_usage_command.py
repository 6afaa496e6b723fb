"""``hermes usage``: sums over all conversations, by day, model, purpose and session."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hermes.journal.history.branching import branch_session
from hermes.journal.leases import SessionInfo
from hermes.journal.runner import FileRunner
from hermes.journal.store.sqlite.store import SqliteStore
from hermes.journal.turns.lifecycle import begin_turn
from hermes.journal.turns.steps import ModelCallRow, record_model_call
from hermes.journal.usage.spending import GROUPINGS
from hermes.testing import ScriptedProvider, text
from support import run_hermes, write_config

NOW = time.time()
DAY = 86_400.0


def call(number: int, key: str = "model:1", *, age: float = 0, **fields: Any) -> ModelCallRow:
    known: dict[str, Any] = {"provider": "openrouter", "model": "large", "status": "ok", "duration": 1.0}
    return ModelCallRow(f"c{number}", key, started_at=NOW - age, **(known | fields))


#: Three priced calls, one whose price nobody knows, one that failed, and one of an older day.
CALLS = [
    call(1, input_tokens=1000, output_tokens=100, cost_usd=0.5),
    call(2, input_tokens=200, cache_read_tokens=800, cache_write_tokens=50, output_tokens=10, cost_usd=0.25),
    call(3, status="error", error="ProviderError: no"),
    call(4, "side:compression", model="small", input_tokens=500, output_tokens=50, cost_usd=1.5),
    call(5, "plugin:acme/router", provider="ollama", model="local", input_tokens=10, output_tokens=1),
    call(6, age=40 * DAY, input_tokens=7, output_tokens=7, cost_usd=8.0),
    call(7, status="crashed"),
]


@pytest.fixture
def used(home: Path) -> Path:
    """A home with two sessions and their calls."""
    with closing(SqliteStore(home / "state.db")) as store, closing(FileRunner(home / "runners")) as runner:
        for session in ("one", "two"):
            turn = begin_turn(
                store,
                runner,
                SessionInfo(session, "/", "cli", "openrouter", "large", None, None),
                turn_id=f"{session}:t",
                task_id="t",
                request_key="t",
                message={"role": "user", "content": f"the {session} question"},
            )
            turn.end("completed", answer="so")
            turn.commit()
        for number, row in enumerate(CALLS):
            record_model_call(store, "one" if number < 4 else "two", "one:t", row)
    return home


def rows_of(home: Path, *options: str) -> dict[str, dict[str, Any]]:
    done = run_hermes("usage", "--json", *options, home=home, cwd=home)
    document = msgspec.json.decode(done.stdout)
    assert (done.returncode, done.stderr) == (0, "")
    return {row["name"]: row for row in [*document["rows"], document["total"]]}


def test_by_model(used: Path) -> None:
    rows = rows_of(used, "--by", "model")
    assert list(rows) == ["small", "large", "local", "total"]
    assert rows["large"] == {
        "name": "large",
        "detail": "openrouter",
        "calls": 3,
        "failed": 1,
        "prompt_tokens": 2050,
        "cached_tokens": 800,
        "output_tokens": 110,
        "reasoning_tokens": 0,
        "cost_usd": 0.75,
        "unpriced": 0,
    }
    assert (rows["local"]["cost_usd"], rows["local"]["unpriced"]) == (None, 1)
    assert (rows["total"]["cost_usd"], rows["total"]["calls"], rows["total"]["unpriced"]) == (2.25, 5, 1)


def test_by_purpose(used: Path) -> None:
    rows = rows_of(used, "--by", "plugin")
    assert {name: row["calls"] for name, row in rows.items()} == {
        "side:compression": 1,
        "conversation": 3,
        "acme/router": 1,
        "total": 5,
    }


def test_by_session_and_by_day(used: Path) -> None:
    rows = rows_of(used, "--by", "session")
    assert {name: (row["detail"], row["calls"]) for name, row in rows.items()} == {
        "one": ("the one question", 4),
        "two": ("the two question", 1),
        "total": ("", 5),
    }
    today, long_ago = (time.strftime("%Y-%m-%d", time.localtime(NOW - age)) for age in (0, 40 * DAY))
    assert list(rows_of(used, "--since", "all")) == [today, long_ago, "total"]


@pytest.mark.parametrize(
    ("since", "calls"),
    [
        ("12h", 5),
        ("41d", 6),
        ("5w", 5),
        ("all", 6),
        (time.strftime("%Y-%m-%d", time.localtime(NOW - 41 * DAY)), 6),
        (time.strftime("%Y-%m-%dT%H:%M", time.localtime(NOW + DAY)), 0),
    ],
    # Without the times: processes that collect the tests in different minutes have to agree on the names.
    ids=["hours", "days", "weeks", "all", "date", "moment"],
)
def test_since(used: Path, since: str, calls: int) -> None:
    assert rows_of(used, "--since", since)["total"]["calls"] == calls


def test_a_branch_does_not_count_what_it_took_over(used: Path) -> None:
    with closing(SqliteStore(used / "state.db")) as store, closing(FileRunner(used / "runners")) as runner:
        branch_session(store, runner, "one", "three", "")
    assert rows_of(used)["total"]["calls"] == 5


def test_the_table(used: Path) -> None:
    done = run_hermes("usage", "--by", "model", home=used, cwd=used)
    assert done.stdout.splitlines() == [
        "MODEL                      CALLS     IN  CACHED  OUT     COST",
        "small (openrouter)             1    500       0   50    $1.50",
        "large (openrouter)  3 (1 failed)  2,050     800  110  $0.7500",
        "local (ollama)                 1     10       0    1        -",
        "total               5 (1 failed)  2,560     800  161    $2.25",
        "",
        "The cost of 1 call is unknown and not included.",
    ]


@pytest.mark.parametrize("grouping", GROUPINGS)
def test_nothing_used(home: Path, grouping: str) -> None:
    done = run_hermes("usage", "--by", grouping, home=home, cwd=home.parent)
    assert (done.returncode, done.stdout) == (
        0,
        "No model calls in that period. '--since all' shows everything.\n",
    )
    assert not home.exists()


@pytest.mark.parametrize("since", ["soon", "7y", "-3d", "9999999d", "2026-13-01", ""])
def test_a_time_that_is_none(home: Path, since: str) -> None:
    done = run_hermes("usage", f"--since={since}", home=home, cwd=home.parent)
    assert done.returncode == 2
    assert "allowed: a duration such as 12h, 7d or 4w, a date such as 2026-11-01, or all. See " in done.stderr


def test_an_answer_that_tells_no_tokens_is_not_taken_for_a_free_one(home: Path, workdir: Path) -> None:
    with ScriptedProvider(text("hi", usage={})) as provider:
        write_config(home, provider.base_url)
        run_hermes("chat", "-q", "hello", "-Q", home=home, cwd=workdir)
    total = rows_of(home)["total"]
    assert (total["calls"], total["cost_usd"], total["unpriced"]) == (1, None, 1)


def test_a_real_conversation_with_a_cost_that_the_provider_tells(home: Path, workdir: Path) -> None:
    usage = {"prompt_tokens": 12, "completion_tokens": 3, "cost": 0.0125}
    with ScriptedProvider(text("hi", usage=usage)) as provider:
        write_config(home, provider.base_url)
        done = run_hermes("chat", "-q", "hello", "--json", home=home, cwd=workdir)
    assert msgspec.json.decode(done.stdout)["cost_usd"] == 0.0125
    assert rows_of(home, "--by", "model")["scripted"]["cost_usd"] == 0.0125
