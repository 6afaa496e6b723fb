"""Checks of ``search.db``, the index of past conversations that can be deleted at any time."""

from __future__ import annotations

import sqlite3
from contextlib import closing

from hermes.cli.doctor.finding import Finding, broken, ok, size
from hermes.cli.doctor.patient import Patient
from hermes.commands.wording import plural
from hermes.journal.history.search import SearchIndex

_LAST_MESSAGE = "SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'messages'), 0)"
_BEHIND = "SELECT count(*) FROM messages WHERE id > ? AND role IN ('user', 'assistant')"


def check_index(patient: Patient) -> Finding:
    """Whether the index can be read and belongs to this journal. ``--fix`` removes one that is of no use."""
    path = patient.home / "search.db"
    if not path.exists():
        return ok("search index", "not built yet; the first search does")
    with closing(patient.store()) as store:
        problem, watermark = _look(path.absolute().as_uri())
        last, behind = store.read(
            lambda connection: (
                connection.execute(_LAST_MESSAGE).fetchone()[0],
                connection.execute(_BEHIND, (watermark,)).fetchone()[0],
            )
        )
        if not problem and watermark > last:
            problem = "it belongs to another journal"
        if not problem:
            lag = f", {plural(behind, 'message')} behind (the next search catches up)" if behind else ""
            return ok("search index", f"{size(path.stat().st_size)}{lag}")
        if not patient.fix:
            detail = f"{path} cannot be used: {problem}"
            return broken("search index", detail, command="hermes doctor --fix", fixable=True)
        for file in SearchIndex(store, path).files():
            file.unlink(missing_ok=True)
    return ok("search index", f"removed ({problem}); the next search builds it anew", fixed=True)


def _look(address: str) -> tuple[str, int]:
    """What is wrong with the file, and how far the index has come."""
    try:
        with closing(sqlite3.connect(f"{address}?mode=ro", uri=True)) as index:
            verdict = str(index.execute("PRAGMA quick_check(1)").fetchone()[0])
            watermark = index.execute("SELECT max(message_id) FROM watermark").fetchone()[0] or 0
    except sqlite3.Error as error:
        return str(error), 0
    return "" if verdict == "ok" else verdict, watermark
