"""``hermes plugins test``: runs the conformance test of a plugin and prints its findings."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from hermes.base.errors import PluginError
from hermes.surfaces.cli.report import Report
from hermes.surfaces.cli.terminal import one_line
from hermes.surfaces.commands.text import plural

if TYPE_CHECKING:
    from hermes.surfaces.cli.extend.plugins.installed import InstalledPlugins
    from hermes.testing.conformance.rules import ConformanceFinding, ConformanceReport


def run_test(args: argparse.Namespace, _installed: InstalledPlugins) -> Report:
    """Test the plugin. The exit code is 1 when it violates the contract."""
    from hermes.testing.conformance.guarded_calls import ConformanceLimits
    from hermes.testing.conformance.process import check_plugin_in_process

    report = check_plugin_in_process(
        _folder(args.path),
        settings={"allow_tool_override": True} if args.allow_tool_override else {},
        limits=ConformanceLimits(args.deadline, args.slow, args.budget),
        run_tools=not args.skip_tools,
    )
    return Report(
        _document(report), _report_lines(report), code=1 if report.errors or (args.strict and report.findings) else 0
    )


def _folder(path: str) -> Path:
    """The plugin's folder, from a path to it or to a file in it, or from the name of an installed plugin."""
    target = Path(path).expanduser()
    if target.is_dir():
        return target
    if target.is_file() and target.name in ("plugin.yaml", "plugin.yml", "__init__.py"):
        return target.parent
    if target.exists():
        raise PluginError(f"{path} is not a plugin; give the folder with its plugin.yaml")
    from hermes.base.config import hermes_home
    from hermes.plugins.loading.discovery import discover, find_plugin

    manifest = find_plugin(path, discover(hermes_home(), Path.cwd()))
    if manifest.path is None:
        raise PluginError(
            f"plugin {manifest.key!r} is part of an installed package; give the folder of its code, "
            "with a plugin.yaml in it"
        )
    return manifest.path


def _report_lines(report: ConformanceReport) -> list[str]:
    found = [_finding_line(finding) for finding in report.findings]
    verdict = f"{plural(len(report.errors), 'error')}, {plural(len(report.warnings), 'warning')}"
    if not report.findings:
        verdict = "conforms to the contract"
    return [*found, f"{report.plugin}: {verdict} ({report.calls} calls in {report.seconds:.1f} s)"]


def _finding_line(finding: ConformanceFinding) -> str:
    where = f"{_short(finding.file)}:{finding.line}: " if finding.file else ""
    return f"{where}{finding.severity} [{finding.rule}] {one_line(finding.text)}"


def _short(file: str) -> str:
    """The path relative to the current folder, when it is below."""
    try:
        return str(Path(file).relative_to(Path.cwd()))
    except ValueError:
        return file


def _document(report: ConformanceReport) -> dict[str, object]:
    return {
        "plugin": report.plugin,
        "ok": report.ok,
        "errors": len(report.errors),
        "warnings": len(report.warnings),
        "calls": report.calls,
        "seconds": report.seconds,
        "findings": report.findings,
    }
