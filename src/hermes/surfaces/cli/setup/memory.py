"""``hermes memory``: the notes that conversations start with, and the memory provider in use."""

from __future__ import annotations

import argparse
import contextlib
import os
from pathlib import Path
from typing import Any

from hermes.base.config import load_config
from hermes.base.config.edit import edit_config, unset_config
from hermes.base.errors import HermesError
from hermes.plugins.loading.discovery import discover, find_plugin
from hermes.plugins.loading.manifest import PluginManifest
from hermes.surfaces.cli import opened_home
from hermes.surfaces.cli.arguments import JSON, Action, Argument, CommandSpec
from hermes.surfaces.cli.report import Report

_NOTES = (("MEMORY.md", "memory_char_limit"), ("USER.md", "user_char_limit"))
_NO_PROVIDER = "No memory provider is installed; the built-in notes are used. A provider is a plugin or a package."


def _status(_args: argparse.Namespace, home: Path) -> Report:
    config = load_config(home).config
    name = config.memory.provider.strip()
    problem = _problem(home, name) if name else ""
    notes: dict[str, Any] = {}
    for file, limit in _NOTES:
        notes[file] = {"chars": 0, "limit": getattr(config.memory, limit)}
        with contextlib.suppress(OSError):
            notes[file]["chars"] = len((home / "memories" / file).read_text("utf-8", "replace"))
    document = {"provider": name, "works": not problem, "problem": problem, "notes": notes}
    rows = [("provider", name or "none; the built-in notes alone")]
    rows += [("problem", problem)] if problem else []
    rows += [(file, f"{note['chars']} of {note['limit']} characters") for file, note in notes.items()]
    return Report(document, rows=rows, code=1 if problem else 0)


def _problem(home: Path, name: str) -> str:
    """Why the provider cannot be used; it is loaded to find that out."""
    from hermes.host import Host, HostOptions

    with Host(home, load_config(home).config, HostOptions()) as host:
        return "; ".join(notice for notice in host.notices if name in notice)


def _providers(home: Path) -> dict[str, PluginManifest]:
    found = discover(home, Path.cwd())
    return {key: manifest for key, manifest in found.items() if manifest.kind == "exclusive"}


def _list(_args: argparse.Namespace, home: Path) -> Report:
    selected = load_config(home).config.memory.provider.strip()
    rows: list[dict[str, Any]] = [
        {
            "name": key.rpartition("/")[2],
            "key": key,
            "version": manifest.version,
            "source": manifest.source,
            "missing_env": manifest.missing_env(os.environ),
            "in_use": selected in (key, manifest.name, key.rpartition("/")[2]),
        }
        for key, manifest in sorted(_providers(home).items())
    ]
    lines: list[str] = []
    for row in rows:
        missing = f"  not set: {', '.join(row['missing_env'])}" if row["missing_env"] else ""
        mark = "*" if row["in_use"] else " "
        lines.append(f"{mark} {row['name']}  {row['version'] or '-'}  {row['source']}{missing}")
    return Report(rows, lines or [_NO_PROVIDER])


def _use(args: argparse.Namespace, home: Path) -> None:
    manifest = find_plugin(args.provider, _providers(home), "memory provider")
    name = manifest.key.rpartition("/")[2]
    before = load_config(home).config.memory.provider
    edit_config(home, "memory.provider", name)
    problem = _problem(home, name)
    if problem:
        if before:
            edit_config(home, "memory.provider", before)
        else:
            unset_config(home, "memory.provider")
        raise HermesError(f"{problem}; memory.provider was not changed")
    print(f"memory.provider is {name}")


def _off(_args: argparse.Namespace, home: Path) -> None:
    was_set = unset_config(home, "memory.provider")
    print("The built-in notes alone are used" + ("." if was_set else "; no provider was set."))


COMMAND = CommandSpec(
    default="status",
    opened=opened_home,
    actions=(
        Action(
            "status", _status, "show the notes and the provider in use (the default); exit code 1 when it does not work"
        ).takes(JSON),
        Action("list", _list, "list the memory providers that are installed").takes(JSON),
        Action("use", _use, "use a provider: sets memory.provider").takes(
            Argument("provider NAME", "the provider, as 'hermes memory list' shows it")
        ),
        Action("off", _off, "use the built-in notes alone: removes memory.provider"),
    ),
)
