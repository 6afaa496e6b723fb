"""``hermes plugins test``: runs the conformance test of a plugin and prints its findings."""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from hermes.cli.terminal import one_line, plain
from hermes.errors import PluginError

if TYPE_CHECKING:
    from hermes.testing.conformance.guarded_calls import ConformanceLimits
    from hermes.testing.conformance.rules import ConformanceFinding, ConformanceReport


def configure_test(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("path", metavar="PATH", help="the plugin's folder, or the name of an installed plugin")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--strict", action="store_true", help="fail on warnings too")
    parser.add_argument("--skip-tools", action="store_true", help="do not call the plugin's tools and commands")
    parser.add_argument("--allow-tool-override", action="store_true", help="allow the plugin to replace tools")
    for name, default, meaning in (
        ("--deadline", 5.0, "a call that takes longer counts as hanging"),
        ("--slow", 0.25, "a callback that takes longer counts as slow"),
        ("--budget", 60.0, "total time limit"),
    ):
        text = f"{meaning} (default: {default:g})"
        parser.add_argument(name, type=_seconds, default=default, metavar="SECONDS", help=text)


def run_test(args: argparse.Namespace) -> int:
    """Run the test with the given arguments."""
    from hermes.testing.conformance.guarded_calls import ConformanceLimits

    return run_conformance(
        args.path,
        json=args.json,
        strict=args.strict,
        run_tools=not args.skip_tools,
        allow_tool_override=args.allow_tool_override,
        limits=ConformanceLimits(args.deadline, args.slow, args.budget),
    )


def run_conformance(
    path: str,
    *,
    json: bool = False,
    strict: bool = False,
    run_tools: bool = True,
    allow_tool_override: bool = False,
    limits: ConformanceLimits | None = None,
) -> int:
    """Test the plugin and print the report. Returns 1 when it violates the contract, else 0."""
    from hermes.testing.conformance.process import check_plugin_in_process

    folder = _folder(path)
    settings = {"allow_tool_override": True} if allow_tool_override else {}
    report = check_plugin_in_process(folder, settings=settings, limits=limits, run_tools=run_tools)
    print(_as_json(report) if json else "\n".join(_lines(report)))
    return 1 if report.errors or (strict and report.findings) else 0


def _folder(path: str) -> Path:
    """The plugin's folder, from a path to it or to a file in it, or from the name of an installed plugin."""
    target = Path(path).expanduser()
    if target.is_dir():
        return target
    if target.is_file() and target.name in ("plugin.yaml", "plugin.yml", "__init__.py"):
        return target.parent
    if target.exists():
        raise PluginError(f"{path} is not a plugin; give the folder with its plugin.yaml")
    from hermes.config import hermes_home
    from hermes.plugins.loading.discovery import discover, find_plugin

    manifest = find_plugin(path, discover(hermes_home(), Path.cwd()))
    if manifest.path is None:
        raise PluginError(
            f"plugin {manifest.key!r} is part of an installed package; give the folder of its code, "
            "with a plugin.yaml in it"
        )
    return manifest.path


def _lines(report: ConformanceReport) -> list[str]:
    found = [_line(finding) for finding in report.findings]
    errors, warnings = len(report.errors), len(report.warnings)
    if not report.findings:
        verdict = "conforms to the contract"
    else:
        verdict = f"{errors} error{'s' * (errors != 1)}, {warnings} warning{'s' * (warnings != 1)}"
    return [*found, f"{plain(report.plugin)}: {verdict} ({report.calls} calls in {report.seconds:.1f} s)"]


def _line(finding: ConformanceFinding) -> str:
    where = f"{_short(finding.file)}:{finding.line}: " if finding.file else ""
    return f"{plain(where)}{finding.severity} [{finding.rule}] {one_line(finding.text)}"


def _short(file: str) -> str:
    """The path relative to the current folder, when it is below."""
    try:
        return str(Path(file).relative_to(Path.cwd()))
    except ValueError:
        return file


def _as_json(report: ConformanceReport) -> str:
    document = {
        "plugin": report.plugin,
        "ok": report.ok,
        "errors": len(report.errors),
        "warnings": len(report.warnings),
        "calls": report.calls,
        "seconds": report.seconds,
        "findings": report.findings,
    }
    return msgspec.json.format(msgspec.json.encode(document)).decode()


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 < value < math.inf:
        raise ValueError(text)
    return value
