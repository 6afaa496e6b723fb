"""The ``session_search`` tool: past conversations found by words, listed by time, or read around a message."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from hermes.base.errors import HermesError, SessionNotFound
from hermes.base.scope import Scope
from hermes.journal.history.passages import PassageMessage, families, family_of, passage
from hermes.journal.history.search import Hit, SearchIndex
from hermes.journal.sessions import SessionRow, Sessions
from hermes.journal.store.port import Store
from hermes.tools.arguments import bounded_int
from hermes.tools.registry import Args, ToolContext
from hermes.tools.results import tool_result

if TYPE_CHECKING:
    from hermes.agent.runtime import Runtime

MAX_SESSIONS = 10
MAX_WINDOW = 20
#: Matches looked at to find enough conversations, and those shown of each.
_HITS = 200
_HITS_SHOWN = 3
_MESSAGE_CHARS = 2_000
_TOOL_CHARS = 500


def run_session_search(args: Args, context: ToolContext, runtime: Runtime) -> str:
    """Answer in one of three modes, by which arguments there are. Only sessions of the same principal are found."""
    store = runtime.store
    query = str(args.get("query") or "").strip()
    session_id = str(args.get("session_id") or "").strip()
    try:
        if query:
            return _discover(args, query, session_id, context.scope, store, runtime.search)
        if session_id or args.get("around_message_id") is not None:
            return _scroll(args, session_id, context.scope, store)
        return _browse(args, context.scope, store)
    except HermesError as error:
        return _failed(str(error))


def _discover(args: Args, query: str, session_id: str, scope: Scope, store: Store, index: SearchIndex) -> str:
    """The conversations that match best, each with the passages that do. The current one is left out."""
    limit = bounded_int(args, "limit", 3, 1, MAX_SESSIONS)
    sessions, current = Sessions(store), scope.session_id
    within = _own_session(store, session_id, scope).id if session_id else ""
    hits = index.search(
        query,
        limit=_HITS,
        role=str(args.get("role_filter") or ""),
        order=str(args.get("sort") or "relevance"),
        principal=scope.principal,
        only=[within] if within else None,
        without=sorted(family_of(store, current)) if current and not within else [],
    )
    roots = families(store, list(dict.fromkeys(hit.session_id for hit in hits)))
    grouped: dict[str, list[Hit]] = {}
    for hit in hits:
        # What a child agent said belongs to the conversation that it worked for.
        grouped.setdefault(within or roots[hit.session_id], []).append(hit)
    results = [_found(sessions.get(root), matches) for root, matches in list(grouped.items())[:limit]]
    more = len(grouped) - len(results)
    extra = {"more_sessions": more} if more else {}
    return tool_result(success=True, mode="discover", query=query, results=results, count=len(results), **extra)


def _browse(args: Args, scope: Scope, store: Store) -> str:
    limit = bounded_int(args, "limit", 3, 1, MAX_SESSIONS)
    current = family_of(store, scope.session_id) if scope.session_id else set[str]()
    known = Sessions(store).list(limit=limit + len(current), principal=scope.principal)
    rows = [row for row in known if row.id not in current][:limit]
    return tool_result(success=True, mode="browse", results=[_session(row) for row in rows], count=len(rows))


def _own_session(store: Store, session_id: str, scope: Scope) -> SessionRow:
    """The session with that id, if it belongs to the same principal. One of another is reported as unknown."""
    unknown = SessionNotFound(f"no session {session_id!r}; session_search without arguments shows those there are")
    try:
        row = Sessions(store).get(session_id)
    except SessionNotFound:
        raise unknown from None  # its own text may name sessions of others
    if row.principal != scope.principal:
        raise unknown
    return row


def _scroll(args: Args, session_id: str, scope: Scope, store: Store) -> str:
    if not session_id:
        return _failed("around_message_id needs the session_id that came with it")
    around: int | None = args.get("around_message_id")
    row = _own_session(store, session_id, scope)
    found = passage(store, row.id, around=around, window=bounded_int(args, "window", 5, 1, MAX_WINDOW))
    if found is None:
        return _failed(f"session {row.id} has no message {around}; take the ids from a result of session_search")
    messages = [_shown(message, is_anchor=message.id == around) for message in found.messages]
    return tool_result(
        success=True,
        mode="scroll",
        session=_session(row),
        results=messages,
        count=len(messages),
        messages_before=found.before,
        messages_after=found.after,
    )


def _found(row: SessionRow, hits: list[Hit]) -> dict[str, Any]:
    matches: list[dict[str, Any]] = []
    for hit in hits[:_HITS_SHOWN]:
        child = {"child_session_id": hit.session_id} if hit.session_id != row.id else {}
        matches.append({"message_id": hit.message_id, "role": hit.role, "snippet": hit.snippet, **child})
    more = {"more_matches": len(hits) - _HITS_SHOWN} if len(hits) > _HITS_SHOWN else {}
    return {**_session(row), "matches": matches, **more}


def _session(row: SessionRow) -> dict[str, Any]:
    return {
        "session_id": row.id,
        "title": row.title,
        "started": _when(row.created_at),
        "last_used": _when(row.updated_at),
        "turns": row.turns,
        "directory": row.cwd,
    }


def _shown(message: PassageMessage, *, is_anchor: bool) -> dict[str, Any]:
    limit = _TOOL_CHARS if message.role == "tool" else _MESSAGE_CHARS
    text = message.text
    if len(text) > limit:
        text = f"{text[:limit]}… [{len(text) - limit} more characters]"
    calls = {"tool_calls": message.calls} if message.calls else {}
    return {
        "message_id": message.id,
        "role": message.role,
        "content": text,
        **calls,
        **({"anchor": True} if is_anchor else {}),
    }


def _when(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at))


def _failed(error: str) -> str:
    return tool_result(success=False, error=error)
