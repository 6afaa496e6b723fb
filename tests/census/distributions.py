"""Distributions of the folder: wheels and source archives, unpacked beside each other, and the plugins in them."""

from __future__ import annotations

import configparser
import platform
import shutil
import tarfile
import zipfile
from collections.abc import Iterator
from email import message_from_string
from pathlib import Path
from typing import NamedTuple

import yaml
from packaging.specifiers import SpecifierSet

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


def unmet_python(unpacked: Path) -> str:
    """The versions of Python that a distribution asks for, when this is none of them."""
    for file in (*unpacked.glob("*.dist-info/METADATA"), *unpacked.parent.glob("*/PKG-INFO")):
        wanted = message_from_string(file.read_text(encoding="utf-8", errors="replace"))["Requires-Python"]
        if wanted and platform.python_version() not in SpecifierSet(wanted):
            return wanted
    return ""


def installers(unpacked: Path) -> list[str]:
    """The programs of a distribution, as ``module:function``: some put their plugin into the home themselves."""
    return [value for parser in _entry_points(unpacked) for value in _section(parser, "console_scripts").values()]


def entry_points(unpacked: Path) -> list[str]:
    """The keys of plugins that an installed distribution offers."""
    return [name for parser in _entry_points(unpacked) for group in _GROUPS for name in _section(parser, group)]


def _entry_points(unpacked: Path) -> Iterator[configparser.ConfigParser]:
    for file in unpacked.glob("*.dist-info/entry_points.txt"):
        parser = configparser.ConfigParser(delimiters=("=",), interpolation=None)
        parser.optionxform = str  # pyright: ignore[reportAttributeAccessIssue]  (names keep their case)
        parser.read_string(file.read_text())
        yield parser


def _section(parser: configparser.ConfigParser, name: str) -> dict[str, str]:
    return dict(parser[name]) if parser.has_section(name) else {}


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
