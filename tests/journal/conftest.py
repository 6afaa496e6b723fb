"""A journal of its own for every test, closed at the end."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from hermes.journal.runner import FileRunner, Runner
from hermes.journal.sqlite.store import SqliteStore
from hermes.journal.store import Store
from journal.kit import RunnerFactory, StoreFactory


@pytest.fixture
def journal_path(tmp_path: Path) -> Path:
    return tmp_path / "journal" / "state.db"


@pytest.fixture
def open_store(journal_path: Path) -> Generator[StoreFactory]:
    """Opens the journal as another process would; every store is closed when the test ends."""
    stores: list[Store] = []

    def build() -> Store:
        stores.append(SqliteStore(journal_path))
        return stores[-1]

    yield build
    for store in stores:
        store.close()


@pytest.fixture
def store(open_store: StoreFactory) -> Store:
    return open_store()


@pytest.fixture
def new_runner(tmp_path: Path) -> Generator[RunnerFactory]:
    """Makes runners that stand for separate processes, each alive until it is closed."""
    runners: list[Runner] = []

    def build() -> Runner:
        runners.append(FileRunner(tmp_path / "journal" / "runners"))
        return runners[-1]

    yield build
    for runner in runners:
        runner.close()


@pytest.fixture
def runner(new_runner: RunnerFactory) -> Runner:
    return new_runner()
