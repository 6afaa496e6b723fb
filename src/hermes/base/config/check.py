"""Validation: converts plain data to the structs of the configuration and reports every value that does not fit."""

from __future__ import annotations

import math
from functools import lru_cache
from types import GenericAlias
from typing import Any, cast, get_args

import msgspec

from hermes.base.config.messages import KeyPath, allowed_values, describe, dotted, suggestion
from hermes.base.config.schema.aliases import (
    AliasedConfig,
    AliasedHooksConfig,
    AliasedModelConfig,
    AliasedPluginsConfig,
)
from hermes.base.config.schema.sections import ApiMode, AuxiliaryConfig, HooksConfig, MemoryConfig

#: Sections whose other keys are names chosen by the user: the field that collects them, and what an item is.
NAMED_ITEMS: dict[type, tuple[str, type]] = {
    AuxiliaryConfig: ("tasks", dict),
    HooksConfig: ("events", object),
    AliasedHooksConfig: ("events", object),
    MemoryConfig: ("providers", dict),
}
_SWITCHES = {"yes": True, "on": True, "no": False, "off": False}
_ABSENT: Any = object()


class Problem(msgspec.Struct, frozen=True):
    """A value that cannot be used: its key, what was found and what is allowed."""

    path: KeyPath
    found: str
    allowed: str

    def __str__(self) -> str:
        return f"{dotted(self.path)}: found {self.found}; allowed: {self.allowed}"


class ConfigFindings(msgspec.Struct):
    """What the check of one document brought to light."""

    problems: list[Problem] = msgspec.field(default_factory=list[Problem])
    #: Keys that nothing reads, each with a hint.
    unknown: dict[KeyPath, str] = msgspec.field(default_factory=dict[KeyPath, str])


def check(document: dict[str, Any]) -> tuple[AliasedConfig, ConfigFindings]:
    """The document as structs. What has a problem keeps its default."""
    findings = ConfigFindings()
    return _fit_struct(document, AliasedConfig, (), findings), findings


def _fit(value: Any, kind: Any, path: KeyPath, findings: ConfigFindings) -> Any:
    kind = _without_none(kind)
    if isinstance(kind, GenericAlias):
        if kind.__origin__ is dict and isinstance(value, dict):
            return _fit_dict(cast("dict[object, Any]", value), get_args(kind)[1], path, findings)
        if kind.__origin__ is list and isinstance(value, list):
            items = enumerate(cast("list[Any]", value))
            fitted = [_fit(item, get_args(kind)[0], (*path, index), findings) for index, item in items]
            return [item for item in fitted if item is not _ABSENT]
    elif isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return _fit_struct(value, kind, path, findings)
    return _fit_leaf(value, kind, path, findings)


def _fit_dict(value: dict[object, Any], kind: Any, path: KeyPath, findings: ConfigFindings) -> dict[str, Any]:
    if kind is Any:
        return {str(key): item for key, item in value.items()}
    present = {str(key): item for key, item in value.items() if item is not None}
    fitted = {key: _fit(item, kind, (*path, key), findings) for key, item in present.items()}
    return {key: item for key, item in fitted.items() if item is not _ABSENT}


def _fit_struct(value: Any, kind: type[msgspec.Struct], path: KeyPath, findings: ConfigFindings) -> Any:
    if kind is AliasedModelConfig and isinstance(value, str):
        value = {"default": value}
    if not isinstance(value, dict):
        findings.problems.append(Problem(path, describe(value, path), "a mapping of key: value lines"))
        return _ABSENT
    hints = _hints(kind)
    collector, item_type = NAMED_ITEMS.get(kind, ("", object))
    fitted: dict[str, Any] = {}
    for key, item in cast("dict[object, Any]", value).items():
        name = str(key)
        if name in hints and name != collector:
            # `key:` with nothing after it is a setting that is not filled in yet.
            if item is not None:
                fitted[name] = _fit(item, hints[name], (*path, name), findings)
        elif collector and item is not None and isinstance(item, item_type):
            named = _fit_dict({name: item}, get_args(hints[collector])[1], path, findings)
            fitted[collector] = {**fitted.get(collector, {}), **named}
        elif not name.startswith(("_", "x-")) and name not in getattr(kind, "without_effect", ()):
            _note_unknown(kind, path, name, item, findings)
    return _build(kind, fitted, path, findings)


def _note_unknown(
    kind: type[msgspec.Struct], path: KeyPath, name: str, value: object, findings: ConfigFindings
) -> None:
    hint = suggestion(name, path, _hints(kind))
    if kind is AliasedPluginsConfig and isinstance(value, dict) and not hint:
        return  # settings that a plugin reads by itself
    findings.unknown[*path, name] = hint


def _build(kind: type[msgspec.Struct], fitted: dict[str, Any], path: KeyPath, findings: ConfigFindings) -> Any:
    try:
        return kind(**{name: item for name, item in fitted.items() if item is not _ABSENT})
    except TypeError:
        for expected in msgspec.structs.fields(kind):
            if expected.required and expected.name not in fitted:
                allowed = allowed_values(_hints(kind)[expected.name])
                findings.problems.append(Problem((*path, expected.name), "nothing", allowed))
        return _ABSENT


def _fit_leaf(value: Any, kind: Any, path: KeyPath, findings: ConfigFindings) -> Any:
    if kind is bool and isinstance(value, str):
        value = _SWITCHES.get(value.lower(), value)
    elif kind == ApiMode and value == "responses":
        value = "codex_responses"
    if not (isinstance(value, float) and not math.isfinite(value)):
        try:
            return msgspec.convert(value, kind)
        except msgspec.ValidationError:
            pass
    findings.problems.append(Problem(path, describe(value, path), allowed_values(kind)))
    return _ABSENT


@lru_cache
def _hints(kind: type[msgspec.Struct]) -> dict[str, Any]:
    hints: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        hints.update(getattr(base, "__annotations__", {}))
    return {name: hints[name] for name in kind.__struct_fields__}


@lru_cache
def _without_none(kind: Any) -> Any:
    """``X | None`` as ``X``: a setting without a value is left out before it gets here."""
    arguments = get_args(kind)
    if type(None) not in arguments:
        return kind
    rest = [argument for argument in arguments if argument is not type(None)]
    return rest[0] if len(rest) == 1 else kind
