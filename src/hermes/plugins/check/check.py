"""Judges a plugin without running it: its manifest, and the names its code uses."""

from __future__ import annotations

from pathlib import Path

from hermes.plugins.check.code import check_entry_point, check_folder_code
from hermes.plugins.check.findings import Finding
from hermes.plugins.check.manifest import check_manifest
from hermes.plugins.manifest import PluginManifest


def check_plugin(manifest: PluginManifest) -> list[Finding]:
    """Everything that can be said about a plugin that was found, errors first."""
    if manifest.path is None:
        return _errors_first([*check_entry_point(manifest.entry_point)])
    return check_folder(manifest.path)


def check_folder(folder: Path) -> list[Finding]:
    """The same for a folder, which need not be where plugins are looked for."""
    return _errors_first([*check_manifest(folder), *check_folder_code(folder)])


def _errors_first(findings: list[Finding]) -> list[Finding]:
    return sorted(findings, key=lambda finding: finding.severity)
