"""The store of the journal, as a port: transactions on the database that holds it, whichever that is.

``SqliteStore`` keeps the journal in a file of the home, ``PostgresStore`` in a database that several machines share.
"""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from hermes.base.config.environment import load_env_file
from hermes.base.config.files import config_path
from hermes.base.errors import ConfigError

if TYPE_CHECKING:
    from hermes.base.config.schema.sections import JournalConfig
    from hermes.journal.history.search import SearchIndex
    from hermes.journal.runner import Runner
    from hermes.journal.store.connection import JournalConnection

T = TypeVar("T")

#: The second condition on turns repeats that of their partial index, which is used only by a query that has it.
_CHANGES = (
    "SELECT count(*), coalesce(sum(head_seq), 0), coalesce(max(updated_at), 0), (SELECT count(*) FROM questions), "
    "(SELECT count(*) FROM questions WHERE state = 'pending'), "
    "(SELECT count(*) FROM turns WHERE state = 'queued' AND state IN ('queued', 'running')) FROM sessions"
)


class Store(ABC):
    """Access to the journal. Thread-safe."""

    #: It is thrown away afterwards, so that nothing waits for the disk.
    is_scratch = False
    #: Rows become visible in the order of their numbers: one transaction writes at a time.
    numbers_in_order = True

    @abstractmethod
    def write(self, work: Callable[[JournalConnection], T]) -> T:
        """Run ``work`` in a transaction and return its result once that is on disk.

        ``work`` may be run again when another process got in between, and changes nothing but the database.
        """

    @abstractmethod
    def write_soon(self, work: Callable[[JournalConnection], T]) -> T:
        """Run ``work`` in a transaction and return its result.

        It is written, so that the death of this process does not undo it, and is being brought to the disk. ``sync``
        waits for that.
        """

    @abstractmethod
    def read(self, work: Callable[[JournalConnection], T]) -> T:
        """Run ``work`` without changing anything. It sees every finished commit, and all its queries see the same."""

    def change_mark(self) -> object:
        """A value that differs when sessions, events or questions were committed since, by any process.

        Who waits for changes asks for it many times a second. A store that has something cheaper says that instead.
        """
        return self.read(lambda connection: connection.execute(_CHANGES).fetchone())

    def clock(self) -> float:
        """The time for what is recorded: where several machines write, that of their database."""
        return time.time()

    @abstractmethod
    def start_sync(self) -> None:
        """Bring what is written to the disk, beside this thread."""

    @abstractmethod
    def sync(self) -> None:
        """Return once everything that was written so far is on disk, so that it survives a power failure too."""

    @abstractmethod
    def erasing(self, connection: JournalConnection) -> AbstractContextManager[None]:
        """While it is open, rows are deleted for good, and no other transaction begins to use what is deleted."""

    @abstractmethod
    def give_back_space(self) -> None:
        """Make the files smaller where rows were deleted."""

    @abstractmethod
    def exists(self) -> bool:
        """Whether anything may be recorded: a journal that does not exist is empty, and is not made to be read."""

    @abstractmethod
    def check_after_crash(self) -> None:
        """Look for damage when the process that used the journal last has died. Raises ``JournalCorrupt``."""

    def notice(self) -> str:
        """A warning for the user about the state of the journal; empty when all is well."""
        return ""

    def files(self) -> list[Path]:
        """The files no other code of this process may open."""
        return []

    @property
    @abstractmethod
    def location(self) -> str:
        """Where the journal is, without a password, for messages."""

    @abstractmethod
    def new_runner(self) -> Runner:
        """This process as an owner of sessions."""

    @abstractmethod
    def search_index(self) -> SearchIndex:
        """The full-text search over the messages."""

    @abstractmethod
    def number_on(self, connection: JournalConnection) -> None:
        """Let new rows be numbered behind those that were copied with their numbers."""

    @abstractmethod
    def close(self) -> None:
        """Close the connections."""


def open_store(folder: Path, config: JournalConfig | None = None, *, is_scratch: bool = False) -> Store:
    """The journal of a home: in ``folder``, or in the database that the settings name. Nothing is opened yet."""
    if config is not None and config.url:
        from hermes.journal.store.postgres.store import PostgresStore

        return PostgresStore(config)
    from hermes.journal.store.sqlite.store import SqliteStore

    return SqliteStore(folder / "state.db", is_scratch=is_scratch)


def home_store(home: Path) -> Store:
    """The journal of a home as its configuration says, for commands that read no more of it than that."""
    from hermes.base.config.load import load_text, read_text

    path = config_path(home)
    try:
        text = read_text(path)
        if text is None or "journal" not in text:
            return open_store(home)
        environ = {**load_env_file(home, warnings=[]), **os.environ}
        return open_store(home, load_text(text, path, environ).config.journal)
    except ConfigError:
        return open_store(home)  # what cannot be read is not in use either
