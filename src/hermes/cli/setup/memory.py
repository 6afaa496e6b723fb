"""``hermes memory``: the notes that conversations start with, and the memory provider in use."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any, cast

from hermes.cli.terminal import plain, print_json
from hermes.config import apply_env, hermes_home, load_config, load_env_file
from hermes.config.edit import edit_config, unset_config
from hermes.errors import HermesError
from hermes.plugins.loading.discovery import discover, find_plugin
from hermes.plugins.loading.manifest import PluginManifest

_NOTES = (("MEMORY.md", "memory_char_limit"), ("USER.md", "user_char_limit"))


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the sub-commands."""
    parser.set_defaults(action=_status, json=False)
    actions = parser.add_subparsers(metavar="ACTION")
    for name, action, summary in (
        ("status", _status, "show the notes and the provider in use (the default); exit code 1 when it does not work"),
        ("list", _list, "list the memory providers that are installed"),
        ("use", _use, "use a provider: sets memory.provider"),
        ("off", _off, "use the built-in notes alone: removes memory.provider"),
    ):
        made = actions.add_parser(name, help=summary, description=summary)
        made.set_defaults(action=action)
        if name == "use":
            made.add_argument("provider", metavar="NAME", help="the provider, as 'hermes memory list' shows it")
        if name in ("status", "list"):
            made.add_argument("--json", action="store_true", help="print one JSON document")


def run(args: argparse.Namespace) -> int:
    """Do what was asked for."""
    home = hermes_home()
    apply_env(load_env_file(home))
    return args.action(args, home)


def _status(args: argparse.Namespace, home: Path) -> int:
    config = load_config(home).config
    name = config.memory.provider.strip()
    problem = _problem(home, name) if name else ""
    notes: dict[str, Any] = {
        file: {"chars": _length(home / "memories" / file), "limit": getattr(config.memory, limit)}
        for file, limit in _NOTES
    }
    if args.json:
        print_json({"provider": name, "works": not problem, "problem": problem, "notes": notes})
        return 1 if problem else 0
    print(f"provider   {plain(name) or 'none; the built-in notes alone'}")
    if problem:
        print(f"problem    {plain(problem)}")
    for file, note in notes.items():
        print(f"{file:<9}  {note['chars']} of {note['limit']} characters")
    return 1 if problem else 0


def _problem(home: Path, name: str) -> str:
    """Why the provider cannot be used; it is loaded to find that out."""
    from hermes.host import Host, HostOptions

    with Host(home, load_config(home).config, HostOptions()) as host:
        return "; ".join(notice for notice in host.notices if name in notice)


def _length(file: Path) -> int:
    try:
        return len(file.read_text("utf-8", "replace"))
    except OSError:
        return 0


def _providers(home: Path) -> dict[str, PluginManifest]:
    found = discover(home, Path.cwd())
    return {key: manifest for key, manifest in found.items() if manifest.kind == "exclusive"}


def _list(args: argparse.Namespace, home: Path) -> int:
    selected = load_config(home).config.memory.provider.strip()
    rows = [
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
    if args.json:
        print_json(rows)
        return 0
    if not rows:
        print("No memory provider is installed; the built-in notes are used. A provider is a plugin or a package.")
    for row in rows:
        names = cast("list[str]", row["missing_env"])
        missing = f"  not set: {', '.join(names)}" if names else ""
        mark = "*" if row["in_use"] else " "
        print(plain(f"{mark} {row['name']}  {row['version'] or '-'}  {row['source']}{missing}"))
    return 0


def _use(args: argparse.Namespace, home: Path) -> int:
    manifest = find_plugin(args.provider, _providers(home), "memory provider")
    name = manifest.key.rpartition("/")[2]
    before = load_config(home).config.memory.provider
    edit_config(home, "memory.provider", name)
    problem = _problem(home, name)
    if problem:
        _restore(home, before)
        raise HermesError(f"{problem}; memory.provider was not changed")
    print(f"memory.provider is {name}")
    return 0


def _restore(home: Path, provider: str) -> None:
    if provider:
        edit_config(home, "memory.provider", provider)
    else:
        unset_config(home, "memory.provider")


def _off(_args: argparse.Namespace, home: Path) -> int:
    was_set = unset_config(home, "memory.provider")
    print("The built-in notes alone are used" + ("." if was_set else "; no provider was set."))
    return 0
