"""The list of sessions as the page shows it: state, model, tokens, cost, errors and waiting questions of each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Literal, cast

from msgspec import Struct

from hermes.journal.history.lists import (
    CallSums,
    call_sums,
    count_waiting,
    families_of,
    last_turns,
    matching_sessions,
    turn_counts,
)
from hermes.journal.history.rows import SessionFacts, session_facts
from hermes.journal.store.connection import JournalConnection
from hermes.trace.clean import Cleaner

#: Of the last turn. ``waiting``: a question is open; ``cut off``: its process died before the end.
SessionState = Literal["running", "waiting", "completed", "failed", "interrupted", "cut off", "queued", "empty"]
#: Whether the process with that id lives.
IsAlive = Callable[[str], bool]

PAGE_SIZE = 50
MOST_LISTED = 200


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
    found = matching_sessions(
        connection,
        wanted.text.split()[:8],
        state=wanted.state,
        before=wanted.before,
        limit=max(1, min(wanted.limit, MOST_LISTED)),
    )
    return _lines(connection, found, is_alive, clean)


def lines_of(connection: JournalConnection, ids: Iterable[str], is_alive: IsAlive, clean: Cleaner) -> list[SessionLine]:
    """The sessions with these ids, as far as they exist, newest first."""
    named = list(ids)
    return _lines(connection, session_facts(connection, named), is_alive, clean) if named else []


def _lines(
    connection: JournalConnection, sessions: Sequence[SessionFacts], is_alive: IsAlive, clean: Cleaner
) -> list[SessionLine]:
    if not sessions:
        return []
    ids = [session.id for session in sessions]
    families = families_of(connection, sessions)
    everyone = [member for members in families.values() for member in members]
    turns, last = turn_counts(connection, ids), last_turns(connection, ids)
    calls, waiting = call_sums(connection, everyone), count_waiting(connection, everyone)
    lives = cache(is_alive)
    lines: list[SessionLine] = []
    for session in sessions:
        family = families[session.id]
        asks = sum(waiting.get(member, 0) for member in family)
        state, error = last.get(session.id, ("empty", ""))
        if state == "running" and asks:
            state = "waiting"
        elif state == "running" and (session.runner is None or not lives(session.runner)):
            state = "cut off"
        line = _line(session, [calls[member] for member in family if member in calls], clean)
        line.state, line.error = cast("SessionState", state), " ".join(clean.text(error or "")[:300].split())
        line.turns, line.children, line.waiting = turns.get(session.id, 0), len(family) - 1, asks
        lines.append(line)
    return lines


def _line(session: SessionFacts, used: list[CallSums], clean: Cleaner) -> SessionLine:
    """A session with the model calls of its family."""
    costs = [one.cost_usd for one in used if one.cost_usd is not None]
    return SessionLine(
        id=session.id,
        title=" ".join(clean.text(session.title).split())[:200],
        state="empty",
        platform=session.platform,
        model=f"{session.model} ({session.provider})" if session.provider and session.model else session.model,
        created=session.created_at,
        updated=session.updated_at,
        head=session.head_seq,
        calls=sum(one.calls for one in used),
        failed=sum(one.failed for one in used),
        read=sum(one.read for one in used),
        written=sum(one.written for one in used),
        cost=sum(costs) if costs else None,
        principal=session.principal,
        parent=session.parent_id or "",
        branched=session.branched_from or "",
        cwd=session.cwd,
    )
