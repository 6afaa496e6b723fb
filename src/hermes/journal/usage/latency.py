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
    SELECT substr(key, 8), status, duration, cost_usd FROM {table}
    WHERE substr(key, 1, 7) = 'plugin:' AND started_at >= :since
"""
#: The site of a plugin under which the models it asked are listed.
_MODELS_SITE = "models"


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


class _Sample:
    """The calls of one name."""

    __slots__ = ("cost", "failed", "seconds")

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.failed = 0
        self.cost: float | None = None

    def add(self, seconds: float, *, ok: bool, cost: float | None = None) -> None:
        self.seconds.append(seconds)
        self.failed += not ok
        if cost is not None:
            self.cost = (self.cost or 0.0) + cost


def _models(store: Store, since: float) -> list[Figures]:
    samples: dict[tuple[str, str], _Sample] = {}
    rows = store.read(lambda connection: connection.execute(_MODELS, (since,)).fetchall())
    for model, provider, status, seconds, cost in rows:
        samples.setdefault((model, provider), _Sample()).add(seconds, ok=status == "ok", cost=cost)
    return _summed_up(samples)


def _tools(store: Store, since: float) -> list[Figures]:
    decode = msgspec.json.Decoder(_ToolDuration).decode
    samples: dict[tuple[str, str], _Sample] = {}
    for (text,) in store.read(lambda connection: connection.execute(_TOOLS, (since,)).fetchall()):
        body = decode(text)
        samples.setdefault((body.name, ""), _Sample()).add(body.duration_ms / 1000, ok=body.status == "ok")
    return _summed_up(samples)


def _plugins(store: Store, since: float) -> list[Figures]:
    rows = store.read(lambda connection: connection.execute(_PLUGINS, (since,)).fetchall())
    called = [Figures(name, site, calls, failed, None, None, seconds) for name, site, calls, failed, seconds in rows]
    query = " UNION ALL ".join(_ASKED_BY_PLUGINS.format(table=table) for table in ("model_calls", "outside_calls"))
    samples: dict[tuple[str, str], _Sample] = {}
    for name, status, seconds, cost in store.read(
        lambda connection: connection.execute(query, {"since": since}).fetchall()
    ):
        samples.setdefault((name, _MODELS_SITE), _Sample()).add(seconds, ok=status == "ok", cost=cost)
    return [*called, *_summed_up(samples)]


def _summed_up(samples: dict[tuple[str, str], _Sample]) -> list[Figures]:
    return [
        Figures(
            name,
            detail,
            len(sample.seconds),
            sample.failed,
            percentile(sample.seconds, 0.5),
            percentile(sample.seconds, 0.95),
            sum(sample.seconds),
            sample.cost,
        )
        for (name, detail), sample in samples.items()
    ]


def percentile(values: Iterable[float], part: float) -> float:
    """The smallest value that at least this part of the values does not exceed."""
    ordered = sorted(values)
    return ordered[max(math.ceil(len(ordered) * part), 1) - 1]
