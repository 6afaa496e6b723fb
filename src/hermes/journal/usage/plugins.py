"""What plugins have used models for: how much each has spent, in all, today, or in one session."""

from __future__ import annotations

import time
from typing import NamedTuple

from hermes.journal.steps import PLUGIN_KEY
from hermes.journal.store import Store

_TOKENS = (
    "coalesce(sum(input_tokens), 0) + coalesce(sum(cache_read_tokens), 0) + coalesce(sum(cache_write_tokens), 0) "
    "+ coalesce(sum(output_tokens), 0)"
)
#: Written as the index has it.
_OF_PLUGINS = f"substr(key, 1, {len(PLUGIN_KEY)}) = '{PLUGIN_KEY}'"
_BY_PLUGIN = (
    f"SELECT substr(key, {len(PLUGIN_KEY) + 1}), count(*), sum(status <> 'ok'), {_TOKENS}, sum(cost_usd) "
    f"FROM all_calls WHERE {_OF_PLUGINS} GROUP BY key"
)
#: A list, because SQLite would put a single key into the condition above, and find no index for it any more.
_TODAY = (
    f"SELECT {_TOKENS}, coalesce(sum(cost_usd), 0) FROM all_calls "
    f"WHERE {_OF_PLUGINS} AND key IN (?, '') AND started_at >= ?"
)
#: A call may take several attempts; each call has one that is the first.
_CALLS = (
    f"SELECT count(*) FROM all_calls WHERE {_OF_PLUGINS} AND key = ? AND session_id = ? AND api_request_id LIKE '%:1'"
)


class PluginSpending(NamedTuple):
    """What one plugin has asked models."""

    #: Requests that were sent: a call that was tried again counts as often as it was tried.
    calls: int = 0
    failures: int = 0
    tokens: int = 0
    #: None when the cost of no call is known.
    cost_usd: float | None = None


def spending_by_plugin(store: Store) -> dict[str, PluginSpending]:
    """What every plugin that ever asked a model has spent, by its key."""
    return store.read(
        lambda connection: {key: PluginSpending(*figures) for key, *figures in connection.execute(_BY_PLUGIN)}
    )


def calls_in_session(store: Store, plugin: str, session_id: str) -> int:
    """How often a plugin has asked a model in a session."""
    values = (PLUGIN_KEY + plugin, session_id)
    return store.read(lambda connection: connection.execute(_CALLS, values).fetchone()[0])


def spent_today(store: Store, plugin: str) -> tuple[int, float]:
    """The tokens and the dollars that a plugin has spent since midnight."""
    values = (PLUGIN_KEY + plugin, _midnight())
    return store.read(lambda connection: connection.execute(_TODAY, values).fetchone())


def _midnight() -> float:
    now = time.localtime()
    return time.mktime((now.tm_year, now.tm_mon, now.tm_mday, 0, 0, 0, 0, 0, -1))
