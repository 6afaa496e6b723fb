"""A journal of its own for every test, closed at the end.

The tests run on SQLite, and those that only use the port on PostgreSQL too: a test module, or a test, says so with
``pytest.mark.both_stores``. ``pytest.mark.sqlite_only`` takes one test of such a module out.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from pathlib import Path

import psycopg
import pytest

from hermes.base.config.schema.sections import JournalConfig
from hermes.journal.runner import Runner
from hermes.journal.store import port as stores
from hermes.journal.store.port import Store
from journal.kit import RunnerFactory, StoreFactory
from support.postgres import new_database


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "journal_kind" in metafunc.fixturenames:
        marked = metafunc.definition.get_closest_marker
        both = marked("both_stores") is not None and marked("sqlite_only") is None
        if marked("postgres_only") is not None:
            metafunc.parametrize("journal_kind", ["postgres"])
            return
        slow = [pytest.mark.slow] if marked("slow_on_postgres") is not None else []
        metafunc.parametrize("journal_kind", ["sqlite", pytest.param("postgres", marks=slow)] if both else ["sqlite"])


@pytest.fixture
def journal_path(tmp_path: Path) -> Path:
    return tmp_path / "journal" / "state.db"


@pytest.fixture(scope="session")
def shared_database(postgres_server_url: str) -> Generator[str]:
    """A database for all tests of this worker, which is emptied after each."""
    with new_database(postgres_server_url) as url:
        yield url


@pytest.fixture
def journal_settings(journal_kind: str, request: pytest.FixtureRequest) -> Generator[JournalConfig]:
    """The settings of the journal: empty for a file, or a database that is empty at first."""
    if journal_kind == "sqlite":
        yield JournalConfig()
        return
    url: str = request.getfixturevalue("shared_database")
    yield JournalConfig(url=url)
    _empty(url)


@pytest.fixture
def journal_address(journal_path: Path, journal_settings: JournalConfig) -> str:
    """The journal as ``journal.kit.journal_at`` opens it in another process."""
    return journal_settings.url or str(journal_path.parent)


def _empty(url: str) -> None:
    tables = ("sessions", "outside_calls", "blobs", "runners", "search_pending", "search_docs")
    statements = "; ".join(f"DELETE FROM hermes.{table}" for table in tables)
    with contextlib.suppress(psycopg.errors.UndefinedTable), psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"{statements}; ALTER SEQUENCE hermes.messages_id_seq RESTART".encode())


@pytest.fixture
def open_store(journal_path: Path, journal_settings: JournalConfig) -> Generator[StoreFactory]:
    """Opens the journal as another process would; every store is closed when the test ends."""
    opened: list[Store] = []

    def build() -> Store:
        opened.append(stores.open_store(journal_path.parent, journal_settings))
        return opened[-1]

    yield build
    for one in opened:
        one.close()


@pytest.fixture
def store(open_store: StoreFactory) -> Store:
    return open_store()


@pytest.fixture
def new_runner(store: Store) -> Generator[RunnerFactory]:
    """Makes runners that stand for separate processes, each alive until it is closed."""
    runners: list[Runner] = []

    def build() -> Runner:
        runners.append(store.new_runner())
        return runners[-1]

    yield build
    for runner in runners:
        runner.close()


@pytest.fixture
def runner(new_runner: RunnerFactory) -> Runner:
    return new_runner()
