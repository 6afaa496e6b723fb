"""The tables of the A2A server without a server: in a journal of a folder, or of a database."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from hermes.agent.workers import Workers
from hermes.base.config.schema.sections import JournalConfig
from hermes.base.scope import new_id
from hermes.journal.store.port import Store, open_store
from hermes.surfaces.a2a.server.store.tasks import JournalTaskStore
from hermes.surfaces.a2a.server.store.webhooks import JournalPushConfigStore


class A2ATables:
    """A journal with the tables, and the stores over them."""

    def __init__(self, store: Store, *, is_shared: bool = False) -> None:
        self.store, self.workers, self.is_shared = store, Workers(), is_shared

    def tasks(self, runner_id: str = "") -> JournalTaskStore:
        """A store of tasks, as another server has it."""
        return JournalTaskStore(self.store, runner_id or new_id(), self.workers, is_shared=self.is_shared)

    def webhooks(self) -> JournalPushConfigStore:
        """A store of webhooks."""
        return JournalPushConfigStore(self.store, self.workers, is_shared=self.is_shared)


@contextmanager
def a2a_tables(folder: Path, url: str = "") -> Generator[A2ATables]:
    """The tables, closed afterwards."""
    made = A2ATables(open_store(folder, JournalConfig(url=url)), is_shared=bool(url))
    try:
        yield made
    finally:
        made.workers.close()
        made.store.close()
