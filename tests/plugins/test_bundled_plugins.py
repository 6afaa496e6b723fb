"""The plugins we ship live by the rules for anybody's: they use the contract, say what they are, and load."""

from __future__ import annotations

import ast

import pytest

from hermes.plugins.check import check_plugin
from hermes.plugins.loading.discovery import manifest_files
from hermes.plugins.loading.loader import decide
from hermes.plugins.loading.manifest import PluginManifest, read_manifest
from hermes.testing import PluginHarness
from support import SOURCES

FOLDER = SOURCES / "hermes" / "bundled"
MANIFESTS = [read_manifest(file.path, "bundled", file.category) for file in manifest_files(FOLDER)]
ALLOWED = ("hermes.contract", "hermes.base.sanitize", "hermes.trace", "hermes.testing")
#: What platforms may use besides.
FOR_PLATFORMS = (
    "hermes.surfaces.gateway.adapter",
    "hermes.surfaces.gateway.platforms.api",
    "hermes.surfaces.gateway.platforms.receiving",
    "hermes.surfaces.gateway.platforms.registration",
    "hermes.surfaces.gateway.platforms.server",
    "hermes.surfaces.gateway.platforms.settings",
)
KEYS = [manifest.key for manifest in MANIFESTS]


def test_there_are_some() -> None:
    assert "image_gen/openai" in KEYS


@pytest.mark.parametrize("manifest", MANIFESTS, ids=KEYS)
def test_each_is_closed_until_it_is_opened(manifest: PluginManifest) -> None:
    is_platform = manifest.kind == "platform"  # the settings of the gateway name those that it loads
    assert decide(manifest, set(), ()) == ("waiting" if is_platform else "not enabled")
    assert decide(manifest, {manifest.key}, ()) == ("waiting" if is_platform else "load")


@pytest.mark.parametrize("manifest", MANIFESTS, ids=KEYS)
def test_each_is_sound_has_a_readme_and_loads(manifest: PluginManifest) -> None:
    folder = manifest.path
    assert folder is not None
    assert (folder / "README.md").read_text().startswith("# ")
    assert check_plugin(manifest) == []
    with PluginHarness(folder) as harness:
        assert harness.plugin.problems == [] and harness.plugin.manifest.description


@pytest.mark.parametrize("manifest", MANIFESTS, ids=KEYS)
def test_each_imports_only_what_plugins_may(manifest: PluginManifest) -> None:
    assert manifest.path is not None
    found: list[str] = []
    for file in manifest.path.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                found += [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                found.append(node.module or "")
    ours = [name for name in found if name.partition(".")[0] == "hermes"]
    allowed = (*ALLOWED, *FOR_PLATFORMS) if manifest.kind == "platform" else ALLOWED
    # "hermes" itself is the public API.
    assert [name for name in ours if name != "hermes" and not name.startswith(allowed)] == []
