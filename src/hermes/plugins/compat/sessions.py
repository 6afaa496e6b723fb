"""``hermes_state``: the stored sessions, read-only, those of the caller that the running work belongs to."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from hermes.journal.history.session_file import count_in_file, session_in_file
from hermes.plugins.compat.agent.runtime import service
from hermes.plugins.compat.names import Names, home_of
from hermes.plugins.services import PluginHost


class PluginSqlite(ModuleType):
    """``sqlite3`` for a plugin: the real one, which opens the copy in place of the ``state.db`` of the home.

    The journal has that name too, with other tables; plugins that read it themselves mean upstream's.
    """

    def __init__(self, host: PluginHost) -> None:
        super().__init__("sqlite3")
        self._host = host

    def connect(self, database: Any, *args: Any, **options: Any) -> sqlite3.Connection:
        """A connection to a file of the plugin, or to the copy of the sessions."""
        text = os.fsdecode(cast("str | Path", database)) if hasattr(database, "__fspath__") else str(database)
        prefix, query = "", ""
        if text.startswith("file:"):
            prefix, (text, _, query) = "file:", text.removeprefix("file:").partition("?")
        if not text.endswith("state.db") or Path(text).absolute() != (home_of(self._host) / "state.db").absolute():
            return sqlite3.connect(database, *args, **options)
        return sqlite3.connect(f"{prefix}{service(self._host, 'session_file')()}?{query}".rstrip("?"), *args, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(sqlite3, name)


def state(host: PluginHost) -> Names:
    """The class, and the path of a database with upstream's columns, which is written when one of them is used."""

    def database() -> Path:
        return service(host, "session_file")()

    class SessionDB:
        """The stored sessions."""

        def __init__(self, db_path: Any = None, read_only: bool = True, **_options: Any) -> None:
            self._opened: sqlite3.Connection | None = None

        @property
        def _conn(self) -> sqlite3.Connection:
            """A connection to a copy with upstream's tables; it may add temporary tables and change nothing else."""
            if self._opened is None:
                opened = sqlite3.connect(f"{database().as_uri()}?mode=ro", uri=True, check_same_thread=False)
                opened.row_factory = sqlite3.Row
                self._opened = opened
            return self._opened

        def list_sessions_rich(
            self, limit: int = 20, order_by_last_active: bool = False, **_options: Any
        ) -> list[dict[str, Any]]:
            """The latest sessions, newest first."""
            rows = cast("list[dict[str, Any]]", service(host, "list_sessions")(limit))
            return sorted(rows, key=lambda row: row["last_active"], reverse=True) if order_by_last_active else rows

        def get_session(self, session_id: str) -> dict[str, Any] | None:
            """One session, with upstream's columns."""
            return session_in_file(self._conn, session_id)

        def get_messages(self, session_id: str, **_options: Any) -> list[dict[str, Any]]:
            """The messages of a session."""
            return service(host, "session_messages")(session_id)

        def session_count(self, **_options: Any) -> int:
            """How many sessions there are."""
            return count_in_file(self._conn)

        def close(self) -> None:
            """Close the connection, if one was opened."""
            if self._opened is not None:
                self._opened.close()
                self._opened = None

    def lazily(name: str) -> Path:
        if name == "DEFAULT_DB_PATH":
            # A host without sessions, such as one made for a test, names a file that is not there.
            return database() if hasattr(host.services, "session_file") else home_of(host) / "state.db"
        raise AttributeError(f"module 'hermes_state' has no attribute {name!r}")

    return {
        "SessionDB": SessionDB,
        "_default_db_path": lambda: lazily("DEFAULT_DB_PATH"),
        "__getattr__": lazily,
        "__lazy__": ("DEFAULT_DB_PATH",),
    }
