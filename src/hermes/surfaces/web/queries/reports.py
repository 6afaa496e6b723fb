"""Reports of the page: cost by day, model and plugin, budgets, the health of plugins, and two runs compared."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from msgspec.structs import asdict as struct_fields

from hermes.base.config import Config, load_config
from hermes.base.config.schema.sections import BudgetLimitsConfig
from hermes.base.errors import ConfigError
from hermes.journal.history.lists import principals_since
from hermes.journal.store.port import Store
from hermes.journal.usage.plugins import plugin_totals
from hermes.journal.usage.spending import Used, total, usage_by
from hermes.journal.usage.sums import Spent, midnight, spent_today
from hermes.trace.clean import Cleaner

Report = dict[str, Any]

_DAY = 86_400.0
#: Differences that are shown; more of them say nothing new.
_MOST_DIFFERENCES = 200


# -- cost -----------------------------------------------------------------------------------------------------------


def cost_report(store: Store, home: Path, days: int) -> Report:
    """What models took in the last days: by day, model and plugin; and what is left of the budgets."""
    since = time.time() - days * _DAY
    by_day, by_model, by_plugin = (usage_by(store, grouping, since) for grouping in ("day", "model", "plugin"))

    def shown(rows: list[Used]) -> list[Report]:
        return [struct_fields(used) for used in rows]

    return {
        "days": days,
        "day": shown(by_day),
        "model": shown(by_model),
        "plugin": shown(by_plugin),
        "total": struct_fields(total(by_day)),
        "budgets": _budgets(store, _config(home)),
    }


def _config(home: Path) -> Config:
    try:
        return load_config(home).config
    except ConfigError:
        return Config()  # 'hermes doctor' reports it; the journal can be read without


def _budgets(store: Store, config: Config) -> list[Report]:
    budgets = config.budgets
    rows: list[Report] = []
    if budgets.day.is_set:
        rows.append(_budget("day", "today", budgets.day, spent_today(store).spent))
    if budgets.plugin.is_set:
        plugins = [used.name for used in usage_by(store, "plugin", midnight())]
        rows += [
            _budget("plugin", name, budgets.plugin, spent_today(store, plugin=name).spent)
            for name in plugins
            if name != "conversation" and not name.startswith("side:")
        ]
    for name in sorted({*budgets.principals, *(_principals(store) if budgets.principal.is_set else ())}):
        limits = budgets.principals.get(name, budgets.principal)
        if limits.is_set:
            rows.append(_budget("principal", name, limits, spent_today(store, principal=name).spent))
    for name in ("turn", "session", "child"):
        limits: BudgetLimitsConfig = getattr(budgets, name)
        if limits.is_set:
            rows.append(_budget(name, f"each {name}", limits, None))
    return rows


def _budget(kind: str, name: str, limits: BudgetLimitsConfig, spent: Spent | None) -> Report:
    used = (
        None
        if spent is None
        else {"usd": spent.usd, "tokens": spent.tokens, "minutes": spent.seconds / 60, "calls": spent.calls}
    )
    return {"kind": kind, "name": name, "limits": struct_fields(limits), "spent": used}


def _principals(store: Store) -> list[str]:
    """The callers whose sessions were used today."""
    return store.read(lambda connection: principals_since(connection, midnight()))


# -- plugins --------------------------------------------------------------------------------------------------------


def plugin_report(store: Store, home: Path, clean: Cleaner) -> list[Report]:
    """How every plugin did that was loaded in a stored session, and those that are enabled and were never used."""
    totals = plugin_totals(store)
    rows: list[Report] = []
    for name, one in sorted(totals.items()):
        spending = one.spending
        rows.append(
            {
                "name": name,
                "calls": one.calls,
                "failures": one.failures,
                "seconds": one.seconds,
                "sessions": one.sessions,
                "last_used": one.last_used,
                "last_error": clean.text(one.last_error),
                "load_error": clean.text(one.load_error),
                "joins": [*one.sites, *(f"tool {tool}" for tool in one.tools)],
                "waiting": one.waiting,
                "exports": [
                    {"to": part.site.removeprefix("export:"), "events": part.calls, "failed": part.failures}
                    for part in one.exports
                ],
                "model_calls": spending.calls,
                "tokens": spending.tokens,
                "cost": spending.cost_usd,
            }
        )
    known = {row["name"] for row in rows} | {row["name"].rpartition("/")[2] for row in rows}
    unused = [name for name in _config(home).plugins.enabled if name not in known]
    return [*rows, *({"name": name, "sessions": 0} for name in unused)]


# -- comparison -----------------------------------------------------------------------------------------------------


def comparison(store: Store, before: str, after: str, clean: Cleaner) -> Report:
    """Two sessions step by step, as ``hermes trace diff`` compares them."""
    from hermes.record.compare import compare_recordings, difference_lines
    from hermes.record.recording import load_recording, totals_of

    runs = [load_recording(store, session_id) for session_id in (before, after)]
    found = compare_recordings(runs[0], runs[1])
    return {
        "a": runs[0].id,
        "b": runs[1].id,
        "totals": [struct_fields(totals_of(run)) for run in runs],
        "count": len(found),
        "differences": [
            {
                "place": one.place,
                "session": one.session_id,
                "lines": [clean.text(line) for line in difference_lines(one)[1:]],
            }
            for one in found[:_MOST_DIFFERENCES]
        ],
    }
