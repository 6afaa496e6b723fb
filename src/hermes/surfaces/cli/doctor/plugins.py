"""Checks of the plugins and chat platforms: found, valid, loadable, and how their calls ended. Runs no plugin code."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Collection, Iterator
from importlib import metadata
from typing import Any, TypeVar, cast

from hermes.base.config import env_path
from hermes.base.errors import JournalError
from hermes.journal.store.port import Store
from hermes.journal.usage.plugins import EXPORT_SITE, REGISTER_SITE, PluginCalls, plugin_totals, recent_counters
from hermes.models.profiles import CUSTOM
from hermes.models.routing import name_of
from hermes.plugins.check import check_plugin
from hermes.plugins.ctx.offers import SELECTED_BY
from hermes.plugins.loading.discovery import discover, is_set, manifest_in, suggestion
from hermes.plugins.loading.manifest import PluginManifest, read_fields
from hermes.surfaces.cli.doctor.check import CheckResult, Installation, broken, ok, warning
from hermes.surfaces.cli.extend.plugins.installed import PluginRow, plugin_row
from hermes.surfaces.commands.text import plural

T = TypeVar("T")

_RECENT_DAYS = 7
_LOAD_SECONDS = 20.0
_MISSING_MODULE = re.compile(r"No module named '([\w.]+)'")
_LEFT_OUT = "left out after"
_SHOW_LOG = "hermes logs --level WARNING"
_STATUS = "hermes gateway status"


def check_enabled(installation: Installation) -> Iterator[CheckResult]:
    """Every enabled plugin is installed, and plugins are loaded at all."""
    wanted = installation.settings().plugins.enabled
    manifests = discover(installation.home, installation.cwd)
    if is_set("HERMES_SAFE_MODE"):
        yield warning("safe mode", "HERMES_SAFE_MODE is set: no plugin is loaded", command="unset HERMES_SAFE_MODE")
    missing = [name for name in wanted if not any(one.answers_to(name) for one in manifests.values())]
    for name in missing:
        hint = suggestion(name, manifests).removeprefix("; ")
        yield broken(name, f"enabled but not found; {hint}", "install it, or remove it from plugins.enabled")
    if not wanted:
        yield ok("enabled", f"none ({plural(len(manifests), 'plugin')} found)")


def check_plugins(installation: Installation) -> Iterator[CheckResult]:
    """Problems of each enabled plugin that can be found without running it."""
    for manifest, row in _enabled(installation):
        found = [*_row_findings(row, installation), *_code_findings(manifest, row), *_package_findings(manifest)]
        version = f"{row.version}, " if row.version else ""
        calls = f", {plural(row.calls, 'call')}" if row.calls else ""
        yield from found or [ok(row.key, f"{version}{row.source}{calls}")]


def plugins_may_bring(provider: str, known: Collection[str], installation: Installation) -> bool:
    """Whether a plugin may add an unknown model provider: an enabled one, or one of its name."""
    config = installation.settings()
    if provider in ("", "auto"):
        return bool(config.plugins.enabled)
    if name_of(config, provider) in {*known, *config.providers, CUSTOM}:
        return False
    return bool(config.plugins.enabled) or any(
        one.answers_to(provider) for one in discover(installation.home, installation.cwd).values()
    )


def check_calls(installation: Installation) -> Iterator[CheckResult]:
    """Failed and late calls of the last days."""
    for one in _recent(installation):
        if not one.failures or one.site == REGISTER_SITE or one.site.startswith(EXPORT_SITE):
            continue
        where = f"{one.failures} of {plural(one.calls, 'call')} at {one.site} failed in the last {_RECENT_DAYS} days"
        if _LEFT_OUT in one.last_error:
            advice = "it is too slow there: give it more time, register it with background=True, or disable it"
            yield warning(one.plugin, f"was skipped at {one.site} after late calls ({where})", advice)
        else:
            yield warning(one.plugin, f"{where}; last: {one.last_error}", command=_SHOW_LOG)


def check_exporters(installation: Installation) -> Iterator[CheckResult]:
    """Counters of plugins that export data: events in, events out, the last error."""
    for one in _recent(installation):
        if not one.site.startswith(EXPORT_SITE):
            continue
        target = one.site.removeprefix(EXPORT_SITE)
        counts = f"{target}: {plural(one.calls, 'event')} in, {one.calls - one.failures} out"
        if one.last_error:
            yield warning(one.plugin, f"{counts}; last: {one.last_error}", "check its target and its settings")
        else:
            yield ok(one.plugin, counts)


def check_platforms(installation: Installation) -> Iterator[CheckResult]:
    """Every chat platform that is switched on: a plugin for it, its state, messages that did not get through."""
    settings = installation.settings()
    names = [name for name, one in settings.gateway.platforms.items() if one.enabled]
    if not names:
        return
    from hermes.surfaces.gateway.status import read_status  # few homes have a gateway

    status = read_status(installation.home)
    is_running = status is not None and status.is_running
    last = {one["name"]: one for one in status.platforms} if status is not None else {}
    manifests = discover(installation.home, installation.cwd).values()
    for name in names:
        has_plugin = any(one.answers_to(name) or one.key.rpartition("/")[2] == name for one in manifests)
        may_have_plugin = has_plugin or bool(settings.plugins.enabled)
        yield _platform_result(name, last.get(name), is_running=is_running, may_have_plugin=may_have_plugin)
    yield from _left(installation, is_running=is_running)


def _platform_result(name: str, last: dict[str, Any] | None, *, is_running: bool, may_have_plugin: bool) -> CheckResult:
    """The result for one platform; ``last`` is its state in the gateway that runs, or ran last."""
    if is_running and last is not None:
        if last["error"]:
            return warning(name, f"{last['state']}: {last['error']}", command=_SHOW_LOG)
        return ok(name, f"{last['state']}")
    if not may_have_plugin:
        return warning(name, "no plugin offers this platform", "install and enable one", command="hermes plugins list")
    if is_running:
        detail = "configured, but the gateway that runs does not have it"
        return warning(name, detail, "restart the gateway, without --platform", command=_STATUS)
    if last is not None and last["state"] == "failed":
        return warning(name, f"failed when the gateway ran last: {last['error']}", command="hermes gateway run")
    return ok(name, "configured; the gateway does not run it")


def _left(installation: Installation, *, is_running: bool) -> Iterator[CheckResult]:
    """The messages that were not sent or not answered."""
    from hermes.surfaces.gateway.store.inbox import Inbox
    from hermes.surfaces.gateway.store.outbox import Outbox

    waiting = _from_journal(installation, lambda store: Outbox(store).waiting_chats(), [])
    late = sum(one.messages for one in waiting if one.attempts or not is_running)
    if late:
        why = "not sent yet, and tried again later" if is_running else "to be sent, and the gateway does not run"
        yield warning("outbox", f"{plural(late, 'message')} {why}", command=_STATUS)
    undelivered = len(_from_journal(installation, lambda store: Outbox(store).undelivered(), []))
    if undelivered:
        detail = f"{plural(undelivered, 'message')} not sent, or of unknown outcome"
        yield warning("outbox", detail, command=_STATUS)
    dead = len(_from_journal(installation, lambda store: Inbox(store).dead_letters(), []))
    if dead:
        yield warning("inbox", f"{plural(dead, 'message')} given up", command=_STATUS)


def check_loading(installation: Installation) -> Iterator[CheckResult]:
    """With ``--load``, load every enabled plugin in a process of its own."""
    if not installation.load:
        return
    import subprocess

    for _, row in _enabled(installation):
        line = [sys.executable, "-m", "hermes", "plugins", "info", row.key, "--load", "--json"]
        try:
            done = subprocess.run(
                line,
                env=dict(installation.shell),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_LOAD_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            yield broken(row.key, f"did not load within {_LOAD_SECONDS:g} s", "check what it does in register(ctx)")
            continue
        if done.returncode == 0:
            yield ok(row.key, "loads")
        else:
            output = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:] or ["no reason given"]
            yield broken(row.key, f"does not load: {output[0].removeprefix('Error: ')}", _advice(output[0]))


def _enabled(installation: Installation) -> Iterator[tuple[PluginManifest, PluginRow]]:
    config = installation.settings().plugins
    totals = _from_journal(installation, plugin_totals, {})
    for manifest in discover(installation.home, installation.cwd).values():
        row = plugin_row(manifest, config, totals)
        if row.is_enabled:
            yield manifest, row


def _recent(installation: Installation) -> list[PluginCalls]:
    since = time.time() - _RECENT_DAYS * 86_400
    return _from_journal(installation, lambda store: recent_counters(store, since), [])


def _from_journal(installation: Installation, read: Callable[[Store], T], otherwise: T) -> T:
    """Data from the journal. That it cannot be read is the report of another check."""
    try:
        return installation.from_journal(read, otherwise)
    except JournalError:
        return otherwise


def _row_findings(row: PluginRow, installation: Installation) -> Iterator[CheckResult]:
    show = f"hermes plugins info {row.key}"
    if row.status == "failed":
        yield broken(row.key, f"does not load: {row.error}", _advice(row.error), command=show)
    for problem in row.problems:
        yield warning(row.key, problem, command=f"hermes plugins check {row.key}")
    for name in row.missing_env:
        yield warning(row.key, f"needs {name}, which is not set", f"set {name} in {env_path(installation.home)}")
    for offer in row.waiting:
        if offer.partition(" ")[0] in SELECTED_BY:
            continue  # a setting selects it
        yield warning(row.key, f"registers {offer}, which this version does not use", command=show)


def _code_findings(manifest: PluginManifest, row: PluginRow) -> Iterator[CheckResult]:
    """A callback for a hook that does not exist never runs, so that counts as broken."""
    for finding in check_plugin(manifest):
        command = f"hermes plugins check {row.key}"
        if finding.severity == "error" and row.status != "failed":
            yield broken(row.key, f"{finding.location}: {finding.text}", command=command)
        elif finding.rule == "hook-name" and finding.severity == "warning":
            yield warning(row.key, finding.text, command=command)


def _package_findings(manifest: PluginManifest) -> Iterator[CheckResult]:
    """Python packages that the manifest requires. Whether a URL or a path is installed is not known."""
    file = manifest_in(manifest.path) if manifest.path else None
    try:
        listed = read_fields(file).get("pip_dependencies") if file else None
    except (OSError, ValueError):
        return
    for requirement in cast("list[object]", listed) if isinstance(listed, list) else ():
        name = re.match(r"\s*([A-Za-z0-9._-]+)", requirement) if isinstance(requirement, str) else None
        try:
            _ = name and metadata.version(name[1])
        except metadata.PackageNotFoundError:
            install = f"{sys.executable} -m pip install '{requirement}'"
            yield broken(manifest.key, f"needs the package {requirement}, which is not installed", command=install)


def _advice(error: str) -> str:
    module = _MISSING_MODULE.search(error)
    if module:
        return f"install the package with the module {module[1]}: {sys.executable} -m pip install PACKAGE"
    return "fix it, or disable it with 'hermes plugins disable NAME'"
