"""The use of plugins: how often they were called and failed, and what they spent on models."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from hermes.journal.bodies import clean_text
from hermes.journal.store.connection import JournalConnection
from hermes.journal.turns.steps import PLUGIN_KEY

if TYPE_CHECKING:
    from hermes.journal.store.port import Store

_TOKENS = (
    "coalesce(sum(input_tokens), 0) + coalesce(sum(cache_read_tokens), 0) + coalesce(sum(cache_write_tokens), 0) "
    "+ coalesce(sum(output_tokens), 0)"
)
#: Written as the index has it.
_OF_PLUGINS = f"substr(key, 1, {len(PLUGIN_KEY)}) = '{PLUGIN_KEY}'"
_BY_PLUGIN = (
    f"SELECT substr(key, {len(PLUGIN_KEY) + 1}), count(*), count(*) FILTER (WHERE status <> 'ok'), {_TOKENS}, "
    f"sum(cost_usd) FROM all_calls WHERE {_OF_PLUGINS} GROUP BY key"
)
#: A call may take several attempts; each call has one that is the first.
_SESSION_CALLS = (
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
    return store.read(lambda connection: connection.execute(_SESSION_CALLS, values).fetchone()[0])


# -- calls of callbacks and tools -----------------------------------------------------------------------------------

#: The site of loading a plugin, and that of the registrations which were refused to it.
REGISTER_SITE, REFUSED_SITE = "register", "refused"
#: Prefixes of the sites of a tool it offers, and of a registration that no part of the runtime uses.
TOOL_SITE, WAITING_SITE = "tool:", "waiting:"
#: Prefix of the sites of its exports: calls are events in, failures those that did not get out.
EXPORT_SITE = "export:"

_MAX_ERROR_CHARS = 500


class PluginCalls(Struct, frozen=True):
    """The calls of one plugin at one site."""

    plugin: str
    #: A hook, a middleware kind, ``register``, ``refused``, for what it offers ``tool:NAME`` or ``waiting:WHAT NAME``,
    #: or for what it sends elsewhere ``export:WHERE``.
    site: str
    calls: int = 0
    failures: int = 0
    seconds: float = 0.0
    last_error: str = ""


class PluginTotals(Struct):
    """One plugin over all stored sessions."""

    calls: int = 0
    failures: int = 0
    seconds: float = 0.0
    last_error: str = ""
    sessions: int = 0
    #: When the last of these sessions ended, in seconds since the epoch.
    last_used: float = 0.0
    #: What it joined in that session: hooks, middleware kinds and tools.
    sites: list[str] = []
    tools: list[str] = []
    waiting: list[str] = []
    #: Why it could not be loaded in that session, empty when it could.
    load_error: str = ""
    #: What it was not allowed to register in that session.
    refused: str = ""
    #: What it sent elsewhere, place by place.
    exports: list[PluginCalls] = []
    #: What it asked models, in sessions and outside of them.
    spending: PluginSpending = PluginSpending()


def record_plugin_counters(store: Store, session_id: str, counters: Sequence[PluginCalls]) -> None:
    """Add what plugins did in a session to its record. Nothing is stored for a session that is not stored itself."""
    if not counters or not store.exists():
        return
    now = time.time()

    def row(one: PluginCalls) -> tuple[object, ...]:
        error = clean_text(one.last_error[:_MAX_ERROR_CHARS])
        names = (clean_text(one.plugin), clean_text(one.site))
        return (*names, one.calls, one.failures, one.seconds, error, now, session_id)

    def write(connection: JournalConnection) -> None:
        # A session that continues in another process has rows already; of loading, only the last result counts.
        connection.executemany(
            "INSERT INTO plugin_calls SELECT id, ?, ?, ?, ?, ?, ?, ? FROM sessions WHERE id = ? "
            "ON CONFLICT (session_id, plugin, site) DO UPDATE SET calls = plugin_calls.calls + excluded.calls, "
            "failures = plugin_calls.failures + excluded.failures, "
            "seconds = plugin_calls.seconds + excluded.seconds, at = excluded.at, "
            "last_error = CASE WHEN excluded.last_error <> '' OR plugin_calls.site = 'register' "
            "THEN excluded.last_error ELSE plugin_calls.last_error END",
            [row(one) for one in counters],
        )

    store.write(write)


def plugin_totals(store: Store) -> dict[str, PluginTotals]:
    """How every plugin that was ever loaded did, by its key."""

    def read(connection: JournalConnection) -> dict[str, PluginTotals]:
        totals = {row[0]: PluginTotals(*row[1:]) for row in connection.execute(_TOTALS)}
        for plugin, site, error in connection.execute(_LATEST):
            _add_latest(totals[plugin], site, error)
        # In order, so that the newest counts.
        for plugin, error in connection.execute(_ERRORS):
            totals[plugin].last_error = error
        for row in connection.execute(_EXPORTS):
            totals[row[0]].exports.append(PluginCalls(*row))
        return totals

    totals = store.read(read)
    for plugin, spending in spending_by_plugin(store).items():
        totals.setdefault(plugin, PluginTotals()).spending = spending
    return totals


def recent_counters(store: Store, since: float) -> list[PluginCalls]:
    """What plugins did at each site in the sessions that ended after ``since``, in seconds since the epoch."""
    return store.read(lambda connection: [PluginCalls(*row) for row in connection.execute(_RECENT, {"since": since})])


_RECENT = (
    "SELECT plugin, site, sum(calls), sum(failures), sum(seconds), coalesce((SELECT last_error FROM plugin_calls AS e "
    "WHERE e.plugin = c.plugin AND e.site = c.site AND e.at > :since AND e.last_error <> '' ORDER BY e.at DESC LIMIT 1)"
    ", '') FROM plugin_calls AS c WHERE at > :since GROUP BY plugin, site ORDER BY plugin, site"
)
_IS_EXPORT = f"substr(site, 1, {len(EXPORT_SITE)}) = '{EXPORT_SITE}'"
_CALLS = f"CASE WHEN site = '{REGISTER_SITE}' OR {_IS_EXPORT} THEN 0 ELSE"
_TOTALS = (
    f"SELECT plugin, sum({_CALLS} calls END), sum({_CALLS} failures END), sum({_CALLS} seconds END), '', "
    "count(DISTINCT session_id), max(at) FROM plugin_calls GROUP BY plugin"
)
_LATEST = (
    "SELECT plugin, site, last_error FROM plugin_calls AS c "
    "JOIN (SELECT plugin AS p, max(at) AS latest FROM plugin_calls GROUP BY plugin) AS last ON p = c.plugin "
    "AND latest = c.at ORDER BY plugin, site"
)
_ERRORS = (
    "SELECT plugin, last_error FROM plugin_calls WHERE last_error <> '' "
    f"AND site NOT IN ('{REGISTER_SITE}', '{REFUSED_SITE}') ORDER BY at, session_id, site"
)

_EXPORTS = (
    f"SELECT plugin, site, sum(calls), sum(failures) FROM plugin_calls WHERE {_IS_EXPORT} "
    "GROUP BY plugin, site ORDER BY plugin, site"
)


def _add_latest(total: PluginTotals, site: str, error: str) -> None:
    """What a row of the session that ended last says about the plugin."""
    if site == REGISTER_SITE:
        total.load_error = error
    elif site == REFUSED_SITE:
        total.refused = error
    elif site.startswith(TOOL_SITE):
        total.tools.append(site.removeprefix(TOOL_SITE))
    elif site.startswith(WAITING_SITE):
        total.waiting.append(site.removeprefix(WAITING_SITE))
    elif not site.startswith(EXPORT_SITE):
        total.sites.append(site)
