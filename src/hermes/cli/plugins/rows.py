"""What is known of every plugin without importing any: its manifest, the configuration and past sessions."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from hermes.config.sections import PluginsConfig
from hermes.contract.hooks import HOOKS
from hermes.contract.middleware import MIDDLEWARE
from hermes.journal.usage.plugins import EXPORT_SITE, PluginCalls, PluginTotals
from hermes.plugins.install.source import InstallRecord, read_record
from hermes.plugins.loader import decide
from hermes.plugins.manifest import PluginManifest
from hermes.sanitize import redact_text


class PluginRow(Struct, frozen=True):
    """One plugin in a list."""

    key: str
    name: str
    #: ``enabled``, ``disabled``, ``not enabled``, ``failed`` or ``waiting``.
    status: str
    version: str
    #: ``bundled``, ``user``, ``project``, ``git`` or ``entrypoint``.
    source: str
    kind: str
    description: str
    author: str
    #: The plugin's folder, or the entry point.
    path: str
    #: Where it was installed from and which revision, when that is known.
    origin: str
    revision: str
    #: What it joined in the last session; before the first one, what its manifest says it provides.
    hooks: list[str]
    middleware: list[str]
    tools: list[str]
    #: What it offered that no part of the runtime uses yet.
    waiting: list[str]
    #: Why it does not work.
    error: str
    #: What is odd about it without being in the way.
    problems: list[str]
    missing_env: list[str]
    #: From all past sessions.
    sessions: int
    calls: int
    failures: int
    seconds: float
    last_error: str
    #: What it asked models.
    model_calls: int
    model_failures: int
    model_tokens: int
    #: None when no cost is known.
    model_cost_usd: float | None
    #: What it sent elsewhere: where, how many events came in and got out.
    exports: list[str]

    @property
    def is_switched_on(self) -> bool:
        return self.status in ("enabled", "failed")


def plugin_row(
    manifest: PluginManifest, config: PluginsConfig, totals: Mapping[str, PluginTotals], env: Mapping[str, str]
) -> PluginRow:
    """What is known of one plugin."""
    total = totals.get(manifest.key, PluginTotals())
    record = read_record(manifest.path)
    status, error = _status(manifest, config, total)
    has_run = total.last_used > 0
    return PluginRow(
        key=manifest.key,
        name=manifest.name,
        status=status,
        version=manifest.version,
        source=_source(manifest, record),
        kind=manifest.kind,
        description=manifest.description,
        author=manifest.author,
        path=str(manifest.path or manifest.entry_point),
        origin=record.source.shown if record else "",
        revision=record.revision if record else "",
        hooks=[site for site in total.sites if site in HOOKS] if has_run else list(manifest.provides_hooks),
        middleware=[site for site in total.sites if site in MIDDLEWARE],
        tools=list(total.tools) if has_run else list(manifest.provides_tools),
        waiting=list(total.waiting),
        error=redact_text(error),
        problems=list(manifest.remarks),
        missing_env=manifest.missing_env(env),
        sessions=total.sessions,
        calls=total.calls,
        failures=total.failures,
        seconds=round(total.seconds, 6),
        last_error=redact_text(total.last_error),
        model_calls=total.spending.calls,
        model_failures=total.spending.failures,
        model_tokens=total.spending.tokens,
        model_cost_usd=total.spending.cost_usd,
        exports=[_export(one) for one in total.exports],
    )


def _export(one: PluginCalls) -> str:
    return redact_text(f"{one.site.removeprefix(EXPORT_SITE)}: {one.calls} in, {one.calls - one.failures} out")


def as_json(row: PluginRow) -> dict[str, Any]:
    """The row as plain data."""
    return {name: getattr(row, name) for name in row.__struct_fields__}


def _status(manifest: PluginManifest, config: PluginsConfig, total: PluginTotals) -> tuple[str, str]:
    decision = decide(manifest, set(config.enabled), config.disabled)
    if decision != "load":
        return decision, manifest.problem
    if manifest.problem:
        return "failed", manifest.problem
    if total.load_error and not _has_changed_since(manifest.path, total.last_used):
        return "failed", f"in the last session: {total.load_error}"
    return "enabled", ""


def _has_changed_since(folder: Path | None, then: float) -> bool:
    """Whether a plugin that failed may have been repaired."""
    if folder is None:
        return False
    try:
        with os.scandir(folder) as entries:
            return any(entry.stat().st_mtime > then for entry in entries if entry.is_file())
    except OSError:
        return False


def _source(manifest: PluginManifest, record: InstallRecord | None) -> str:
    if manifest.source != "user" or manifest.path is None:
        return manifest.source
    is_git = record.source.kind == "git" if record else (manifest.path / ".git").exists()
    return "git" if is_git else "user"
