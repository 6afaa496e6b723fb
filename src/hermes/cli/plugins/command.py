"""``hermes plugins``: what is installed, what is enabled, and everything that changes either."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from hermes.cli.plugins.desk import Desk, print_lines, warn
from hermes.cli.plugins.rows import as_json, plugin_row
from hermes.cli.plugins.test import configure_test, run_test
from hermes.cli.terminal import print_json
from hermes.commands.wording import plural
from hermes.plugins.discovery import is_set, manifest_in, suggestion

Action = Callable[[Desk, argparse.Namespace], int]

_EXAMPLES = """
NAME is a plugin's key, its name, or the last part of its key when only one plugin has it.

examples:
  hermes plugins                                   what there is
  hermes plugins new tool-log                      start a plugin of your own
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


def _configure_reading(add: Callable[..., argparse.ArgumentParser]) -> None:
    listing = add("list", _list, "list the plugins with their status and past calls (the default)", "ls")
    listing.add_argument("--enabled", action="store_true", help="only those that are switched on")
    listing.add_argument("--user", action="store_true", help="only those in the plugins folder of the home")
    listing.add_argument("--no-bundled", action="store_true", help="leave out those that come with hermes")
    listing.add_argument("--plain", action="store_true", help="one line each: status, source, version, key")
    info = add("info", _info, "show everything known about one plugin")
    info.add_argument("name", metavar="NAME")
    info.add_argument("--load", action="store_true", help="run its code, to see what it registers")
    check = add("check", _check, "validate a plugin's manifest and names without running it")
    check.add_argument("name", metavar="PATH_OR_NAME")
    configure_test(add("test", _test, "run a plugin against the contract, under hostile conditions"))
    for made in (listing, info, check):
        made.add_argument("--json", action="store_true", help="print one JSON document")


def _configure_switching(add: Callable[..., argparse.ArgumentParser]) -> None:
    enabling = add("enable", _enable, "have a plugin loaded from the next session on")
    enabling.add_argument("name", metavar="NAME")
    enabling.add_argument(
        "--allow-tool-override",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="whether it may replace tools of the runtime",
    )
    disabling = add("disable", _disable, "have a plugin left out from the next session on")
    disabling.add_argument("name", metavar="NAME")


def _configure_installing(add: Callable[..., argparse.ArgumentParser]) -> None:
    installing = add("install", _install, "install a plugin from a git repository, a folder or a package")
    installing.add_argument(
        "source", metavar="SOURCE", help="a git URL, owner/repo[/folder] on GitHub, a folder, or a package's name"
    )
    installing.add_argument("-f", "--force", action="store_true", help="replace what is there")
    installing.add_argument(
        "--enable", action=argparse.BooleanOptionalAction, default=None, help="whether to enable it, without asking"
    )
    updating = add("update", _update, "fetch a plugin again from where it came from")
    updating.add_argument("name", metavar="NAME")
    updating.add_argument("-f", "--force", action="store_true", help="overwrite files that were changed here")
    for made in (installing, updating):
        made.add_argument("--ref", metavar="REV", default="", help="this branch, tag, commit or package version")
    removing = add("remove", _remove, "delete a plugin and its settings", "rm", "uninstall")
    removing.add_argument("name", metavar="NAME")
    removing.add_argument("--yes", "-y", action="store_true", help="do not ask")
    making = add("new", _new, "write a small plugin with a test, to start from")
    making.add_argument("name", metavar="NAME")
    making.add_argument("--path", metavar="DIR", default=".", help="the folder to put it in (the current one)")


def run(args: argparse.Namespace) -> int:
    """Do what was asked for."""
    return args.action(Desk(), args)


# -- reading --------------------------------------------------------------------------------------------------------


def _list(desk: Desk, args: argparse.Namespace) -> int:
    import os

    from hermes.cli.plugins.text import list_lines, plain_lines

    config, totals, manifests = desk.config, desk.totals(), desk.manifests()
    rows = [plugin_row(manifest, config, totals, os.environ) for manifest in manifests.values()]
    rows = [
        row
        for row in sorted(rows, key=lambda row: row.key)
        if not (args.enabled and not row.is_switched_on)
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
        print("No plugins. Start one with: hermes plugins new NAME")
    for name in config.enabled:
        if not any(manifest.answers_to(name) for manifest in manifests.values()):
            warn(f"plugins.enabled: there is no plugin {name!r}{suggestion(name, manifests)}")
    if is_set("HERMES_SAFE_MODE"):
        warn("HERMES_SAFE_MODE is set: no plugin is loaded")
    return 0


def _info(desk: Desk, args: argparse.Namespace) -> int:
    from hermes.cli.plugins.info import show_info

    return show_info(desk, args)


def _check(desk: Desk, args: argparse.Namespace) -> int:
    from hermes.cli.plugins.text import finding_lines
    from hermes.plugins.check import check_folder, check_plugin

    folder = Path(args.name).expanduser()
    is_path = manifest_in(folder) is not None or ("/" in args.name and folder.is_dir()) or args.name == "."
    findings = check_folder(folder.resolve()) if is_path else check_plugin(desk.find(args.name))
    errors = sum(finding.severity == "error" for finding in findings)
    if args.json:
        print_json({"ok": not errors, "findings": findings})
    else:
        print_lines(finding_lines(findings))
        warnings = len(findings) - errors
        print(f"{plural(errors, 'error')}, {plural(warnings, 'warning')}" if findings else "Nothing to complain about.")
    return 1 if errors else 0


def _test(_desk: Desk, args: argparse.Namespace) -> int:
    return run_test(args)


# -- changing -------------------------------------------------------------------------------------------------------
# Imported when they are used: editing the configuration needs a library that listing does not.


def _enable(desk: Desk, args: argparse.Namespace) -> int:
    from hermes.cli.plugins.enable import enable

    return enable(desk, args)


def _disable(desk: Desk, args: argparse.Namespace) -> int:
    from hermes.cli.plugins.enable import disable

    return disable(desk, args)


def _install(desk: Desk, args: argparse.Namespace) -> int:
    from hermes.cli.plugins.install import install

    return install(desk, args)


def _update(desk: Desk, args: argparse.Namespace) -> int:
    from hermes.cli.plugins.install import update

    return update(desk, args)


def _remove(desk: Desk, args: argparse.Namespace) -> int:
    from hermes.cli.plugins.install import remove

    return remove(desk, args)


def _new(desk: Desk, args: argparse.Namespace) -> int:
    from hermes.plugins.install.scaffold import write_scaffold

    folder = write_scaffold(args.name, Path(args.path).expanduser())
    print(f"Plugin {args.name} is in {folder}.")
    print(f"Run its tests:  {Path(sys.executable).name} -m pytest {folder}")
    print(f"Install it:     hermes plugins install {folder.resolve()} --enable")
    return 0
