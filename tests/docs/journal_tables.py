"""The tables of the database, as a table."""

from __future__ import annotations

from hermes.journal.store.sqlite.database import empty_journal

from .markdown import code, table


def tables() -> str:
    """Every table and view of ``state.db`` with its columns."""
    database = empty_journal()
    try:
        found = database.execute(
            "SELECT name, type FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite_%'"
        ).fetchall()
        rows: list[tuple[str, str]] = []
        for name, kind in found:
            columns = [code(column[1]) for column in database.execute(f"PRAGMA table_info({name})")]
            rows.append((code(name) + (" (view)" if kind == "view" else ""), ", ".join(columns)))
        return table(("table", "columns"), rows)
    finally:
        database.close()
