"""Plugins as text: the list, one plugin in detail, and the findings of a check."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import Any

from hermes.base.config.schema.sections import PluginsConfig
from hermes.base.errors import PluginError
from hermes.base.sanitize import redact_text
from hermes.plugins.check import PluginFinding
from hermes.plugins.loading.loader import load_plugins
from hermes.plugins.loading.manifest import PluginManifest
from hermes.plugins.offers import SELECTED_BY
from hermes.plugins.registry import LoadedPlugin, ProviderOffer
from hermes.surfaces.cli.extend.plugins.installed import InstalledPlugins, PluginRow, as_json
from hermes.surfaces.cli.report import Report
from hermes.surfaces.cli.terminal import one_line, print_lines, table_width, word_wrapped
from hermes.surfaces.commands.text import plural


def list_lines(rows: Sequence[PluginRow]) -> Iterator[str]:
    """A table of plugins, with problems below each."""
    table = [("KEY", "STATUS", "VERSION", "SOURCE", "CALLS", "FAILED", "TIME"), *map(_cells, rows)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    screen = table_width()
    is_narrow = sum(widths) + 2 * len(widths) - 2 > screen
    for line, row in zip(table[is_narrow:], [None, *rows][is_narrow:], strict=True):
        names, numbers = zip(line[:4], widths, strict=False), zip(line[4:], widths[4:], strict=True)
        cells = [*(cell.ljust(size) for cell, size in names), *(cell.rjust(size) for cell, size in numbers)]
        yield f"{line[0]}: {line[1]}" if is_narrow else "  ".join(cells)
        for more in () if row is None else _more_lines(row):
            yield from word_wrapped(f"    {more}", screen)


def _cells(row: PluginRow) -> tuple[str, ...]:
    version = one_line(row.version, 8) or "-"
    return one_line(row.key), row.status, version, row.source, str(row.calls), str(row.failures), _seconds(row.seconds)


def _more_lines(row: PluginRow) -> Iterator[str]:
    """The lines below a plugin in the table."""
    yield from filter(None, (_safe(row.description, 100), _registrations(row), _exported(row), _model_use(row)))
    for problem in problem_lines(row):
        yield f"! {problem}"


def plain_lines(rows: Iterable[PluginRow]) -> Iterator[str]:
    """A line for each plugin, in fixed columns."""
    for row in rows:
        yield f"{row.status:<12} {row.source:<10} {one_line(row.version, 12) or '-':<12} {one_line(row.key)}"


def info_lines(row: PluginRow) -> Iterator[str]:
    """One plugin in detail, without loading it."""
    facts = {
        "Key": row.key,
        "Name": row.name if row.name != row.key else "",
        "Status": row.status,
        "Version": row.version,
        "Kind": row.kind,
        "About": row.description,
        "Author": row.author,
        "Source": row.source,
        "Path": row.path,
        "From": row.origin,
        "Revision": row.revision,
        "Hooks": ", ".join(row.hooks),
        "Middleware": ", ".join(row.middleware),
        "Tools": ", ".join(row.tools),
        "Unused": ", ".join(row.waiting),
        "Past use": _past_use(row),
        "Exports": ", ".join(row.exports),
        "Models": _model_use(row),
    }
    for label, value in facts.items():
        if value:
            yield f"{label:<11} {_safe(value)}"
    for problem in problem_lines(row):
        yield f"! {problem}"


def loaded_lines(plugin: LoadedPlugin) -> Iterator[str]:
    """The registrations of a loaded plugin."""
    groups = {
        "hooks": plugin.hooks,
        "middleware": plugin.middleware,
        "tools": plugin.tools,
        "commands": [f"/{name}" for name in plugin.commands],
        "hermes commands": [f"hermes {name}" for name in plugin.cli_commands],
        "skills": list(plugin.skills),
        "auxiliary tasks": list(plugin.auxiliary_tasks),
        "offers": [_offer(one) for one in plugin.waiting if one.kind in SELECTED_BY],
        "not used by this version": [f"{one.kind} {one.name}" for one in plugin.waiting if one.kind not in SELECTED_BY],
    }
    yield "Registered when loaded:"
    for label, names in groups.items():
        if names:
            yield f"  {label}: {_safe(', '.join(names))}"
    for problem in plugin.problems:
        yield f"  ! {_safe(problem)}"


def _offer(offer: ProviderOffer) -> str:
    return f"{offer.kind} {offer.name} (selected by {SELECTED_BY[offer.kind]})"


def problem_lines(row: PluginRow) -> Iterator[str]:
    """Problems of a plugin."""
    if row.error:
        yield _safe(row.error, 300)
    for problem in row.problems:
        yield _safe(problem, 300)
    for name in row.missing_env:
        yield f"{_safe(name, 80)} is not set"
    if row.last_error:
        yield f"last failure: {_safe(row.last_error, 300)}"


def finding_lines(findings: Iterable[PluginFinding]) -> Iterator[str]:
    """The findings of a check, a line each."""
    for finding in findings:
        location = f"{one_line(finding.location)}: " if finding.location else ""
        yield f"{location}{finding.severity}: {_safe(finding.text)} [{finding.rule}]"


def _registrations(row: PluginRow) -> str:
    joined = [*row.hooks, *row.middleware]
    parts = [f"hooks {', '.join(joined)}"] if joined else []
    parts += [f"tools {', '.join(row.tools)}"] if row.tools else []
    return _safe("; ".join(parts), 300)


def _exported(row: PluginRow) -> str:
    """Its exports."""
    return _safe(f"events to {', to '.join(row.exports)}", 300) if row.exports else ""


def _past_use(row: PluginRow) -> str:
    if not row.sessions:
        return ""
    return (
        f"{row.calls} calls in {plural(row.sessions, 'session')}, {row.failures} failed, {_seconds(row.seconds)} in all"
    )


def _model_use(row: PluginRow) -> str:
    """Its use of models."""
    if not row.model_calls:
        return ""
    calls = f"{row.model_calls:,}"
    failed = f", {row.model_failures:,} failed" if row.model_failures else ""
    cost = "" if row.model_cost_usd is None else f", ${row.model_cost_usd:.4f}"
    return f"model calls: {calls}{failed}, {row.model_tokens:,} tokens{cost}"


def _seconds(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.2f} s" if seconds >= 0.1 else f"{seconds * 1000:.1f} ms"


def _safe(text: str, limit: int = 500) -> str:
    return one_line(redact_text(text), limit)


def show_info(args: argparse.Namespace, installed: InstalledPlugins) -> Report:
    """A plugin in detail; with ``--load``, its registrations too."""
    manifest = installed.find(args.name)
    row = installed.row(manifest)
    if not args.load:
        return Report(as_json(row), info_lines(row))
    try:
        with _loaded(installed, manifest) as plugin:
            document = {**as_json(row), "registered": _registered(plugin)}
            return Report(document, [*info_lines(row), *loaded_lines(plugin)])
    except PluginError:
        if not args.json:
            print_lines(info_lines(row))
        raise


@contextlib.contextmanager
def _loaded(installed: InstalledPlugins, manifest: PluginManifest) -> Generator[LoadedPlugin]:
    """The plugin, loaded by the real loader into an isolated harness."""
    from hermes.testing.harness import PluginHarness

    others = [other.key for other in installed.manifests().values() if not manifest.answers_to(other.key)]
    config = PluginsConfig(disabled=others, entries=installed.config.entries)
    stdout = sys.stdout
    with PluginHarness(lambda _ctx: None, cwd=installed.cwd) as parts:
        sys.stdout = sys.stderr  # output of the plugin while it loads
        try:
            plugins = load_plugins(
                home=installed.home,
                plugins_config=config,
                tools=parts.tools,
                hooks=parts.hooks,
                services=parts,
                extra=[manifest.key],
                use_enabled=False,
                cwd=installed.cwd,
            )
        finally:
            sys.stdout = stdout
        yield plugins.plugins[manifest.key]


def _registered(plugin: LoadedPlugin) -> dict[str, Any]:
    return {
        "hooks": plugin.hooks,
        "middleware": plugin.middleware,
        "tools": plugin.tools,
        "commands": list(plugin.commands),
        "cli_commands": list(plugin.cli_commands),
        "skills": list(plugin.skills),
        "auxiliary_tasks": list(plugin.auxiliary_tasks),
        "waiting": [{"what": one.kind, "name": one.name} for one in plugin.waiting],
        "problems": plugin.problems,
    }
