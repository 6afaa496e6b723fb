"""How plugins have fared, session by session: how often they were called, what failed, how long it took."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from hermes.journal.bodies import clean_text

if TYPE_CHECKING:
    from hermes.journal.store import Store

#: The site that stands for loading a plugin, and the beginning of those that stand for a tool it offers.
REGISTER_SITE = "register"
TOOL_SITE = "tool:"

_MAX_ERROR_CHARS = 500


class PluginCalls(Struct, frozen=True):
    """The calls of one plugin at one site."""

    plugin: str
    #: A hook, a middleware kind, ``register``, or ``tool:NAME`` for a tool it offers.
    site: str
    calls: int = 0
    failures: int = 0
    seconds: float = 0.0
    last_error: str = ""


class PluginTotals(Struct):
    """One plugin over all sessions on record."""

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
    #: Why it could not be loaded in that session, empty when it could.
    load_error: str = ""


def record_plugin_counters(store: Store, session_id: str, counters: Sequence[PluginCalls]) -> None:
    """Add what plugins did in a session to its record. A session that is not on record leaves none."""
    if not counters or not store.path.exists():
        return
    now = time.time()

    def row(one: PluginCalls) -> tuple[object, ...]:
        error = clean_text(one.last_error[:_MAX_ERROR_CHARS])
        names = (clean_text(one.plugin), clean_text(one.site))
        return (*names, one.calls, one.failures, one.seconds, error, now, session_id)

    def write(connection: sqlite3.Connection) -> None:
        # A session that goes on in another process has rows already; loading tells only how it went last.
        connection.executemany(
            "INSERT INTO plugin_calls SELECT id, ?, ?, ?, ?, ?, ?, ? FROM sessions WHERE id = ? "
            "ON CONFLICT DO UPDATE SET calls = calls + excluded.calls, failures = failures + excluded.failures, "
            "seconds = seconds + excluded.seconds, at = excluded.at, "
            "last_error = CASE WHEN excluded.last_error <> '' OR site = 'register' "
            "THEN excluded.last_error ELSE last_error END",
            [row(one) for one in counters],
        )

    store.write(write)


def plugin_totals(store: Store) -> dict[str, PluginTotals]:
    """How every plugin that was ever called has fared, by its key."""

    def read(connection: sqlite3.Connection) -> dict[str, PluginTotals]:
        query = (
            "SELECT plugin, session_id, site, calls, failures, seconds, last_error, at "
            "FROM plugin_calls ORDER BY plugin, at DESC, site"
        )
        totals: dict[str, PluginTotals] = {}
        seen: set[tuple[str, str]] = set()
        for plugin, session_id, *row in connection.execute(query):
            total = totals.setdefault(plugin, PluginTotals(last_used=row[-1]))
            if (plugin, session_id) not in seen:
                seen.add((plugin, session_id))
                total.sessions += 1
            _add(total, *row)
        return totals

    return store.read(read)


def _add(total: PluginTotals, site: str, calls: int, failures: int, seconds: float, error: str, at: float) -> None:
    is_latest = at == total.last_used
    if site == REGISTER_SITE:
        total.load_error = error if is_latest else total.load_error
        return
    if site.startswith(TOOL_SITE):
        if is_latest:
            total.tools.append(site.removeprefix(TOOL_SITE))
        return
    if is_latest:
        total.sites.append(site)
    total.calls += calls
    total.failures += failures
    total.seconds += seconds
    total.last_error = total.last_error or error
