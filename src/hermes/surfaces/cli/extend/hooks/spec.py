"""``hermes hooks spec``: the plugin contract as data."""

from __future__ import annotations

import argparse
from typing import Any

from hermes.base.errors import HermesError, did_you_mean
from hermes.contract.hooks import HOOKS, OBSERVER_SCHEMA, PAIRS, HookSpec
from hermes.contract.middleware import MIDDLEWARE, MIDDLEWARE_SCHEMA, MiddlewareSpec
from hermes.surfaces.cli.report import Report


def run_spec(args: argparse.Namespace) -> Report:
    """The whole contract, or one hook or middleware kind."""
    name = args.name
    if not name:
        return Report(contract_document(), _overview())
    if name not in HOOKS and name not in MIDDLEWARE:
        hint = did_you_mean(name, [*HOOKS, *MIDDLEWARE], otherwise="'hermes hooks spec' lists them")
        raise HermesError(f"there is no hook or middleware kind {name!r}{hint}")
    document = _hook(HOOKS[name]) if name in HOOKS else _middleware(MIDDLEWARE[name])
    return Report(document, _page(name, document))


def contract_document() -> dict[str, Any]:
    """The whole contract."""
    return {
        "schema_versions": {"observer": OBSERVER_SCHEMA, "middleware": MIDDLEWARE_SCHEMA},
        "hooks": [_hook(spec) for spec in HOOKS.values()],
        "middleware": [_middleware(spec) for spec in MIDDLEWARE.values()],
        "pairs": [pair._asdict() for pair in PAIRS],
    }


def _hook(spec: HookSpec) -> dict[str, Any]:
    more = {"answers": spec.answers, "live": spec.live or None, "schema_version": OBSERVER_SCHEMA}
    return {**spec._asdict(), **more, "fields": [field._asdict() for field in spec.fields]}


def _middleware(spec: MiddlewareSpec) -> dict[str, Any]:
    more = {"original": spec.original, "schema_version": MIDDLEWARE_SCHEMA}
    return {**spec._asdict(), **more, "fields": [field._asdict() for field in spec.fields]}


def _overview() -> list[str]:
    width = max(map(len, (*HOOKS, *MIDDLEWARE)))
    lines = [f"hooks ({OBSERVER_SCHEMA})"]
    lines += [f"  {spec.name:<{width}}  {spec.when}" for spec in HOOKS.values()]
    lines += [f"middleware ({MIDDLEWARE_SCHEMA})"]
    lines += [f"  {spec.kind:<{width}}  {spec.when}" for spec in MIDDLEWARE.values()]
    return [*lines, "'hermes hooks spec NAME' shows the fields of one of them."]


def _page(name: str, part: dict[str, Any]) -> list[str]:
    fields: list[dict[str, Any]] = part["fields"]
    widths = {key: max(len(str(field[key])) for field in fields) for key in ("name", "type", "safety")}
    lines = [f"{name} ({part['schema_version']})", f"when: {part['when']}", f"returns: {part['returns']}"]
    if part.get("live"):
        lines.append(f"live: {part['live']} may be changed in place")
    lines.append("fields:")
    for field in fields:
        columns = "  ".join(f"{field[key]:<{width}}" for key, width in widths.items())
        lines.append(f"  {columns}  {field['meaning']}{'' if field['always'] else ' (optional)'}")
    return lines
