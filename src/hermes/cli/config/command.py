"""``hermes config``: shows the configuration and changes it."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from hermes.cli.terminal import plain, print_json
from hermes.commands.settings import masked, select, setting_lines
from hermes.config import config_path, hermes_home, load_config, load_env_file
from hermes.config.document import parse_value
from hermes.config.edit import edit_config, unset_config
from hermes.config.listing import Setting, list_settings
from hermes.config.wording import dotted
from hermes.errors import ConfigError


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the sub-commands."""
    commands = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    show = commands.add_parser("show", help="print the settings in effect, secrets masked")
    show.add_argument("key", nargs="?", default="", metavar="KEY", help="only this setting or section")
    show.add_argument("--json", action="store_true", help="print one JSON document")
    commands.add_parser("path", help="print where the file is")
    set_ = commands.add_parser("set", help="change one setting")
    set_.add_argument("key", metavar="KEY", help="names joined by dots, such as agent.max_turns")
    set_.add_argument("value", metavar="VALUE", help="written as in the file: 5, true, text, [a, b]")
    unset = commands.add_parser("unset", help="remove one setting, so that its default applies")
    unset.add_argument("key", metavar="KEY")
    commands.add_parser("edit", help="open the file in $VISUAL or $EDITOR")


def run(args: argparse.Namespace) -> int:
    """Do what was asked for."""
    home = hermes_home()
    match args.action:
        case "show":
            return _show(home, args.key, as_json=args.json)
        case "path":
            print(config_path(home))
        case "set":
            edit_config(home, args.key, parse_value(args.value))
            print(f"{args.key} is set in {config_path(home)}")
        case "unset":
            if not unset_config(home, args.key):
                raise ConfigError(f"{args.key} is not set in {config_path(home)}")
            print(f"{args.key} is removed from {config_path(home)}; its default applies")
        case _:
            from hermes.cli.config.editor import edit_by_hand

            return edit_by_hand(home)
    return 0


def _show(home: Path, key: str, *, as_json: bool) -> int:
    warnings: list[str] = []
    environ = {**os.environ, **load_env_file(home, warnings=warnings)}
    loaded = load_config(home, environ=environ)
    for warning in [*warnings, *loaded.warnings]:
        print(f"Warning: {plain(warning)}", file=sys.stderr)
    settings = select(list(list_settings(loaded.config)), key)
    exists = loaded.path.exists()
    if as_json:
        print_json(_document(settings, loaded.path, exists))
        return 0
    print(f"# {loaded.path}" if exists else f"# {loaded.path} (there is no such file; all values are defaults)")
    for line in setting_lines(settings):
        print(plain(line))
    return 0


def _document(settings: list[Setting], path: Path, exists: bool) -> dict[str, Any]:
    values = {dotted(setting.path): masked(setting.path, setting.value) for setting in settings}
    defaults = [dotted(setting.path) for setting in settings if setting.is_default]
    return {"path": str(path), "exists": exists, "values": values, "defaults": defaults}
