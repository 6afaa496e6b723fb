"""Distributions of the folder: wheels and source archives, unpacked beside each other, and the plugins in them."""

from __future__ import annotations

import configparser
import shutil
import tarfile
import zipfile
from pathlib import Path
from typing import NamedTuple

import yaml

#: The groups of entry points that plugins use.
_GROUPS = ("hermes_agent.plugins", "hermes_agent.memory_providers")
_MANIFESTS = ("plugin.yaml", "plugin.yml")
#: What a plugin's own repository has beside it.
_BESIDE = {"tests", "test", "examples", "example", "templates", "docs"}


class Distribution(NamedTuple):
    """One file of the folder."""

    name: str
    version: str
    file: Path

    def unpack(self, target: Path) -> Path:
        """Its modules, in a folder that can be put on the path."""
        if self.file.suffix == ".whl":
            with zipfile.ZipFile(self.file) as archive:
                archive.extractall(target)
            # What a wheel installs beside its modules is found by plugins that look there.
            for data in target.glob("*.data/purelib"):
                shutil.copytree(data, target, dirs_exist_ok=True)
            return target
        with tarfile.open(self.file) as archive:
            archive.extractall(target, filter="data")
        root = next(one for one in target.iterdir() if one.is_dir())
        return root / "src" if (root / "src").is_dir() else root


def distributions(folder: Path) -> list[Distribution]:
    """The wheels and source archives of a folder, by name."""
    found: list[Distribution] = []
    for file in sorted(folder.iterdir()):
        stem = file.name.removesuffix(".whl").removesuffix(".tar.gz")
        if stem != file.name:
            parts = stem.split("-") if file.suffix == ".whl" else stem.rsplit("-", 1)
            found.append(Distribution(parts[0].replace("_", "-").lower(), parts[1] if len(parts) > 1 else "", file))
    return found


def is_a_host(unpacked: Path) -> bool:
    """Is it a copy of upstream itself, which brings plugins along, instead of a plugin?"""
    return (unpacked / "run_agent.py").is_file() and (unpacked / "hermes_cli").is_dir()


def entry_points(unpacked: Path) -> list[str]:
    """The keys of plugins that an installed distribution offers."""
    found: list[str] = []
    for file in unpacked.glob("*.dist-info/entry_points.txt"):
        parser = configparser.ConfigParser(delimiters=("=",), interpolation=None)
        parser.optionxform = str  # pyright: ignore[reportAttributeAccessIssue]  (names keep their case)
        parser.read_string(file.read_text())
        found += [name for group in _GROUPS if parser.has_section(group) for name in parser[group]]
    return found


def folders(unpacked: Path) -> list[Path]:
    """Folders with a manifest and code, the outermost only."""
    found: list[Path] = []
    for manifest in sorted(one for name in _MANIFESTS for one in unpacked.rglob(name)):
        folder = manifest.parent
        parts = set(folder.relative_to(unpacked).parts)
        is_inside = any(one in folder.parents for one in found)
        if (folder / "__init__.py").is_file() and not parts & _BESIDE and not is_inside:
            found.append(folder)
    return found


def manifest_of(folder: Path) -> dict[str, object]:
    """What the manifest of a folder says; nothing when it cannot be read."""
    for name in _MANIFESTS:
        if (folder / name).is_file():
            try:
                read: object = yaml.safe_load((folder / name).read_text(encoding="utf-8"))
            except (yaml.YAMLError, UnicodeDecodeError):
                return {}
            return dict(read) if isinstance(read, dict) else {}  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    return {}
