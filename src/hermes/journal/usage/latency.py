"""Latency and cost of models, tools and plugins, over every session of a home."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Literal, get_args

import msgspec
from msgspec import Struct

from hermes.journal.store.port import Store
from hermes.journal.usage.plugins import REGISTER_SITE, TOOL_SITE, WAITING_SITE

Grouping = Literal["model", "tool", "plugin"]
GROUPINGS: tuple[Grouping, ...] = get_args(Grouping)

#: What a branch took over from another session was counted there.
_OWN = "(s.branched_from IS NULL OR {at} >= s.created_at)"
_MODELS = f"""
    SELECT m.model, m.provider, m.status, m.duration, m.cost_usd FROM model_calls m
    JOIN sessions s ON s.id = m.session_id
    WHERE m.started_at >= ? AND m.status <> 'crashed' AND {_OWN.format(at="m.started_at")}
"""
_TOOLS = f"""
    SELECT coalesce(b.data, e.body) FROM events e
    JOIN sessions s ON s.id = e.session_id
    LEFT JOIN blobs b ON e.body = '{{"$blob":"' || b.sha256 || '"}}'
    WHERE e.at >= ? AND e.kind = 'step_done' AND substr(e.key, 1, 5) = 'tool:' AND {_OWN.format(at="e.at")}
"""
_PLUGINS = (
    "SELECT plugin, site, sum(calls), sum(failures), sum(seconds) FROM plugin_calls WHERE at >= ? "
    f"AND site <> '{REGISTER_SITE}' AND substr(site, 1, 5) <> '{TOOL_SITE}' AND substr(site, 1, 8) <> '{WAITING_SITE}' "
    "GROUP BY plugin, site HAVING sum(calls) > 0"
)

_ASKED_BY_PLUGINS = """
    SELECT substr(key, 8), 'models', status, duration, cost_usd FROM {table}
    WHERE substr(key, 1, 7) = 'plugin:' AND started_at >= :since
"""


class Figures(Struct, frozen=True):
    """What one model, tool, or site of a plugin took."""

    name: str
    #: The provider of a model, the site of a plugin.
    detail: str
    calls: int
    failed: int
    #: Seconds: half of the calls took less, nineteen of twenty took less. None where only the sum is known.
    p50: float | None
    p95: float | None
    #: Seconds in all.
    total: float
    cost_usd: float | None = None


class _ToolDuration(Struct):
    """What counts of a recorded tool call."""

    name: str
    status: str
    duration_ms: int


def figures(store: Store, grouping: Grouping, since: float = 0.0) -> list[Figures]:
    """The figures of everything that began at ``since`` or later, what took longest first."""
    made = {"model": _models, "tool": _tools, "plugin": _plugins}[grouping](store, since)
    return sorted(made, key=lambda one: (-one.total, one.name, one.detail))


def _models(store: Store, since: float) -> list[Figures]:
    return _summed_up(store.read(lambda connection: connection.execute(_MODELS, (since,)).fetchall()))


def _tools(store: Store, since: float) -> list[Figures]:
    decode = msgspec.json.Decoder(_ToolDuration).decode
    rows = store.read(lambda connection: connection.execute(_TOOLS, (since,)).fetchall())
    calls = (decode(text) for (text,) in rows)
    return _summed_up((call.name, "", call.status, call.duration_ms / 1000, None) for call in calls)


def _plugins(store: Store, since: float) -> list[Figures]:
    rows = store.read(lambda connection: connection.execute(_PLUGINS, (since,)).fetchall())
    called = [Figures(name, site, calls, failed, None, None, seconds) for name, site, calls, failed, seconds in rows]
    query = " UNION ALL ".join(_ASKED_BY_PLUGINS.format(table=table) for table in ("model_calls", "outside_calls"))
    asked = store.read(lambda connection: connection.execute(query, {"since": since}).fetchall())
    return [*called, *_summed_up(asked)]


def _summed_up(calls: Iterable[tuple[str, str, str, float, float | None]]) -> list[Figures]:
    """The calls by name and detail, each with its status, its seconds and its cost."""
    samples: dict[tuple[str, str], list[tuple[str, float, float | None]]] = {}
    for name, detail, status, taken, cost in calls:
        samples.setdefault((name, detail), []).append((status, taken, cost))
    made: list[Figures] = []
    for name, sample in samples.items():
        seconds = [taken for _, taken, _ in sample]
        failed = sum(status != "ok" for status, _, _ in sample)
        costs = [cost for _, _, cost in sample if cost is not None]
        middle, most = percentile(seconds, 0.5), percentile(seconds, 0.95)
        cost = sum(costs) if costs else None
        made.append(Figures(*name, len(sample), failed, middle, most, sum(seconds), cost))
    return made


def percentile(values: Iterable[float], part: float) -> float:
    """The smallest value that at least this part of the values does not exceed."""
    ordered = sorted(values)
    return ordered[max(math.ceil(len(ordered) * part), 1) - 1]
