"""``hermes plugins``: lists, checks, tests, enables, installs, updates, removes and creates plugins."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from hermes.cli.extend.plugins.conformance import configure_test, run_test
from hermes.cli.extend.plugins.installed import InstalledPlugins, as_json, plugin_row
from hermes.cli.terminal import print_json, print_lines, warn
from hermes.commands.text import plural
from hermes.plugins.loading.discovery import is_set, manifest_in, suggestion

Action = Callable[[InstalledPlugins, argparse.Namespace], int]

_NAME = "the plugin, as 'hermes plugins list' shows it"
_EXAMPLES = """
NAME is a plugin's key, its name, or the last part of its key when only one plugin has it.

examples:
  hermes plugins                                   list the plugins
  hermes plugins new tool-log                      create a plugin
  hermes plugins install ./tool_log --enable       copy a folder
  hermes plugins install someone/their-plugin      fetch from GitHub
  hermes plugins install https://host/repo.git#plugins/audit --ref v1.2
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the sub-commands."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EXAMPLES
    parser.set_defaults(action=_list, enabled=False, user=False, no_bundled=False, plain=False, json=False)
    actions = parser.add_subparsers(metavar="ACTION")

    def add(name: str, action: Action, summary: str, *aliases: str) -> argparse.ArgumentParser:
        described = summary[0].upper() + summary[1:] + "."
        made = actions.add_parser(name, help=summary, description=described, aliases=aliases)
        made.set_defaults(action=action)
        return made

    _configure_reading(add)
    _configure_switching(add)
    _configure_installing(add)


def _imported(module: str, name: str) -> Action:
    """An action that is imported when used: editing the configuration needs a library that listing does not."""

    def run_action(installed: InstalledPlugins, args: argparse.Namespace) -> int:
        return getattr(import_module(f"hermes.cli.extend.plugins.{module}"), name)(installed, args)

    return run_action


def _configure_reading(add: Callable[..., argparse.ArgumentParser]) -> None:
    listing = add("list", _list, "list the plugins with their status and past calls (the default)", "ls")
    listing.add_argument("--enabled", action="store_true", help="only enabled plugins")
    listing.add_argument("--user", action="store_true", help="only those in the plugins folder of the home")
    listing.add_argument("--no-bundled", action="store_true", help="without bundled plugins")
    listing.add_argument("--plain", action="store_true", help="one line each: status, source, version, key")
    info = add("info", _imported("info", "show_info"), "show one plugin in detail")
    info.add_argument("name", metavar="NAME", help=_NAME)
    info.add_argument("--load", action="store_true", help="load it and show what it registers")
    check = add("check", _check, "validate a plugin's manifest and names without running it")
    check.add_argument("name", metavar="PATH_OR_NAME", help="a plugin's folder, or the name of an installed one")
    configure_test(add("test", _test, "test a plugin against the contract"))
    for made in (listing, info, check):
        made.add_argument("--json", action="store_true", help="print one JSON document")


def _configure_switching(add: Callable[..., argparse.ArgumentParser]) -> None:
    enabling = add("enable", _imported("lifecycle", "enable"), "enable a plugin, from the next session on")
    enabling.add_argument("name", metavar="NAME", help=_NAME)
    enabling.add_argument(
        "--allow-tool-override",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="whether it may replace built-in tools",
    )
    disabling = add("disable", _imported("lifecycle", "disable"), "disable a plugin, from the next session on")
    disabling.add_argument("name", metavar="NAME", help=_NAME)


