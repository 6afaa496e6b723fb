"""What ``ctx`` offers, as tables made from its class."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from typing import Any

from hermes.contract.plugin import CAPABILITIES
from hermes.plugins.compat.names import find_module
from hermes.plugins.compat.table import ABSENT, NAMES, NARROWER
from hermes.plugins.context import PluginContext
from hermes.plugins.ctx.offers import ProviderRegistrations
from hermes.plugins.ctx.own_data import OwnData
from hermes.plugins.services import PluginHost
from hermes.testing import PluginHarness

from .markdown import code, table

#: Used by the loader, not by plugins.
_INTERNAL = ("roll_back", "commit", "add_mcp_server", "note_problem")


def members() -> str:
    """What takes effect, or is at least kept by name."""
    rows = [(code(_signature(name, member)), _first_line(member)) for name, member in _members()]
    return table(("member", "what it does"), [("`manifest`", "What `plugin.yaml` says."), *rows])


def waiting() -> str:
    """What is recorded until the part of the runtime it belongs to exists."""
    return table(("member", "offers"), [(code(f"{n}(…)"), _first_line(m)) for n, m in _public(ProviderRegistrations)])


def capabilities() -> str:
    """What plugins may ask for beyond the usual, and what grants it."""
    rows = [(code(name), code(f"plugins.entries.<key>.{setting}: true")) for name, setting in CAPABILITIES.items()]
    return table(("capability", "granted by"), rows)


def compatibility_names() -> str:
    """Which modules plugin code may import besides ours, what is in each, and what is narrower there or absent."""
    with PluginHarness(lambda _ctx: None) as harness:
        host = PluginHost(harness.tools, harness.hooks, harness, harness.plugins, {})
        modules = {name: find_module(host, name) for name in NAMES}
        rows = [_compatibility_row(name, vars(module)["__all__"]) for name, module in modules.items()]
    gone = [(code(name), "", "", why) for name, why in ABSENT.items() if _module_of(name) not in NAMES]
    return table(("module", "same", "narrower", "absent"), sorted([*rows, *gone]))


def _compatibility_row(module: str, names: Sequence[str]) -> tuple[str, str, str, str]:
    if module in NARROWER:
        return code(module), "", f"{', '.join(map(code, names))}: {NARROWER[module]}", _absent_of(module)
    how = {name: NARROWER[f"{module}.{name}"] for name in names if f"{module}.{name}" in NARROWER}
    same = ", ".join(code(name) for name in names if name not in how)
    return code(module), same, "; ".join(f"{code(name)}: {text}" for name, text in how.items()), _absent_of(module)


def _absent_of(module: str) -> str:
    begin = f"{module}."
    found = {name.removeprefix(begin): why for name, why in ABSENT.items() if _module_of(name) == module}
    return "; ".join(f"{code(name)}: {why}" for name, why in found.items())


def _module_of(name: str) -> str:
    """The module of the table that an absent name would be in; itself when the whole module is absent."""
    parts = name.split(".")
    parents = (".".join(parts[:length]) for length in range(len(parts) - 1, 0, -1))
    return next((parent for parent in parents if parent in NAMES), name)


def _members() -> Iterator[tuple[str, Any]]:
    yield from _public(OwnData)
    yield from _public(PluginContext)


def _public(kind: type) -> Iterator[tuple[str, Any]]:
    for name, member in vars(kind).items():
        if not name.startswith("_") and name not in _INTERNAL and (callable(member) or isinstance(member, property)):
            yield name, member


def _signature(name: str, member: Any) -> str:
    if isinstance(member, property):
        return name
    parameters = list(inspect.signature(member).parameters.values())[1:]
    parts: list[str] = []
    for index, one in enumerate(parameters):
        if one.kind is one.KEYWORD_ONLY and (not index or parameters[index - 1].kind is not one.KEYWORD_ONLY):
            parts.append("*")
        stars = "**" if one.kind is one.VAR_KEYWORD else ""
        parts.append(f"{stars}{one.name}" + ("" if one.default is one.empty else f"={one.default!r}"))
    return f"{name}({', '.join(parts)})"


def _first_line(member: Any) -> str:
    return (inspect.getdoc(member) or "").partition("\n")[0].replace("``", "`")
