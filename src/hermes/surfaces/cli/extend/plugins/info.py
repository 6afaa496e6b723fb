"""Plugins as text: the list, one plugin in detail, and the findings of a check and of the conformance test."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Generator, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import asdict

from hermes.base.config.schema.sections import PluginsConfig
from hermes.base.errors import PluginError
from hermes.base.sanitize import redact_text
from hermes.plugins.check import PluginFinding
from hermes.plugins.ctx.offers import SELECTED_BY
from hermes.plugins.loading.loader import load_plugins
from hermes.plugins.loading.manifest import PluginManifest
from hermes.plugins.registry import LoadedPlugin
from hermes.surfaces.cli.extend.plugins.installed import InstalledPlugins, PluginRow
from hermes.surfaces.cli.report import Report, aligned
from hermes.surfaces.cli.terminal import one_line, print_lines, table_width, word_wrapped
from hermes.surfaces.commands.text import plural

if TYPE_CHECKING:
    from hermes.testing.conformance.rules import ConformanceFinding


def list_lines(rows: Sequence[PluginRow]) -> Iterator[str]:
    """A table of plugins, with problems below each; where it does not fit, without its numbers."""
    heads = ("KEY", "STATUS", "VERSION", "SOURCE", "CALLS", "FAILED", "TIME")
    head, *lines = aligned([heads, *map(_cells, rows)], left=4)
    screen = table_width()
    is_narrow = len(head) > screen
    if not is_narrow:
        yield head
    for line, row in zip(lines, rows, strict=True):
        yield f"{one_line(row.key)}: {row.status}" if is_narrow else line
        for more in _more_lines(row):
            yield from word_wrapped(f"    {more}", screen)


def _cells(row: PluginRow) -> tuple[str, ...]:
    version = one_line(row.version, 8) or "-"
    return one_line(row.key), row.status, version, row.source, str(row.calls), str(row.failures), _seconds(row.seconds)


def _more_lines(row: PluginRow) -> Iterator[str]:
    """The lines below a plugin in the table."""
    parts = {"hooks": [*row.hooks, *row.middleware], "tools": row.tools}
    registered = "; ".join(f"{name} {', '.join(found)}" for name, found in parts.items() if found)
    exported = f"events to {', to '.join(row.exports)}" if row.exports else ""
    texts = (_safe(row.description, 100), _safe(registered, 300), _safe(exported, 300), _model_use(row))
    yield from filter(None, texts)
    yield from problem_lines(row)


def plain_lines(rows: Iterable[PluginRow]) -> Iterator[str]:
    """A line for each plugin, in fixed columns."""
    for row in rows:
        yield f"{row.status:<12} {row.source:<10} {one_line(row.version, 12) or '-':<12} {one_line(row.key)}"


def info_lines(row: PluginRow) -> Iterator[str]:
    """One plugin in detail, without loading it."""
    failed = f"{row.failures} failed, {_seconds(row.seconds)} in all"
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
        "Past use": f"{row.calls} calls in {plural(row.sessions, 'session')}, {failed}" if row.sessions else "",
        "Exports": ", ".join(row.exports),
        "Models": _model_use(row),
    }
    for label, value in facts.items():
        if value:
            yield f"{label:<11} {_safe(value)}"
    yield from problem_lines(row)


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
        "offers": [
            f"{one.kind} {one.name} (selected by {SELECTED_BY[one.kind]})"
            for one in plugin.waiting
            if one.kind in SELECTED_BY
        ],
        "not used by this version": [f"{one.kind} {one.name}" for one in plugin.waiting if one.kind not in SELECTED_BY],
    }
    yield "Registered when loaded:"
    for label, names in groups.items():
        if names:
            yield f"  {label}: {_safe(', '.join(names))}"
    for problem in plugin.problems:
        yield f"  ! {_safe(problem)}"


def problem_lines(row: PluginRow) -> Iterator[str]:
    """Problems of a plugin."""
    for problem in filter(None, (row.error, *row.problems)):
        yield f"! {_safe(problem, 300)}"
    for name in row.missing_env:
        yield f"! {_safe(name, 80)} is not set"
    if row.last_error:
        yield f"! last failure: {_safe(row.last_error, 300)}"


def finding_lines(findings: Iterable[PluginFinding]) -> Iterator[str]:
    """The findings of a check, a line each."""
    for finding in findings:
        location = f"{one_line(finding.location)}: " if finding.location else ""
        yield f"{location}{finding.severity}: {_safe(finding.text)} [{finding.rule}]"


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
        return Report(row, info_lines(row))
    try:
        with _loaded(installed, manifest) as plugin:
            document = {**asdict(row), "registered": _registered(plugin)}
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
        try:
            yield plugins.plugins[manifest.key]
        finally:
            plugins.close()


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


def run_test(args: argparse.Namespace, installed: InstalledPlugins) -> Report:
    """Test the plugin. The exit code is 1 when it violates the contract."""
    from hermes.testing.conformance.guarded_calls import ConformanceLimits
    from hermes.testing.conformance.process import check_plugin_in_process

    report = check_plugin_in_process(
        _folder(args.path, installed),
        settings={"allow_tool_override": True} if args.allow_tool_override else {},
        limits=ConformanceLimits(args.deadline, args.slow, args.budget),
        run_tools=not args.skip_tools,
    )
    counted = {"errors": len(report.errors), "warnings": len(report.warnings)}
    measured = {"calls": report.calls, "seconds": report.seconds}
    document = {"plugin": report.plugin, "ok": report.ok, **counted, **measured, "findings": report.findings}
    verdict = f"{plural(len(report.errors), 'error')}, {plural(len(report.warnings), 'warning')}"
    if not report.findings:
        verdict = "conforms to the contract"
    summary = f"{report.plugin}: {verdict} ({report.calls} calls in {report.seconds:.1f} s)"
    code = 1 if report.errors or (args.strict and report.findings) else 0
    return Report(document, [*map(_finding_line, report.findings), summary], code=code)


def _folder(path: str, installed: InstalledPlugins) -> Path:
    """The plugin's folder, from a path to it or to a file in it, or from the name of an installed plugin."""
    target = Path(path).expanduser()
    if target.is_dir():
        return target
    if target.is_file() and target.name in ("plugin.yaml", "plugin.yml", "__init__.py"):
        return target.parent
    if target.exists():
        raise PluginError(f"{path} is not a plugin; give the folder with its plugin.yaml")
    manifest = installed.find(path)
    if manifest.path is None:
        raise PluginError(
            f"plugin {manifest.key!r} is part of an installed package; give the folder of its code, "
            "with a plugin.yaml in it"
        )
    return manifest.path


def _finding_line(finding: ConformanceFinding) -> str:
    file = Path(finding.file)
    shown = file.relative_to(Path.cwd()) if finding.file and file.is_relative_to(Path.cwd()) else file
    where = f"{shown}:{finding.line}: " if finding.file else ""
    return f"{where}{finding.severity} [{finding.rule}] {one_line(finding.text)}"
