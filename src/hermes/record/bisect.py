"""Bisection: which setting or plugin, of those that differ between two configurations, changes a recorded run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import msgspec

from hermes.base.config.changes import changed_settings
from hermes.base.config.schema.sections import Config
from hermes.base.errors import HermesError
from hermes.record.replay.replay import ReplayResult

_UNSET = object()
Path = tuple[str, ...]


class SettingChange(msgspec.Struct, frozen=True):
    """One setting that differs; an entry of a list of plugins counts for itself."""

    path: Path
    before: Any
    after: Any

    def __str__(self) -> str:
        name = ".".join(self.path)
        if self.path == ("plugins", "enabled"):
            return f"plugin {self.after[0]} enabled" if self.after else f"plugin {self.before[0]} left out"
        return f"{name}: {_shown(self.before)} -> {_shown(self.after)}"


class Bisection(msgspec.Struct, frozen=True):
    """The change that flips the run, how many there were, and how the run differs with it."""

    culprit: SettingChange | None
    changes: int
    replays: int
    result: ReplayResult | None = None


def bisect(before: Config, after: Config, run: Callable[[Config], ReplayResult]) -> Bisection:
    """Find the first change that makes the run differ. The run has to be identical with ``before``."""
    changes = changes_between(before, after)
    replays = 1
    if not run(before).identical:
        raise HermesError("the run differs already with the first configuration; nothing can be found by bisection")
    whole = run(after)
    replays += 1
    if whole.identical or not changes:
        return Bisection(None, len(changes), replays)
    low, high, last = 0, len(changes), whole
    while high - low > 1:  # identical with the first ``low`` changes, different with the first ``high``
        middle = (low + high) // 2
        result = run(with_changes(before, changes[:middle]))
        replays += 1
        if result.identical:
            low = middle
        else:
            high, last = middle, result
    return Bisection(changes[high - 1], len(changes), replays, last)


def changes_between(before: Config, after: Config) -> list[SettingChange]:
    """The settings that differ, plugins one by one."""
    found: list[SettingChange] = []
    first, second = _leaves(changed_settings(before)), _leaves(changed_settings(after))
    for path in sorted({*first, *second}):
        one, other = first.get(path, _UNSET), second.get(path, _UNSET)
        if one == other:
            continue
        if path == ("plugins", "enabled"):
            found += _plugin_changes(one, other)
        else:
            found.append(SettingChange(path, one, other))
    return found


def with_changes(config: Config, changes: list[SettingChange]) -> Config:
    """The configuration with some changes made."""
    settings: dict[str, Any] = changed_settings(config)
    for change in changes:
        section = settings
        for name in change.path[:-1]:
            section = cast("dict[str, Any]", section.setdefault(name, {}))
        if change.path == ("plugins", "enabled"):
            enabled: list[str] = list(section.get("enabled") or ())
            enabled = [name for name in enabled if name not in change.before or name in change.after]
            section["enabled"] = [*enabled, *(name for name in change.after if name not in enabled)]
        elif change.after is _UNSET:
            section.pop(change.path[-1], None)
        else:
            section[change.path[-1]] = change.after
    try:
        return msgspec.convert(settings, Config)
    except msgspec.ValidationError as error:
        raise HermesError(f"some settings do not fit together: {error}") from None


def _shown(value: Any) -> str:
    return "(default)" if value is _UNSET else msgspec.json.encode(value).decode()


def _plugin_changes(before: Any, after: Any) -> list[SettingChange]:
    one: list[str] = [] if before is _UNSET else list(before)
    other: list[str] = [] if after is _UNSET else list(after)
    path = ("plugins", "enabled")
    removed = [SettingChange(path, [name], []) for name in one if name not in other]
    return [*removed, *(SettingChange(path, [], [name]) for name in other if name not in one)]


def _leaves(settings: dict[str, Any], path: Path = ()) -> dict[Path, Any]:
    found: dict[Path, Any] = {}
    for name, value in settings.items():
        if isinstance(value, dict) and value:
            found |= _leaves(cast("dict[str, Any]", value), (*path, name))
        else:
            found[(*path, name)] = value
    return found