def _configure_installing(add: Callable[..., argparse.ArgumentParser]) -> None:
    installing = add(
        "install", _imported("lifecycle", "install"), "install a plugin from a git repository, a folder or a package"
    )
    installing.add_argument(
        "source", metavar="SOURCE", help="a git URL, owner/repo[/folder] on GitHub, a folder, or a package's name"
    )
    installing.add_argument("-f", "--force", action="store_true", help="replace an existing plugin")
    installing.add_argument(
        "--enable", action=argparse.BooleanOptionalAction, default=None, help="enable it, or not, without asking"
    )
    updating = add("update", _imported("lifecycle", "update"), "fetch a plugin again from its source")
    updating.add_argument("name", metavar="NAME", help=_NAME)
    updating.add_argument("-f", "--force", action="store_true", help="overwrite locally changed files")
    for made in (installing, updating):
        made.add_argument("--ref", metavar="REV", default="", help="this branch, tag, commit or package version")
    removing = add("remove", _imported("lifecycle", "remove"), "delete a plugin and its settings", "rm", "uninstall")
    removing.add_argument("name", metavar="NAME", help=_NAME)
    removing.add_argument("--yes", "-y", action="store_true", help="do not ask")
    making = add("new", _new, "create a small plugin with a test")
    making.add_argument("name", metavar="NAME", help="its name: letters, digits, - and _")
    making.add_argument("--path", metavar="DIR", default=".", help="the parent folder (default: the current one)")


def run(args: argparse.Namespace) -> int:
    """Run the chosen action."""
    return args.action(InstalledPlugins(), args)


# -- reading --------------------------------------------------------------------------------------------------------


def _list(installed: InstalledPlugins, args: argparse.Namespace) -> int:
    import os

    from hermes.cli.extend.plugins.info import list_lines, plain_lines

    config, totals, manifests = installed.config, installed.totals(), installed.manifests()
    rows = [plugin_row(manifest, config, totals, os.environ) for manifest in manifests.values()]
    rows = [
        row
        for row in sorted(rows, key=lambda row: row.key)
        if not (args.enabled and not row.is_enabled)
        and not (args.user and row.source not in ("user", "git"))
        and not (args.no_bundled and row.source == "bundled")
    ]
    if args.json:
        print_json([as_json(row) for row in rows])
    elif args.plain:
        print_lines(plain_lines(rows))
    elif rows:
        print_lines(list_lines(rows))
    else:
        print("No plugins. Create one with: hermes plugins new NAME")
    for name in config.enabled:
        if not any(manifest.answers_to(name) for manifest in manifests.values()):
            warn(f"plugins.enabled: unknown plugin {name!r}{suggestion(name, manifests)}")
    if is_set("HERMES_SAFE_MODE"):
        warn("HERMES_SAFE_MODE is set: no plugin is loaded")
    return 0


def _check(installed: InstalledPlugins, args: argparse.Namespace) -> int:
    from hermes.cli.extend.plugins.info import finding_lines
    from hermes.plugins.check import check_folder, check_plugin

    folder = Path(args.name).expanduser()
    is_path = manifest_in(folder) is not None or ("/" in args.name and folder.is_dir()) or args.name == "."
    findings = check_folder(folder.resolve()) if is_path else check_plugin(installed.find(args.name))
    errors = sum(finding.severity == "error" for finding in findings)
    if args.json:
        print_json({"ok": not errors, "findings": findings})
    else:
        print_lines(finding_lines(findings))
        warnings = len(findings) - errors
        print(f"{plural(errors, 'error')}, {plural(warnings, 'warning')}" if findings else "OK")
    return 1 if errors else 0


def _test(_installed: InstalledPlugins, args: argparse.Namespace) -> int:
    return run_test(args)


# -- changing -------------------------------------------------------------------------------------------------------


def _new(installed: InstalledPlugins, args: argparse.Namespace) -> int:
    from hermes.plugins.install.scaffold import write_scaffold

    folder = write_scaffold(args.name, Path(args.path).expanduser())
    print(f"Created plugin {args.name} in {folder}.")
    needed = "" if find_spec("pytest") else "  (needs: pip install pytest)"
    print(f"Run its tests:  {Path(sys.executable).name} -m pytest {folder}{needed}")
    print(f"Install it:     hermes plugins install {folder.resolve()} --enable")
    return 0
