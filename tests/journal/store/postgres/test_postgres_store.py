"""The journal in PostgreSQL: what it does that a file does not need."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Generator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from hermes.base.config.schema.sections import JournalConfig
from hermes.base.errors import CommitUnknown, JournalError, JournalTooNew, JournalUnavailable, LeaseLost
from hermes.journal.bodies import drop_unused_blobs, put_blob
from hermes.journal.history.inspection import inspect_session
from hermes.journal.history.tail import EventStream
from hermes.journal.sessions import Sessions
from hermes.journal.store import schema
from hermes.journal.store.connection import JournalConnection
from hermes.journal.store.postgres import runner as runner_module
from hermes.journal.store.postgres.dialect import translate
from hermes.journal.store.postgres.runner import PostgresRunner
from hermes.journal.store.postgres.store import PostgresStore
from hermes.journal.store.sqlite.database import empty_journal
from hermes.trace.verify.session import verify
from journal.kit import finish_turn, insert_session, rows, session_ids, start_turn
from support.cut_proxy import Cut, CutProxy
from support.postgres import with_database
from support.postgres_server import PostgresServer
from support.waiting import finish, wait_for, wait_until

pytestmark = pytest.mark.postgres_only

OpenShared = Callable[..., PostgresStore]


@pytest.fixture
def open_shared() -> Generator[OpenShared]:
    """Opens journals by their address; all are closed when the test ends."""
    with contextlib.ExitStack() as stack:

        def build(url: str, **settings: Any) -> PostgresStore:
            return stack.enter_context(closing(PostgresStore(JournalConfig(url=url, **settings))))

        yield build


@pytest.fixture
def shared(journal_settings: JournalConfig, open_shared: OpenShared) -> PostgresStore:
    return open_shared(journal_settings.url)


# -- the dialect -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sql", "expected", "names"),
    [
        ("SELECT ? + ?", "SELECT $1 + $2", None),
        ("SELECT :b, :a, :b", "SELECT $1, $2, $1", ("b", "a")),
        ("SELECT '?:x''?', ?::text", "SELECT '?:x''?', $1::text", None),
        ("SELECT ? -- what? :x\n, ?", "SELECT $1 -- what? :x\n, $2", None),
    ],
)
def test_placeholders_become_numbers_outside_of_texts(sql: str, expected: str, names: tuple[str, ...] | None) -> None:
    assert translate(sql) == (expected.encode(), names)


def test_the_tables_have_the_columns_that_sqlite_has(shared: PostgresStore) -> None:
    def columns(connection: JournalConnection, name: str) -> list[str]:
        return [column[0] for column in connection.execute(f"SELECT * FROM {name} WHERE 1 = 0").description]

    with closing(empty_journal()) as lite:
        query = "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite_%'"
        names = [name for (name,) in lite.execute(query)]
        expected = {name: columns(lite, name) for name in names}
    found = shared.read(lambda connection: {name: columns(connection, name) for name in names})
    assert {name: [one for one in found[name] if one != "rowid"] for name in names} == expected


def test_texts_are_kept_but_for_what_the_database_cannot_hold(shared: PostgresStore) -> None:
    texts = ["plain", "a\0b", "\ud800 alone", "🙂 and \u2028", "x" * 5_000_000]
    for number, text in enumerate(texts):
        shared.write(lambda c, n=number, t=text: c.execute("INSERT INTO blobs VALUES (?, ?)", (str(n), t)))
    stored = [row[0] for row in rows(shared, "SELECT data FROM blobs ORDER BY sha256")]
    assert stored == ["plain", "a?b", "? alone", "🙂 and \u2028", "x" * 5_000_000]


def test_values_come_back_as_they_do_from_sqlite(shared: PostgresStore) -> None:
    query = "SELECT ?, ?, ?, ?, ?, sum(n), sum(n * 0.5), count(*) FROM (SELECT 1 AS n UNION ALL SELECT 2) AS numbers"
    values = ("text", 7, 2**40, 0.1, b"\0\xff")
    found = shared.read(lambda connection: connection.execute(query, values).fetchone())
    assert found == (*values, 3, 1.5, 2) and isinstance(found[5], int) and isinstance(found[6], float)


# -- commits -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cut", ["before", "after"])
def test_a_commit_that_was_cut_off_is_looked_up_and_never_made_twice(
    journal_settings: JournalConfig, open_shared: OpenShared, cut: Cut
) -> None:
    with closing(CutProxy(journal_settings.url)) as proxy:
        store = open_shared(proxy.url)
        with closing(store.new_runner()) as runner:
            turn = start_turn(store, runner)
            for number in range(3):
                turn.step(f"tool:1.{number}", "done", "pure", {"n": number})
                proxy.cut = cut
                finish(turn.commit)
            finish_turn(turn)
        assert proxy.cuts == 3
        keys = [row[0] for row in rows(store, "SELECT key FROM events WHERE effect IS NOT NULL ORDER BY seq")]
        assert keys == ["tool:1.0", "tool:1.1", "tool:1.2"]
        assert [problem.text for problem in verify(inspect_session(store, "s1"))] == ["the answer was never recorded"]


def test_a_commit_whose_outcome_stays_unknown_ends_the_writing(
    own_postgres: PostgresServer, open_shared: OpenShared
) -> None:
    store = open_shared(own_postgres.url(), wait_seconds=0.5)
    with closing(store.new_runner()) as runner:
        turn = start_turn(store, runner)
        turn.step("setup", "done", "pure", {})

        def stop(connection: JournalConnection) -> None:
            own_postgres.stop(signal.SIGQUIT)

        turn._pending.others.append(stop)  # pyright: ignore[reportPrivateUsage]
        with pytest.raises(CommitUnknown, match="is not known"):
            finish(turn.commit)
        own_postgres.start()
        with pytest.raises(CommitUnknown):
            turn.commit()
        assert rows(store, "SELECT kind FROM events") == [("turn_started",)], "nothing was written twice, or guessed"


def test_work_waits_for_a_server_that_comes_back(own_postgres: PostgresServer, open_shared: OpenShared) -> None:
    store = open_shared(own_postgres.url())
    store.write(lambda connection: insert_session(connection, "a"))
    own_postgres.stop(signal.SIGQUIT)
    with pytest.raises(JournalUnavailable, match=r"postgresql://postgres@127\.0\.0\.1:\d+/postgres cannot be reached"):
        open_shared(own_postgres.url(), wait_seconds=0.5).read(lambda connection: connection.execute("SELECT 1"))
    done: list[str] = []
    writer = threading.Thread(
        target=lambda: done.append(store.write(lambda connection: insert_session(connection, "b")))
    )
    writer.start()
    own_postgres.start()
    writer.join(60)
    assert done == ["b"]
    assert session_ids(store) == ["a", "b"]


def test_work_that_another_process_got_ahead_of_is_run_again(shared: PostgresStore, open_shared: OpenShared) -> None:
    other, runs = open_shared(shared.url), list[int]()

    def add(connection: JournalConnection) -> str:
        runs.append(1)
        if connection.execute("SELECT 1 FROM sessions WHERE id = 's1'").fetchone() is not None:
            return "known"
        if len(runs) == 1:
            finish(lambda: other.write(lambda another: insert_session(another, "s1")))
        insert_session(connection, "s1")
        return "new"

    assert shared.write(add) == "known"
    assert len(runs) == 2


def test_a_mistake_is_not_run_again_for_ever(shared: PostgresStore) -> None:
    def twice(connection: JournalConnection) -> None:
        insert_session(connection, "s1")
        insert_session(connection, "s1")

    with pytest.raises(JournalError, match="duplicate key"):
        shared.write(twice)
    assert session_ids(shared) == []


def test_a_failed_statement_that_was_swallowed_records_nothing(shared: PostgresStore) -> None:
    def work(connection: JournalConnection) -> None:
        insert_session(connection, "s1")
        with contextlib.suppress(psycopg.Error):
            connection.execute("SELECT nonsense").fetchall()

    with pytest.raises(JournalError, match="nothing was recorded"):
        shared.write(work)
    assert session_ids(shared) == []


def test_a_blob_is_not_deleted_while_another_session_begins_to_use_it(
    shared: PostgresStore, open_shared: OpenShared
) -> None:
    digest = shared.write(lambda connection: put_blob(connection, "shared text"))
    other, used, may_end = open_shared(shared.url), threading.Event(), threading.Event()

    def use(connection: JournalConnection) -> None:
        insert_session(connection, "s1")
        put_blob(connection, "shared text", "s1")
        connection.execute("SELECT 1").fetchone()  # the server has run the statements before it
        used.set()
        wait_for(may_end)

    def delete(connection: JournalConnection) -> None:
        with shared.erasing(connection):
            drop_unused_blobs(connection)

    user, deleter = (
        threading.Thread(target=store.write, args=(work,)) for store, work in ((other, use), (shared, delete))
    )
    user.start()
    wait_for(used)
    deleter.start()
    query = "SELECT count(*) FROM pg_locks WHERE NOT granted"
    wait_until(lambda: other.read(lambda c: c.execute(query).fetchone()[0]), "the deletion waits")
    may_end.set()
    user.join(60)
    deleter.join(60)
    assert rows(shared, "SELECT sha256 FROM blobs") == [(digest,)]


def test_a_follower_sees_events_that_are_committed_out_of_order(shared: PostgresStore, open_shared: OpenShared) -> None:
    other, stream, early, may_end = open_shared(shared.url), EventStream(shared), threading.Event(), threading.Event()
    with closing(shared.new_runner()) as runner:
        slow, fast = start_turn(shared, runner, "slow"), start_turn(shared, runner, "fast")
        assert {event.session_id for event in stream.new()} == {"slow", "fast"}

        def hold(connection: JournalConnection) -> None:
            connection.execute("SELECT 1").fetchone()  # the server has run the statements before it
            early.set()
            wait_for(may_end)

        slow.event("note", "", "numbered first")
        slow._pending.others.append(hold)  # pyright: ignore[reportPrivateUsage]
        writer = threading.Thread(target=slow.commit)
        writer.start()
        wait_for(early)
        fast.event("note", "", "committed first")
        fast.commit()
        assert [event.body for event in stream.new()] == ["committed first"]
        may_end.set()
        writer.join(60)
        assert [event.body for event in stream.new()] == ["numbered first"]
        assert stream.new() == [] and session_ids(other) == ["fast", "slow"]


def test_threads_share_the_connections_that_there_are(journal_settings: JournalConfig, open_shared: OpenShared) -> None:
    store = open_shared(journal_settings.url, pool_size=2)

    def add(number: int) -> None:
        store.write(lambda connection: insert_session(connection, f"s{number}"))

    threads = [threading.Thread(target=add, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(session_ids(store)) == 12


# -- runners -----------------------------------------------------------------------------------------------------------


def test_an_evicted_runner_learns_of_it_and_writes_nothing_more(
    shared: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner_module, "BEAT_SECONDS", 0.01)
    evicted = threading.Event()
    with closing(shared.new_runner()) as runner, closing(shared.new_runner()) as other:
        runner.on_eviction = evicted.set
        turn = start_turn(shared, runner)
        other.start()
        assert other.is_alive(runner.id)
        assert other.describe(runner.id).startswith("process ")
        shared.write(lambda connection: connection.execute("DELETE FROM runners WHERE id = ?", (runner.id,)))
        wait_for(evicted)
        # For the first seconds of a server no runner counts as dead.
        wait_until(lambda: not other.is_alive(runner.id), "the runner counts as dead")
        shared.write(lambda connection: connection.execute("UPDATE sessions SET epoch = epoch + 1"))
        turn.event("note", "", 1)
        with pytest.raises(LeaseLost):
            turn.commit()
        with pytest.raises(JournalError, match="evicted"):
            runner.start()


def test_a_runner_takes_its_lock_again_after_its_connection_was_cut(
    shared: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner_module, "BEAT_SECONDS", 0.01)
    with closing(shared.new_runner()) as runner, closing(shared.new_runner()) as other:
        runner.start()
        query = (
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE application_name = ? AND pid <> pg_backend_pid()"
        )
        other.start()
        before = _lock_holder(shared, runner)
        shared.read(lambda connection: connection.execute(query, (f"hermes:{runner.id}",)).fetchall())
        wait_until(lambda: _lock_holder(shared, runner) not in (None, before), "the lock is taken again")
        assert other.is_alive(runner.id) and not runner.is_evicted


def _lock_holder(store: PostgresStore, runner: PostgresRunner) -> int | None:
    query = (
        "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted "
        "AND (classid::bigint << 32) | objid::bigint = hashtextextended(current_schema() || ':' || CAST(? AS text), 0)"
    )
    found = store.read(lambda connection: connection.execute(query, (runner.id,)).fetchone())
    return found[0] if found else None


def test_after_a_start_of_the_server_no_runner_counts_as_dead_yet(
    own_postgres: PostgresServer, open_shared: OpenShared, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner_module, "BEAT_SECONDS", 3600)
    store = open_shared(own_postgres.url())
    with closing(store.new_runner()) as runner, closing(store.new_runner()) as other:
        runner.start()
        own_postgres.stop(signal.SIGQUIT)
        own_postgres.start()
        assert other.is_alive(runner.id)
        assert not other.is_alive("unheard of")


# -- versions and errors -----------------------------------------------------------------------------------------------


def test_tables_of_a_newer_or_older_version_are_refused(postgres_url: str, open_shared: OpenShared) -> None:
    open_shared(postgres_url).write(lambda connection: insert_session(connection, "s1"))
    newest = len(schema.MIGRATIONS)

    def pretend(version: int) -> None:
        with psycopg.connect(postgres_url) as connection:
            connection.execute("UPDATE hermes.schema_version SET version = %s", (version,))

    pretend(newest + 1)
    with pytest.raises(JournalTooNew, match="newer version of hermes"):
        session_ids(open_shared(postgres_url))
    pretend(newest - 1)
    with pytest.raises(JournalError, match="run 'hermes db migrate'"):
        session_ids(open_shared(postgres_url))


def test_journals_in_other_schemas_are_apart(postgres_url: str, open_shared: OpenShared) -> None:
    for name in ("one", 'odd "name'):
        open_shared(postgres_url, schema=name).write(lambda connection, n=name: insert_session(connection, n))
    assert session_ids(open_shared(postgres_url, schema="one")) == ["one"]
    assert session_ids(open_shared(postgres_url, schema='odd "name')) == ['odd "name']


def test_what_is_wrong_with_an_address_is_one_clear_line(own_postgres: PostgresServer, open_shared: OpenShared) -> None:
    with psycopg.connect(own_postgres.url(), autocommit=True) as connection:
        connection.execute("CREATE ROLE locked LOGIN PASSWORD 'right-password'")
        connection.execute("CREATE ROLE nobody_special LOGIN")
    hba = own_postgres.data / "pg_hba.conf"
    hba.write_text("host all locked 127.0.0.1/32 scram-sha-256\n" + hba.read_text())
    own_postgres.stop()
    own_postgres.start()
    good = own_postgres.url()
    cases = {
        good.replace("postgres@", "locked:wrong-password@"): "refuses the user or the password",
        with_database(good, "nowhere"): "no such database",
        good.replace(f":{own_postgres.port}", ":1"): "cannot be reached",
        good + "?sslmode=require": "no encrypted connection",
        good + "?options=-cdefault_transaction_read_only%3Don": "read-only",
        good.replace("postgres@", "nobody_special@"): "may not do that",
        good.replace("127.0.0.1", "no-such-host.invalid"): "cannot be reached",
        "postgresql://[broken": "journal.url",
        "mysql://localhost/x": "begins with postgresql://",
    }
    for url, expected in cases.items():
        with pytest.raises(JournalError) as caught:
            session_ids(open_shared(url))
        message = str(caught.value)
        assert expected in message and "\n" not in message and "wrong-password" not in message, (url, message)


def test_the_address_is_shown_without_its_password(open_shared: OpenShared) -> None:
    store = open_shared("postgresql://me:s3cret-word@db.example.org:6432/work?password=s3cret-word")
    assert store.location == "postgresql://me@db.example.org:6432/work"


def test_times_that_order_things_are_those_of_the_database(
    journal_settings: JournalConfig, open_shared: OpenShared, monkeypatch: pytest.MonkeyPatch
) -> None:
    right, wrong = open_shared(journal_settings.url), open_shared(journal_settings.url)
    with closing(right.new_runner()) as runner:
        finish_turn(start_turn(right, runner, "first"))
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() - 7_200)  # this machine is two hours behind
    with closing(wrong.new_runner()) as runner:
        finish_turn(start_turn(wrong, runner, "second"))
    assert [row.id for row in Sessions(right).list()] == ["second", "first"]


def test_an_unused_store_imports_no_driver(tmp_path: Path) -> None:
    from journal.kit import python

    script = (
        "import sys; from pathlib import Path; from hermes.journal.store.port import home_store\n"
        "store = home_store(Path(sys.argv[1])); store.exists(); store.new_runner(); store.close()\n"
        "assert not {'psycopg', 'hermes.journal.store.postgres.store'} & set(sys.modules)"
    )
    done = python(script, str(tmp_path))
    assert done.returncode == 0, done.stderr
