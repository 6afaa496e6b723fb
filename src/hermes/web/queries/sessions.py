"""The list of sessions as the page shows it: state, model, tokens, cost, errors and waiting questions of each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

from msgspec import Struct

from hermes.journal.store.connection import JournalConnection
from hermes.trace.clean import Cleaner

#: Of the last turn. ``waiting``: a question is open; ``cut off``: its process died before the end.
SessionState = Literal["running", "waiting", "completed", "failed", "interrupted", "cut off", "queued", "empty"]
#: Whether the process with that id lives.
IsAlive = Callable[[str], bool]

PAGE_SIZE = 50
_MOST = 200
#: How many values one statement is given.
_MOST_VALUES = 500

_COLUMNS = (
    "s.id, s.title, s.platform, s.provider, s.model, s.principal, s.parent_id, s.branched_from, s.created_at, "
    "s.updated_at, s.runner, s.head_seq, s.cwd"
)
_TURNS = (
    "SELECT session_id, count(*), sum(CASE WHEN state = 'failed' THEN 1 ELSE 0 END) FROM turns "
    "WHERE undone = 0 AND session_id IN ({marks}) GROUP BY session_id"
)
_LAST_TURN = (
    "SELECT t.session_id, t.state, t.error FROM turns t JOIN (SELECT session_id, max(ordinal) AS ordinal FROM turns "
    "WHERE undone = 0 AND session_id IN ({marks}) GROUP BY session_id) l "
    "ON l.session_id = t.session_id AND l.ordinal = t.ordinal"
)
_CALLS = (
    "SELECT session_id, count(*), sum(CASE WHEN status <> 'ok' THEN 1 ELSE 0 END), "
    "coalesce(sum(input_tokens), 0) + coalesce(sum(cache_read_tokens), 0) + coalesce(sum(cache_write_tokens), 0), "
    "coalesce(sum(output_tokens), 0), sum(cost_usd) FROM model_calls WHERE session_id IN ({marks}) GROUP BY session_id"
)
_WAITING = (
    "SELECT session_id, count(*) FROM questions WHERE state = 'pending' AND session_id IN ({marks}) "
    "AND turn_id IN (SELECT id FROM turns WHERE state = 'running') GROUP BY session_id"
)
_PARENTS = "SELECT id, parent_id FROM sessions WHERE parent_id IS NOT NULL AND updated_at >= ?"


class SessionLine(Struct, omit_defaults=True, kw_only=True):
    """One session of the list. Tokens, cost and questions include those of its children."""

    id: str
    title: str
    state: SessionState
    platform: str
    model: str
    created: float
    updated: float
    head: int
    turns: int = 0
    calls: int = 0
    failed: int = 0
    children: int = 0
    read: int = 0
    written: int = 0
    cost: float | None = None
    #: Open questions.
    waiting: int = 0
    error: str = ""
    principal: str = ""
    parent: str = ""
    branched: str = ""
    cwd: str = ""


class SessionFilter(Struct, frozen=True):
    """The part of the list that is asked for."""

    #: Words of the title, the id or the model.
    text: str = ""
    #: ``running`` and ``failed`` look at the last turn.
    state: Literal["", "running", "failed"] = ""
    #: Only those used before this time: the next page.
    before: float | None = None
    limit: int = PAGE_SIZE


def session_lines(
    connection: JournalConnection, wanted: SessionFilter, is_alive: IsAlive, clean: Cleaner
) -> list[SessionLine]:
    """The sessions used last, newest first, without those of children."""
    conditions, values = ["s.parent_id IS NULL"], list[Any]()
    if wanted.before is not None:
        conditions.append("s.updated_at < ?")
        values.append(wanted.before)
    for word in wanted.text.split()[:8]:
        pattern = "%" + word.lower().replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") + "%"
        conditions.append(
            "(lower(s.title) LIKE ? ESCAPE '\\' OR s.id LIKE ? ESCAPE '\\' OR lower(s.model) LIKE ? ESCAPE '\\')"
        )
        values += [pattern] * 3
    if wanted.state == "running":
        conditions.append("s.id IN (SELECT session_id FROM turns WHERE state IN ('queued', 'running') AND undone = 0)")
    elif wanted.state == "failed":
        conditions.append(
            "(SELECT t.state FROM turns t WHERE t.session_id = s.id AND t.undone = 0 ORDER BY t.ordinal DESC LIMIT 1) "
            "= 'failed'"
        )
    values.append(max(1, min(wanted.limit, _MOST)))
    query = f"SELECT {_COLUMNS} FROM sessions s WHERE {' AND '.join(conditions)} ORDER BY s.updated_at DESC LIMIT ?"
    return _lines(connection, connection.execute(query, values).fetchall(), is_alive, clean)


def lines_of(connection: JournalConnection, ids: Iterable[str], is_alive: IsAlive, clean: Cleaner) -> list[SessionLine]:
    """The sessions with these ids, as far as they exist, newest first."""
    named = list(ids)
    if not named:
        return []
    query = f"SELECT {_COLUMNS} FROM sessions s WHERE s.id IN ({_marks(named)}) ORDER BY s.updated_at DESC"
    return _lines(connection, connection.execute(query, named).fetchall(), is_alive, clean)


def open_sessions(connection: JournalConnection) -> list[str]:
    """The sessions with a turn that has not ended, children by their eldest ancestor."""
    rows = connection.execute(
        "SELECT DISTINCT t.session_id, s.parent_id FROM turns t JOIN sessions s ON s.id = t.session_id "
        "WHERE t.state IN ('queued', 'running')"
    ).fetchall()
    return [session_id for session_id, parent in rows if parent is None]


def recent_sessions(connection: JournalConnection, since: float) -> list[str]:
    """The sessions that were used after that time, without those of children."""
    query = "SELECT id FROM sessions WHERE updated_at > ? AND parent_id IS NULL ORDER BY updated_at DESC LIMIT ?"
    return [found for (found,) in connection.execute(query, (since, _MOST)).fetchall()]


def _lines(
    connection: JournalConnection, rows: Sequence[tuple[Any, ...]], is_alive: IsAlive, clean: Cleaner
) -> list[SessionLine]:
    if not rows:
        return []
    ids = [row[0] for row in rows]
    families = _families(connection, ids, min(row[8] for row in rows))
    everyone = [member for members in families.values() for member in members]
    turns = _by_session(connection, _TURNS, ids)
    last = _by_session(connection, _LAST_TURN, ids)
    calls = _by_session(connection, _CALLS, everyone)
    waiting = _by_session(connection, _WAITING, everyone)
    alive: dict[str, bool] = {}

    def lives(runner: str | None) -> bool:
        if runner is None:
            return False
        if runner not in alive:
            alive[runner] = is_alive(runner)
        return alive[runner]

    lines: list[SessionLine] = []
    for row in rows:
        (session_id, title, platform, provider, model, principal, parent, branched, created, updated, runner) = row[:11]
        family = families[session_id]
        used = [calls[member] for member in family if member in calls]
        costs = [one[4] for one in used if one[4] is not None]
        asks = sum(waiting[member][0] for member in family if member in waiting)
        state, error = last.get(session_id, ("empty", ""))
        if state == "running":
            state = "waiting" if asks else "running" if lives(runner) else "cut off"
        lines.append(
            SessionLine(
                id=session_id,
                title=" ".join(clean.text(title).split())[:200],
                state=state,
                platform=platform,
                model=f"{model} ({provider})" if provider and model else model,
                created=created,
                updated=updated,
                head=row[11],
                turns=turns.get(session_id, (0, 0))[0],
                calls=sum(one[0] for one in used),
                failed=sum(one[1] for one in used),
                children=len(family) - 1,
                read=sum(one[2] for one in used),
                written=sum(one[3] for one in used),
                cost=sum(costs) if costs else None,
                waiting=asks,
                error=" ".join(clean.text(error or "")[:300].split()),
                principal=principal,
                parent=parent or "",
                branched=branched or "",
                cwd=row[12],
            )
        )
    return lines


def _families(connection: JournalConnection, ids: Sequence[str], since: float) -> dict[str, list[str]]:
    """The sessions with all they delegated to. Children are used after their parents were made."""
    children: dict[str, list[str]] = {}
    for child, parent in connection.execute(_PARENTS, (since,)).fetchall():
        children.setdefault(parent, []).append(child)
    families: dict[str, list[str]] = {}
    for session_id in ids:
        family = families[session_id] = [session_id]
        for member in family:
            family += [child for child in children.get(member, ()) if child not in family]
    return families


def _by_session(connection: JournalConnection, query: str, ids: Sequence[str]) -> dict[str, tuple[Any, ...]]:
    found: dict[str, tuple[Any, ...]] = {}
    for start in range(0, len(ids), _MOST_VALUES):
        some = list(ids[start : start + _MOST_VALUES])
        rows = connection.execute(query.format(marks=_marks(some)), some).fetchall()
        found.update((row[0], tuple(row[1:])) for row in rows)
    return found


def _marks(ids: Sequence[str]) -> str:
    return ", ".join("?" * len(ids))
