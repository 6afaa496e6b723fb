"""The tables of the database, as a table."""

from __future__ import annotations

from hermes.journal.records import EVENTS, STEPS
from hermes.journal.store.sqlite.database import empty_journal

from .markdown import code, table


def records() -> str:
    """Every kind of event and step, with the type of its body."""
    steps = ((code(f"step_done {name}"), kind) for name, kind in STEPS.items())
    events = ((code(name), kind) for name, kind in EVENTS.items())
    rows = [
        (
            tag,
            (kind.__doc__ or "").partition("\n")[0].replace("``", "`"),
            code(kind.__name__),
            ", ".join(code(name) for name in kind.__struct_encode_fields__),
        )
        for tag, kind in (*events, *steps)
    ]
    return table(("event", "what its body is", "type", "fields"), rows)


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
