"""What a session has spent: tokens and cost by model, with its side jobs, its plugins and the children it started."""

from __future__ import annotations

from dataclasses import dataclass

from hermes.journal.store import Store

_QUERY = """
    WITH RECURSIVE family(id) AS (SELECT :id UNION SELECT s.id FROM sessions s JOIN family f ON s.parent_id = f.id)
    SELECT CASE WHEN m.session_id <> :id THEN 'children'
                WHEN m.key LIKE 'side:%' THEN substr(m.key, 6) WHEN m.key LIKE 'plugin:%' THEN m.key
                ELSE '' END AS spent_on,
           m.provider, m.model, count(*),
           coalesce(sum(m.input_tokens), 0) + coalesce(sum(m.cache_read_tokens), 0)
               + coalesce(sum(m.cache_write_tokens), 0),
           coalesce(sum(m.cache_read_tokens), 0), coalesce(sum(m.output_tokens), 0), sum(m.cost_usd)
    FROM all_calls m JOIN family f ON m.session_id = f.id
    WHERE m.status <> 'crashed'
    GROUP BY spent_on, m.provider, m.model
    ORDER BY spent_on = 'children', spent_on, m.provider, m.model
"""


@dataclass(frozen=True, slots=True)
class Spending:
    """What one model took for one purpose."""

    #: Empty for the conversation itself, ``children``, the name of a side job, or ``plugin:`` and a plugin's key.
    purpose: str
    provider: str
    model: str
    calls: int
    #: Everything the models read, cached or not.
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int
    #: None when no provider told.
    cost_usd: float | None


def session_spending(store: Store, session_id: str) -> list[Spending]:
    """The conversation's own spending first, then that of its side jobs and plugins, then that of its children."""
    values = {"id": session_id}
    return store.read(lambda connection: [Spending(*row) for row in connection.execute(_QUERY, values)])
