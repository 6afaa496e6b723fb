"""Lists of sessions: those that match a search, are open or were used lately, with sums over each of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

from msgspec import Struct

from hermes.journal.history.rows import SESSION_COLUMNS, SessionFacts
from hermes.journal.questions import PENDING
from hermes.journal.store.connection import JournalConnection, placeholders
from hermes.journal.store.port import Store

#: How many values one statement is given.
_MOST_VALUES = 500
_STATE_OF_LAST = (
    "(SELECT t.state FROM turns t WHERE t.session_id = sessions.id AND t.undone = 0 ORDER BY t.ordinal DESC LIMIT 1)"
)


class CallSums(Struct, frozen=True):
    """What the model calls of a session took."""

    calls: int
    failed: int
    read: int
    written: int
    cost_usd: float | None


def matching_sessions(
    connection: JournalConnection,
    words: Sequence[str],
    *,
    state: Literal["", "running", "failed"] = "",
    before: float | None = None,
    limit: int,
) -> list[SessionFacts]:
    """The sessions used last, newest first, without those of children.

    Each of the words is in the title, the id or the model. ``state`` is that of the last turn, ``before`` a time.
    """
    conditions, values = ["parent_id IS NULL"], list[Any]()
    if before is not None:
        conditions.append("updated_at < ?")
        values.append(before)
    for word in words:
        pattern = "%" + word.lower().replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") + "%"
        columns = ("lower(title)", "id", "lower(model)")
        conditions.append("(" + " OR ".join(f"{column} LIKE ? ESCAPE '\\'" for column in columns) + ")")
        values += [pattern] * len(columns)
    if state == "running":
        conditions.append("id IN (SELECT session_id FROM turns WHERE state IN ('queued', 'running') AND undone = 0)")
    elif state == "failed":
        conditions.append(f"{_STATE_OF_LAST} = 'failed'")
    where = " AND ".join(conditions)
    query = f"SELECT {SESSION_COLUMNS} FROM sessions WHERE {where} ORDER BY updated_at DESC LIMIT ?"
    return [SessionFacts(*row) for row in connection.execute(query, (*values, limit)).fetchall()]


def open_sessions(connection: JournalConnection) -> list[str]:
    """The sessions with a turn that has not ended, without those of children."""
    query = (
        "SELECT DISTINCT t.session_id FROM turns t JOIN sessions s ON s.id = t.session_id "
        "WHERE t.state IN ('queued', 'running') AND s.parent_id IS NULL"
    )
    return [found for (found,) in connection.execute(query).fetchall()]


def recent_sessions(connection: JournalConnection, since: float, limit: int) -> list[str]:
    """The sessions that were used after that time, newest first, without those of children."""
    query = "SELECT id FROM sessions WHERE updated_at > ? AND parent_id IS NULL ORDER BY updated_at DESC LIMIT ?"
    return [found for (found,) in connection.execute(query, (since, limit)).fetchall()]


def count_sessions(connection: JournalConnection) -> int:
    """How many sessions there are."""
    return connection.execute("SELECT count(*) FROM sessions").fetchone()[0]


def principals_since(connection: JournalConnection, moment: float) -> list[str]:
    """The callers whose sessions were used since then."""
    query = "SELECT DISTINCT principal FROM sessions WHERE principal <> '' AND updated_at >= ?"
    return [name for (name,) in connection.execute(query, (moment,)).fetchall()]


def families_of(connection: JournalConnection, sessions: Sequence[SessionFacts]) -> dict[str, list[str]]:
    """Each session with all it delegated to. Children are used after their parents were made."""
    since = min((session.created_at for session in sessions), default=0.0)
    query = "SELECT id, parent_id FROM sessions WHERE parent_id IS NOT NULL AND updated_at >= ?"
    children: dict[str, list[str]] = {}
    for child, parent in connection.execute(query, (since,)).fetchall():
        children.setdefault(parent, []).append(child)
    families: dict[str, list[str]] = {}
    for session in sessions:
        family = families[session.id] = [session.id]
        for member in family:
            family += [child for child in children.get(member, ()) if child not in family]
    return families


def turn_counts(connection: JournalConnection, ids: Iterable[str]) -> dict[str, int]:
    """How many turns each of these sessions has, without those that were undone."""
    query = "SELECT session_id, count(*) FROM turns WHERE undone = 0 AND session_id IN ({marks}) GROUP BY session_id"
    return dict(_rows(connection, query, ids))


def last_turns(connection: JournalConnection, ids: Iterable[str]) -> dict[str, tuple[str, str | None]]:
    """The state and the error of the last turn of each of these sessions."""
    query = (
        "SELECT t.session_id, t.state, t.error FROM turns t JOIN (SELECT session_id, max(ordinal) AS ordinal "
        "FROM turns WHERE undone = 0 AND session_id IN ({marks}) GROUP BY session_id) l "
        "ON l.session_id = t.session_id AND l.ordinal = t.ordinal"
    )
    return {session_id: (state, error) for session_id, state, error in _rows(connection, query, ids)}


def call_sums(connection: JournalConnection, ids: Iterable[str]) -> dict[str, CallSums]:
    """What the model calls of each of these sessions took."""
    query = (
        "SELECT session_id, count(*), sum(CASE WHEN status <> 'ok' THEN 1 ELSE 0 END), coalesce(sum(input_tokens), 0) "
        "+ coalesce(sum(cache_read_tokens), 0) + coalesce(sum(cache_write_tokens), 0), "
        "coalesce(sum(output_tokens), 0), sum(cost_usd) FROM model_calls WHERE session_id IN ({marks}) "
        "GROUP BY session_id"
    )
    return {session_id: CallSums(*sums) for session_id, *sums in _rows(connection, query, ids)}


def count_waiting(connection: JournalConnection, ids: Iterable[str]) -> dict[str, int]:
    """How many questions wait for an answer in each of these sessions, where there are any."""
    query = (
        f"SELECT session_id, count(*) FROM questions WHERE {PENDING} AND session_id IN ({{marks}}) GROUP BY session_id"
    )
    return dict(_rows(connection, query, ids))


def _rows(connection: JournalConnection, query: str, ids: Iterable[str]) -> Iterator[Any]:
    named = list(ids)
    for start in range(0, len(named), _MOST_VALUES):
        part = named[start : start + _MOST_VALUES]
        yield from connection.execute(query.format(marks=placeholders(part)), part).fetchall()


# -- all that was traced ----------------------------------------------------------------------------------------------


_QUERY = """
    SELECT s.id, s.parent_id, s.title, s.created_at, s.updated_at, s.runner,
           (SELECT count(*) FROM turns t WHERE t.session_id = s.id),
           coalesce((SELECT t.state FROM turns t WHERE t.session_id = s.id ORDER BY t.ordinal DESC LIMIT 1), 'empty'),
           count(m.api_request_id), count(*) FILTER (WHERE m.status <> 'ok'),
           (SELECT count(*) FROM events e WHERE e.session_id = s.id AND e.kind = 'step_done'
                AND substr(e.key, 1, 5) = 'tool:'),
           (SELECT count(*) FROM sessions c WHERE c.parent_id = s.id),
           coalesce(sum(m.input_tokens), 0) + coalesce(sum(m.cache_read_tokens), 0)
               + coalesce(sum(m.cache_write_tokens), 0) + coalesce(sum(m.output_tokens), 0),
           sum(m.cost_usd)
    FROM (SELECT * FROM sessions {where} ORDER BY updated_at DESC LIMIT ?) s
    LEFT JOIN model_calls m ON m.session_id = s.id
    GROUP BY s.id, s.parent_id, s.title, s.created_at, s.updated_at, s.runner ORDER BY s.updated_at DESC
"""


class Overview(Struct, frozen=True):
    """One session of the list."""

    id: str
    parent_id: str | None
    title: str
    started_at: float
    updated_at: float
    runner: str | None
    turns: int
    state: str
    model_calls: int
    failed_calls: int
    tool_calls: int
    children: int
    tokens: int
    cost_usd: float | None


def overview(store: Store, *, limit: int, children: bool = False) -> list[Overview]:
    """The sessions used last, newest first; those that others delegated to only with ``children``."""
    query = _QUERY.format(where="" if children else "WHERE parent_id IS NULL")
    return store.read(lambda connection: [Overview(*row) for row in connection.execute(query, (limit,))])
