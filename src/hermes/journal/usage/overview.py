"""Overview of traced sessions: how much each did, and what that took."""

from __future__ import annotations

from msgspec import Struct

from hermes.journal.store.port import Store

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
