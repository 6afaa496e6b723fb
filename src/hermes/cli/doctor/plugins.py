"""Checks of the plugins: found, valid, fit to load, and how their calls have gone. None of their code runs here."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import closing
from typing import TypeVar

from hermes.cli.doctor.finding import Finding, broken, ok, warning
from hermes.cli.doctor.patient import Patient
from hermes.cli.plugins.rows import PluginRow, plugin_row
from hermes.commands.wording import plural
from hermes.config import env_path
from hermes.errors import JournalError
from hermes.journal.store import Store
from hermes.journal.usage.plugin_calls import EXPORT_SITE, REGISTER_SITE, PluginCalls, plugin_totals, recent_counters
from hermes.models.profiles import CUSTOM
from hermes.models.routing import name_of
from hermes.plugins.check.check import check_plugin
from hermes.plugins.discovery import discover, is_set, suggestion
from hermes.plugins.manifest import PluginManifest, read_fields

T = TypeVar("T")

#: Hooks of the contract that belong to a surface which is not part of this version.
NEVER_FIRED = frozenset({"pre_gateway_dispatch"})

_RECENT_DAYS = 7
_LOAD_SECONDS = 20.0
_MISSING_MODULE = re.compile(r"No module named '([\w.]+)'")
_LEFT_OUT = "left out after"


def check_enabled(patient: Patient) -> Iterator[Finding]:
    """Every plugin that is asked for is there, and plugins are loaded at all."""
    wanted = patient.settings().plugins.enabled
    manifests = discover(patient.home, patient.cwd)
    if is_set("HERMES_SAFE_MODE"):
        yield warning("safe mode", "HERMES_SAFE_MODE is set: no plugin is loaded", command="unset HERMES_SAFE_MODE")
    missing = [name for name in wanted if not any(one.answers_to(name) for one in manifests.values())]
    for name in missing:
        hint = suggestion(name, manifests).removeprefix("; ")
        yield broken(name, f"is enabled and cannot be found; {hint}", "install it, or take it out of plugins.enabled")
    if not wanted:
        yield ok("enabled", f"none ({plural(len(manifests), 'plugin')} found)")


def check_plugins(patient: Patient) -> Iterator[Finding]:
    """What is wrong with each plugin that is switched on, as far as that can be told without running it."""
    for manifest, row in _switched_on(patient):
        found = [*_row_findings(row, patient), *_code_findings(manifest, row), *_package_findings(manifest)]
        yield from found or [ok(row.key, _summary(row))]


def plugins_may_bring(provider: str, known: Collection[str], patient: Patient) -> bool:
    """Whether a plugin may know a model provider that the runtime does not: an enabled one, or one of its name."""
    config = patient.settings()
    if provider in ("", "auto"):
        return bool(config.plugins.enabled)
    if name_of(config, provider) in {*known, *config.providers, CUSTOM}:
        return False
    return bool(config.plugins.enabled) or any(
        one.answers_to(provider) for one in discover(patient.home, patient.cwd).values()
    )


def check_calls(patient: Patient) -> Iterator[Finding]:
    """Failed and late calls of the last days."""
    for one in _recent(patient):
        if not one.failures or one.site == REGISTER_SITE or one.site.startswith(EXPORT_SITE):
            continue
        where = f"{one.failures} of {plural(one.calls, 'call')} at {one.site} failed in the last {_RECENT_DAYS} days"
        if _LEFT_OUT in one.last_error:
            advice = "it is too slow there: give it more time, register it with background=True, or disable it"
            yield warning(one.plugin, f"was left out at {one.site} after late calls ({where})", advice)
        else:
            yield warning(one.plugin, f"{where}; last: {one.last_error}", command="hermes logs --level WARNING")


def check_exporters(patient: Patient) -> Iterator[Finding]:
    """What plugins that send data elsewhere say about it: events in, events out, the last error."""
    for one in _recent(patient):
        if not one.site.startswith(EXPORT_SITE):
            continue
        target = one.site.removeprefix(EXPORT_SITE)
        counts = f"{target}: {plural(one.calls, 'event')} in, {one.calls - one.failures} out"
        if one.last_error:
            yield warning(one.plugin, f"{counts}; last: {one.last_error}", "check where it sends to and its settings")
        else:
            yield ok(one.plugin, counts)


def check_loading(patient: Patient) -> Iterator[Finding]:
    """With ``--load``, every plugin that is switched on loads in a process of its own."""
    if not patient.load:
        return
    import subprocess

    for _, row in _switched_on(patient):
        line = [sys.executable, "-m", "hermes", "plugins", "info", row.key, "--load", "--json"]
        try:
            done = subprocess.run(
                line,
                env=dict(patient.shell),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_LOAD_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            yield broken(row.key, f"did not load within {_LOAD_SECONDS:g} s", "look at what it does in register(ctx)")
            continue
        if done.returncode == 0:
            yield ok(row.key, "loads")
        else:
            told = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:] or ["no reason given"]
            yield broken(row.key, f"does not load: {told[0].removeprefix('Error: ')}", *_advice(told[0]))


def _switched_on(patient: Patient) -> Iterator[tuple[PluginManifest, PluginRow]]:
    config = patient.settings().plugins
    totals = _from_journal(patient, plugin_totals) or {}
    for manifest in discover(patient.home, patient.cwd).values():
        row = plugin_row(manifest, config, totals, os.environ)
        if row.is_switched_on:
            yield manifest, row


def _recent(patient: Patient) -> list[PluginCalls]:
    since = time.time() - _RECENT_DAYS * 86_400
    return _from_journal(patient, lambda store: recent_counters(store, since)) or []


def _from_journal(patient: Patient, read: Callable[[Store], T]) -> T | None:
    """What the journal holds; nothing when it cannot be read, which is told elsewhere."""
    try:
        if not patient.has_current_journal():
            return None
        with closing(patient.store()) as store:
            return read(store)
    except JournalError:
        return None


def _row_findings(row: PluginRow, patient: Patient) -> Iterator[Finding]:
    show = f"hermes plugins info {row.key}"
    if row.status == "failed":
        yield broken(row.key, f"does not load: {row.error}", *_advice(row.error), command=show)
    for problem in row.problems:
        yield warning(row.key, problem, command=f"hermes plugins check {row.key}")
    for name in row.missing_env:
        yield warning(row.key, f"needs {name}, which is not set", f"set {name} in {env_path(patient.home)}")
    for hook in row.hooks:
        if hook in NEVER_FIRED:
            yield warning(row.key, f"subscribes to {hook}, which nothing in this version fires")
    for offer in row.waiting:
        yield warning(row.key, f"offers {offer}, which nothing in this version uses", command=show)


def _code_findings(manifest: PluginManifest, row: PluginRow) -> Iterator[Finding]:
    """Names that do not exist make a callback that never runs, so they count as broken."""
    for finding in check_plugin(manifest):
        command = f"hermes plugins check {row.key}"
        if finding.severity == "error" and row.status != "failed":
            yield broken(row.key, f"{finding.place}: {finding.text}", command=command)
        elif finding.rule == "hook-name" and finding.severity == "warning":
            yield warning(row.key, finding.text, command=command)


def _package_findings(manifest: PluginManifest) -> Iterator[Finding]:
    """Python packages that the manifest says the plugin needs."""
    for requirement in _dependencies(manifest):
        if not _is_installed(requirement):
            install = f"{sys.executable} -m pip install '{requirement}'"
            yield broken(manifest.key, f"needs the package {requirement}, which is not installed", command=install)


def _dependencies(manifest: PluginManifest) -> list[str]:
    from hermes.plugins.discovery import manifest_in

    file = manifest_in(manifest.path) if manifest.path else None
    try:
        listed = read_fields(file).get("pip_dependencies") if file else None
    except (OSError, ValueError):
        return []
    return [item for item in listed if isinstance(item, str)] if isinstance(listed, list) else []  # pyright: ignore[reportUnknownVariableType]


def _is_installed(requirement: str) -> bool:
    from importlib import metadata

    name = re.match(r"[A-Za-z0-9._-]+", requirement.strip())
    if name is None:
        return True  # an address or a path: it cannot be told
    try:
        metadata.version(name[0])
    except metadata.PackageNotFoundError:
        return False
    return True


def _advice(error: str) -> tuple[str]:
    module = _MISSING_MODULE.search(error)
    if module:
        return (f"install the package that has the module {module[1]}: {sys.executable} -m pip install PACKAGE",)
    return ("repair it, or disable it with 'hermes plugins disable NAME'",)


def _summary(row: PluginRow) -> str:
    version = f"{row.version}, " if row.version else ""
    calls = f", {plural(row.calls, 'call')}" if row.calls else ""
    return f"{version}{row.source}{calls}"
