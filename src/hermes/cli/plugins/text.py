"""Plugins as text for a person: the list, one in full, and what a check found."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from hermes.cli.plugins.rows import PluginRow
from hermes.cli.terminal import one_line
from hermes.commands.wording import plural
from hermes.plugins.check import PluginFinding
from hermes.plugins.registry import LoadedPlugin
from hermes.sanitize import redact_text


def list_lines(rows: Sequence[PluginRow]) -> Iterator[str]:
    """A table of plugins, with what needs attention below each."""
    width = max([len(row.key) for row in rows] + [3])
    yield f"{'KEY':<{width}}  {'STATUS':<11}  {'VERSION':<8}  {'SOURCE':<10}  {'CALLS':>6}  {'FAILED':>6}  {'TIME':>7}"
    for row in rows:
        key, version = one_line(row.key), one_line(row.version, 8) or "-"
        start = f"{key:<{width}}  {row.status:<11}  {version:<8}  {row.source:<10}"
        yield f"{start}  {row.calls:>6}  {row.failures:>6}  {_seconds(row.seconds):>7}"
        indent = " " * (width + 2)
        if row.description:
            yield indent + _safe(row.description, 100)
        for more in (_joins(row), _exported(row), _asked_models(row)):
            if more:
                yield indent + more
        for complaint in complaints(row):
            yield f"{indent}! {complaint}"


def plain_lines(rows: Iterable[PluginRow]) -> Iterator[str]:
    """A line for each plugin, in columns that do not change."""
    for row in rows:
        yield f"{row.status:<12} {row.source:<10} {one_line(row.version, 12) or '-':<12} {one_line(row.key)}"


def info_lines(row: PluginRow) -> Iterator[str]:
    """All that is known of one plugin without loading it."""
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
        "Waiting": ", ".join(row.waiting),
        "Past use": _past(row),
        "Exports": ", ".join(row.exports),
        "Models": _asked_models(row),
    }
    for label, value in facts.items():
        if value:
            yield f"{label:<11} {_safe(value)}"
    for complaint in complaints(row):
        yield f"! {complaint}"


def loaded_lines(plugin: LoadedPlugin) -> Iterator[str]:
    """What a plugin registered when it was loaded."""
    groups = {
        "hooks": plugin.hooks,
        "middleware": plugin.middleware,
        "tools": plugin.tools,
        "commands": [f"/{name}" for name in plugin.commands],
        "hermes commands": [f"hermes {name}" for name in plugin.cli_commands],
        "skills": list(plugin.skills),
        "side jobs": list(plugin.auxiliary_tasks),
        "waiting (no part of the runtime uses it yet)": [f"{one.kind} {one.name}" for one in plugin.waiting],
    }
    yield "Registered when loaded:"
    for label, names in groups.items():
        if names:
            yield f"  {label}: {_safe(', '.join(names))}"
    for problem in plugin.problems:
        yield f"  ! {_safe(problem)}"


def complaints(row: PluginRow) -> Iterator[str]:
    """What needs somebody's attention."""
    if row.error:
        yield _safe(row.error, 300)
    for problem in row.problems:
        yield _safe(problem, 300)
    for name in row.missing_env:
        yield f"{_safe(name, 80)} is not set"
    if row.last_error:
        yield f"last failure: {_safe(row.last_error, 300)}"


def finding_lines(findings: Iterable[PluginFinding]) -> Iterator[str]:
    """What a check found, a line each."""
    for finding in findings:
        place = f"{one_line(finding.location)}: " if finding.location else ""
        yield f"{place}{finding.severity}: {_safe(finding.text)} [{finding.rule}]"


def _joins(row: PluginRow) -> str:
    joined = [*row.hooks, *row.middleware]
    parts = [f"joins {', '.join(joined)}"] if joined else []
    parts += [f"tools {', '.join(row.tools)}"] if row.tools else []
    return _safe("; ".join(parts), 300)


def _exported(row: PluginRow) -> str:
    """What it sent elsewhere."""
    return _safe(f"events to {', to '.join(row.exports)}", 300) if row.exports else ""


def _past(row: PluginRow) -> str:
    if not row.sessions:
        return ""
    return (
        f"{row.calls} calls in {plural(row.sessions, 'session')}, {row.failures} failed, {_seconds(row.seconds)} in all"
    )


def _asked_models(row: PluginRow) -> str:
    """What it has spent on models."""
    if not row.model_calls:
        return ""
    calls = "1 call" if row.model_calls == 1 else f"{row.model_calls:,} calls"
    failed = f", {row.model_failures:,} failed" if row.model_failures else ""
    cost = "" if row.model_cost_usd is None else f", ${row.model_cost_usd:.4f}"
    return f"asked models: {calls}{failed}, {row.model_tokens:,} tokens{cost}"


def _seconds(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.2f} s" if seconds >= 0.1 else f"{seconds * 1000:.1f} ms"


def _safe(text: str, limit: int = 500) -> str:
    return one_line(redact_text(text), limit)
