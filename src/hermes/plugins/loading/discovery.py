"""Plugin discovery: finds plugins without importing any, for the loader and the command line."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from hermes.base.errors import PluginError, did_you_mean
from hermes.plugins.loading.manifest import FILE_NAMES, HOOK_FILE, PluginManifest, Source, read_manifest

log = logging.getLogger("hermes.plugins")

_TRUTHY = frozenset({"1", "true", "yes", "on"})


class ManifestFile(NamedTuple):
    """The path of a manifest, and the category folder of its plugin, if any."""

    path: Path
    category: str


def is_set(name: str, env: Mapping[str, str] | None = None) -> bool:
    """Whether a switch in the environment is on."""
    return (os.environ if env is None else env).get(name, "").strip().lower() in _TRUTHY


def bundled_folder() -> Path:
    """The plugins that come with the runtime."""
    override = os.environ.get("HERMES_BUNDLED_PLUGINS", "")
    return Path(override) if override else Path(__file__).parents[2] / "bundled"


def plugin_folders(home: Path, cwd: Path) -> list[tuple[Source, Path]]:
    """The folders searched for plugins; on equal keys a later one wins."""
    folders: list[tuple[Source, Path]] = [("bundled", bundled_folder()), ("user", home / "plugins")]
    if is_set("HERMES_ENABLE_PROJECT_PLUGINS"):
        folders.append(("project", cwd / ".hermes" / "plugins"))
    return folders


def discover(home: Path, cwd: Path) -> dict[str, PluginManifest]:
    """Every plugin that could be loaded, by key.

    An entry point wins over a bundled plugin of its name. A folder of the user's or the project's wins over an entry
    point: packages have installers that put such a folder there, and it is the one that a person can see and change.
    """
    from hermes.plugins.loading.entry_points import (  # a run without plugins needs none
        MEMORY_GROUP,
        installed_entry_points,
    )

    found: dict[str, PluginManifest] = {}
    for source, folder in plugin_folders(home, cwd):
        for file in manifest_files(folder):
            _add(found, read_manifest(file.path, source, file.category))
    for folder in _subfolders(home / "hooks"):  # beside the scripts of hook commands
        if _answers(Path.is_file, file := folder / HOOK_FILE):
            _add(found, read_manifest(file, "user", "hooks"))
    placed = {key: one for key, one in found.items() if one.source != "bundled"}
    memories = {name for key, one in placed.items() for name in (one.name, key.rpartition("/")[2])}
    for point in installed_entry_points(home):
        is_memory = point.group == MEMORY_GROUP
        if point.name in (memories if is_memory else placed):
            log.debug("plugin %r is a folder; the entry point of that name is left out", point.name)
            continue
        manifest = PluginManifest(
            point.name,
            f"memory/{point.name}" if is_memory else point.name,
            version=point.version,
            description=point.summary,
            kind="exclusive" if is_memory else "standalone",
            source="entrypoint",
            entry_point=point.value,
        )
        _add(found, manifest)
    return found


def discover_automatic() -> dict[str, PluginManifest]:
    """Only those that load without being enabled: bundled backends. Cheap: other manifests are not parsed."""
    found: dict[str, PluginManifest] = {}
    for file in manifest_files(bundled_folder()):
        if _mentions_backend(file.path):
            manifest = read_manifest(file.path, "bundled", file.category)
            if manifest.kind == "backend":
                _add(found, manifest)
    return found


def manifest_files(folder: Path) -> Iterator[ManifestFile]:
    """The manifests below ``folder``: of its children, and one level deeper of children that have none."""
    for child in _subfolders(folder):
        own = manifest_in(child)
        if own is not None:
            yield ManifestFile(own, "")
            continue
        for grandchild in _subfolders(child):
            nested = manifest_in(grandchild)
            if nested is not None:
                yield ManifestFile(nested, child.name)


def find_plugin(name: str, manifests: Mapping[str, PluginManifest], noun: str = "plugin") -> PluginManifest:
    """The plugin with that key, that name, or that last part of a key when only one has it.

    ``noun`` is what errors call it, when ``manifests`` are only those of one kind.
    """
    exact = manifests.get(name)
    if exact is not None:
        return exact
    matches = [manifest for manifest in manifests.values() if manifest.name == name]
    matches = matches or [manifest for key, manifest in manifests.items() if key.rpartition("/")[2] == name]
    if len(matches) == 1:
        return matches[0]
    if matches:
        keys = ", ".join(sorted(manifest.key for manifest in matches))
        raise PluginError(f"{noun} {name!r} could be any of {keys}; use the whole key")
    raise PluginError(f"there is no {noun} {name!r}{suggestion(name, manifests)}")


def suggestion(name: str, manifests: Collection[str]) -> str:
    """The rest of a sentence about a plugin that was not found: the key that was probably meant, or those there are."""
    return did_you_mean(name, sorted(manifests), otherwise=None if manifests else "none is installed")


def _add(found: dict[str, PluginManifest], manifest: PluginManifest) -> None:
    before = found.pop(manifest.key, None)
    if before is not None:
        log.debug("plugin %r from %s replaces the one from %s", manifest.key, manifest.source, before.source)
    found[manifest.key] = manifest


def manifest_in(folder: Path) -> Path | None:
    """The manifest of the plugin in a folder, if there is one."""
    return next((path for name in FILE_NAMES if _answers(Path.is_file, path := folder / name)), None)


def _mentions_backend(file: Path) -> bool:
    try:
        return b"backend" in file.read_bytes()
    except OSError:
        return False


def _subfolders(folder: Path) -> list[Path]:
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in entries if entry.name[0] not in "._"]
    except FileNotFoundError:
        return []
    except OSError as error:
        log.warning("plugins in %s are left out: %s", folder, error.strerror or error)
        return []
    return [path for name in sorted(names) if _answers(Path.is_dir, path := folder / name)]


def _answers(question: Callable[[Path], bool], path: Path) -> bool:
    """The answer to a question about a path; no when there is none, as for a link that leads in a circle."""
    try:
        return question(path)
    except OSError:
        return False
