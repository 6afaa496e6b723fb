"""Token use and cost of model calls: of one session by model and purpose, of the home by day, model or session."""

from __future__ import annotations

from typing import Literal, get_args

import msgspec

from hermes.journal.history.rows import FAMILY
from hermes.journal.store.port import Store

Grouping = Literal["day", "model", "plugin", "session"]
GROUPINGS: tuple[Grouping, ...] = get_args(Grouping)

#: What a row is about, and what is said about it besides. Rows of calls made for plugins carry the plugin's name.
_NAMES: dict[Grouping, tuple[str, str]] = {
    "day": ("date(m.started_at, 'unixepoch', 'localtime')", "''"),
    "model": ("m.model", "m.provider"),
    "plugin": (
        "CASE WHEN m.key LIKE 'plugin:%' THEN substr(m.key, 8) WHEN m.key LIKE 'side:%' THEN m.key"
        " ELSE 'conversation' END",
        "''",
    ),
    "session": ("coalesce(s.id, 'outside a session')", "coalesce(s.title, '')"),
}
#: Days are read from the latest on; everything else by what it took.
_ORDER: dict[Grouping, str] = {"day": "1 DESC", "session": "max(m.started_at) DESC"}
_BY_AMOUNT = "coalesce(sum(m.cost_usd), 0) DESC, coalesce(sum(m.output_tokens), 0) DESC, 1"

_SUMS = """count(*), count(*) FILTER (WHERE m.status <> 'ok'),
           coalesce(sum(m.input_tokens), 0) + coalesce(sum(m.cache_read_tokens), 0)
               + coalesce(sum(m.cache_write_tokens), 0),
           coalesce(sum(m.cache_read_tokens), 0), coalesce(sum(m.output_tokens), 0),
           coalesce(sum(m.reasoning_tokens), 0), sum(m.cost_usd),
           count(*) FILTER (WHERE m.cost_usd IS NULL AND (m.output_tokens IS NOT NULL OR m.status = 'ok'))"""

_QUERY = f"""
    SELECT {{name}}, {{detail}}, {_SUMS}
    FROM all_calls m LEFT JOIN sessions s ON s.id = m.session_id
    WHERE m.started_at >= ? AND m.status <> 'crashed'
      AND (s.branched_from IS NULL OR m.started_at >= s.created_at)
    GROUP BY 1, 2 ORDER BY {{order}}
"""


class Used(msgspec.Struct, frozen=True):
    """What one day, model, purpose or session took."""

    name: str
    #: The provider of a model, the title of a session.
    detail: str
    calls: int
    failed: int
    #: Everything the models read, cached or not.
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int
    reasoning_tokens: int
    #: None when the cost of no call is known.
    cost_usd: float | None
    #: Calls whose cost is unknown: no price, or no token count.
    unpriced: int


def usage_by(store: Store, grouping: Grouping, since: float = 0.0) -> list[Used]:
    """The sums, of calls that began at ``since`` or later. What a branch took over from another session is left out."""
    name, detail = _NAMES[grouping]
    query = _QUERY.format(name=name, detail=detail, order=_ORDER.get(grouping, _BY_AMOUNT))
    return store.read(lambda connection: [Used(*row) for row in connection.execute(query, (since,))])


def total(rows: list[Used], name: str = "total", detail: str = "") -> Used:
    """All rows as one."""
    known = [row.cost_usd for row in rows if row.cost_usd is not None]
    counts = ("calls", "failed", "prompt_tokens", "cached_tokens", "output_tokens", "reasoning_tokens", "unpriced")
    sums = {count: sum(getattr(row, count) for row in rows) for count in counts}
    return Used(name, detail, cost_usd=sum(known) if known else None, **sums)


# -- one session ----------------------------------------------------------------------------------------------------

_SESSION_QUERY = f"""{FAMILY}
    SELECT m.spent_on, m.provider, m.model, count(*),
           coalesce(sum(m.input_tokens), 0) + coalesce(sum(m.cache_read_tokens), 0)
               + coalesce(sum(m.cache_write_tokens), 0),
           coalesce(sum(m.cache_read_tokens), 0), coalesce(sum(m.output_tokens), 0), sum(m.cost_usd)
    FROM (SELECT *, CASE WHEN session_id <> :id THEN 'children'
                         WHEN key LIKE 'side:%' THEN substr(key, 6) WHEN key LIKE 'plugin:%' THEN key
                         ELSE '' END AS spent_on FROM all_calls) AS m JOIN family f ON m.session_id = f.id
    WHERE m.status <> 'crashed'
    GROUP BY m.spent_on, m.provider, m.model
    ORDER BY m.spent_on = 'children', m.spent_on, m.provider, m.model
"""


class Spending(msgspec.Struct, frozen=True):
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
    #: None when unknown.
    cost_usd: float | None


def session_spending(store: Store, session_id: str) -> list[Spending]:
    """The conversation's own spending first, then that of its side jobs and plugins, then that of its children."""
    values = {"id": session_id}
    return store.read(lambda connection: [Spending(*row) for row in connection.execute(_SESSION_QUERY, values)])
