"""Trust settings of plugins for model access: which choices a plugin may make, and how much it may spend.

Everything is read from ``plugins.entries.<plugin>.llm``. What is missing or of another type than it should be grants
nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

from hermes.contract.llm import PluginLlmTrustError

ANY = "*"

#: What a call may choose, in the order in which it is checked: the flag that grants it, and the list that narrows it.
OVERRIDES: dict[str, tuple[str, str]] = {
    "provider": ("allow_provider_override", "allowed_providers"),
    "model": ("allow_model_override", "allowed_models"),
    "agent_id": ("allow_agent_id_override", ""),
    "profile": ("allow_profile_override", ""),
}


class Budget(NamedTuple):
    """How much a plugin may spend; ``None`` means no limit."""

    max_calls_per_session: int | None = None
    max_tokens_per_day: int | None = None
    max_cost_usd_per_day: float | None = None

    @property
    def is_limited(self) -> bool:
        return any(limit is not None for limit in self)


#: Every setting allowed under ``llm``.
SETTINGS = (*(name for pair in OVERRIDES.values() for name in pair if name), *Budget._fields)


def refusal(plugin: str, entries: object, **chosen: object) -> str | None:
    """Why a call may not choose what it chooses (``OVERRIDES``), naming the setting to change; ``None`` when it may.

    ``entries`` is ``plugins.entries``, unchecked. A choice that is empty is none.
    """
    settings = _settings(plugin, entries)
    problems = (_refused(plugin, name, chosen[name], settings) for name in OVERRIDES if chosen.get(name))
    return next((problem for problem in problems if problem is not None), None)


def budget_of(plugin: str, entries: object) -> Budget:
    """The limits of a plugin. Raises ``PluginLlmTrustError`` for one that is no limit, naming the setting."""
    settings = _settings(plugin, entries)
    limits = {name: _limit(plugin, name, settings[name]) for name in Budget._fields if name in settings}
    return Budget(**cast("dict[str, Any]", limits))


def unknown_settings(plugin: str, entries: object) -> list[str]:
    """Unknown settings among a plugin's settings for models."""
    return [name for name in _settings(plugin, entries) if name not in SETTINGS]


def key_of(plugin: str, setting: str) -> str:
    """The full name of a setting."""
    return f"plugins.entries.{plugin}.llm.{setting}"


def _settings(plugin: str, entries: object) -> Mapping[str, Any]:
    for name in (plugin, "llm"):
        if not isinstance(entries, Mapping):
            return {}
        entries = cast("Mapping[str, object]", entries).get(name)
    return cast("Mapping[str, Any]", entries) if isinstance(entries, Mapping) else {}


def _refused(plugin: str, name: str, value: object, settings: Mapping[str, Any]) -> str | None:
    flag, allowed = OVERRIDES[name]
    if settings.get(flag) is not True:
        found = f" (found: {settings[flag]!r})" if flag in settings and settings[flag] is not False else ""
        return f"plugin {plugin!r} may not choose {name}={value!r}; set {key_of(plugin, flag)}: true to let it{found}"
    if not allowed or allowed not in settings:
        return None
    found: object = settings[allowed]
    if not isinstance(found, list):
        return (
            f"plugin {plugin!r} may not choose {name}={value!r}: {key_of(plugin, allowed)} must be a list of names, "
            f'found {found!r}; ["*"] allows any'
        )
    names = cast("list[object]", found)
    if any(_matches(one, value) for one in names):
        return None
    listed = ", ".join(map(str, names)) or "which is empty"
    return f"plugin {plugin!r} may not choose {name}={value!r}: it is not in {key_of(plugin, allowed)} ({listed})"


def _matches(allowed: object, value: object) -> bool:
    if not isinstance(allowed, str) or not isinstance(value, str):
        return False
    allowed = allowed.strip().lower()
    return allowed == ANY or allowed == value.strip().lower()


def _limit(plugin: str, name: str, value: object) -> int | float:
    in_dollars = name == "max_cost_usd_per_day"
    if isinstance(value, int | float) and not isinstance(value, bool):
        fits = isinstance(value, int) or (in_dollars and math.isfinite(value))
        if fits and value >= 0:
            return value
    kind = "an amount in dollars" if in_dollars else "a whole number"
    raise PluginLlmTrustError(
        f"plugin {plugin!r} may not ask a model: {key_of(plugin, name)} must be {kind} of at least 0, found {value!r}; "
        f"correct it, or take it out"
    )
