"""The plugins found from a home and the current folder, with what is known of each without importing it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from hermes.base.config import apply_env, hermes_home, load_config, load_env_file
from hermes.base.config.schema.sections import PluginsConfig
from hermes.base.errors import JournalError
from hermes.base.sanitize import redact_text
from hermes.contract.hooks import HOOKS
from hermes.contract.middleware import MIDDLEWARE
from hermes.journal.store.port import home_store
from hermes.journal.usage.plugins import EXPORT_SITE, PluginTotals, plugin_totals
from hermes.plugins.install.source import InstallRecord, read_record
from hermes.plugins.loading.discovery import discover, find_plugin
from hermes.plugins.loading.loader import decide
from hermes.plugins.loading.manifest import PluginManifest
from hermes.surfaces.cli.terminal import warn


class InstalledPlugins:
    """The plugins of a home, its configuration and past calls."""

    def __init__(self) -> None:
        self.home = hermes_home()
        self.cwd = Path.cwd()
        #: The environment of the shell, for child processes: without the keys of ``.env``.
        self.shell: Mapping[str, str] = dict(os.environ)
        apply_env(load_env_file(self.home))

    @property
    def config(self) -> PluginsConfig:
        """The ``plugins`` section as it is now."""
        return load_config(self.home).config.plugins

    def manifests(self) -> dict[str, PluginManifest]:
        """All plugins."""
        return discover(self.home, self.cwd)

    def find(self, name: str) -> PluginManifest:
        """The plugin with that key, name or last part of a key."""
        return find_plugin(name, self.manifests())

    def row(self, manifest: PluginManifest) -> PluginRow:
        """The row of one plugin."""
        return plugin_row(manifest, self.config, self.totals())

    def totals(self) -> dict[str, PluginTotals]:
        """Counters of past calls; empty, with a warning, when the journal cannot be read."""
        store = home_store(self.home)
        try:
            return plugin_totals(store)
        except JournalError as error:
            warn(f"no counters: {error}")
            return {}
        finally:
            store.close()


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
    #: The source and revision it was installed from, when known.
    origin: str
    revision: str
    #: Subscriptions in the last session; before the first one, those of its manifest.
    hooks: list[str]
    middleware: list[str]
    tools: list[str]
    #: Registrations that this version does not use.
    waiting: list[str]
    #: Why it failed.
    error: str
    #: Warnings about its manifest, and what it was not allowed to register in the last session.
    problems: list[str]
    missing_env: list[str]
    #: Totals of all past sessions.
    sessions: int
    calls: int
    failures: int
    seconds: float
    last_error: str
    #: Its calls to models.
    model_calls: int
    model_failures: int
    model_tokens: int
    #: None when unknown.
    model_cost_usd: float | None
    #: Exports: target, events in and out.
    exports: list[str]

    @property
    def is_enabled(self) -> bool:
        return self.status in ("enabled", "failed")


def plugin_row(manifest: PluginManifest, config: PluginsConfig, totals: Mapping[str, PluginTotals]) -> PluginRow:
    """The row of one plugin."""
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
        problems=[*manifest.remarks, *_refusals(manifest, total)],
        missing_env=manifest.missing_env(os.environ),
        sessions=total.sessions,
        calls=total.calls,
        failures=total.failures,
        seconds=round(total.seconds, 6),
        last_error=redact_text(total.last_error),
        model_calls=total.spending.calls,
        model_failures=total.spending.failures,
        model_tokens=total.spending.tokens,
        model_cost_usd=total.spending.cost_usd,
        exports=[
            redact_text(f"{one.site.removeprefix(EXPORT_SITE)}: {one.calls} in, {one.calls - one.failures} out")
            for one in total.exports
        ],
    )


def _status(manifest: PluginManifest, config: PluginsConfig, total: PluginTotals) -> tuple[str, str]:
    decision = decide(manifest, set(config.enabled), config.disabled)
    if decision != "load":
        return decision, manifest.problem
    if manifest.problem:
        return "failed", manifest.problem
    if total.load_error and not _has_changed_since(manifest.path, total.last_used):
        return "failed", f"in the last session: {total.load_error}"
    return "enabled", ""


def _refusals(manifest: PluginManifest, total: PluginTotals) -> list[str]:
    if not total.refused or _has_changed_since(manifest.path, total.last_used):
        return []
    return [f"refused in the last session: {redact_text(total.refused)}"]


def _has_changed_since(folder: Path | None, then: float) -> bool:
    """Whether a failed plugin was changed since, and may work now."""
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
