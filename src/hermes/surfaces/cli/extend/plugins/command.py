"""``hermes plugins``: lists, checks, tests, enables, installs, updates, removes and creates plugins."""

from __future__ import annotations

import argparse
import sys
from contextlib import nullcontext
from importlib.util import find_spec
from pathlib import Path

from hermes.plugins.loading.discovery import is_set, manifest_in, suggestion
from hermes.surfaces.cli.arguments import JSON, Action, Argument, CommandSpec, flag, seconds
from hermes.surfaces.cli.extend.plugins.installed import InstalledPlugins, PluginRow, plugin_row
from hermes.surfaces.cli.report import Report
from hermes.surfaces.cli.terminal import warn
from hermes.surfaces.commands.text import plural

_NO_PLUGINS = "No plugins. Create one with: hermes plugins new NAME"
_EXAMPLES = """
NAME is a plugin's key, its name, or the last part of its key when only one plugin has it.

examples:
  hermes plugins                                   list the plugins
  hermes plugins new tool-log                      create a plugin
  hermes plugins install ./tool_log --enable       copy a folder
  hermes plugins install someone/their-plugin      fetch from GitHub
  hermes plugins install https://host/repo.git#plugins/audit --ref v1.2
"""


def _list(args: argparse.Namespace, installed: InstalledPlugins) -> Report:
    from hermes.surfaces.cli.extend.plugins.info import list_lines, plain_lines

    config, totals, manifests = installed.config, installed.totals(), installed.manifests()
    rows = [plugin_row(manifest, config, totals) for manifest in manifests.values()]
    rows = [row for row in sorted(rows, key=lambda row: row.key) if _is_wanted(row, args)]
    for name in config.enabled:
        if not any(manifest.answers_to(name) for manifest in manifests.values()):
            warn(f"plugins.enabled: unknown plugin {name!r}{suggestion(name, manifests)}")
    if is_set("HERMES_SAFE_MODE"):
        warn("HERMES_SAFE_MODE is set: no plugin is loaded")
    lines = plain_lines(rows) if args.plain else list_lines(rows) if rows else [_NO_PLUGINS]
    return Report(rows, lines)


def _is_wanted(row: PluginRow, args: argparse.Namespace) -> bool:
    return (
        (row.is_enabled or not args.enabled)
        and (row.source in ("user", "git") or not args.user)
        and (row.source != "bundled" or not args.no_bundled)
    )


def _check(args: argparse.Namespace, installed: InstalledPlugins) -> Report:
    from hermes.plugins.check import check_folder, check_plugin
    from hermes.surfaces.cli.extend.plugins.info import finding_lines

    folder = Path(args.name).expanduser()
    is_path = manifest_in(folder) is not None or ("/" in args.name and folder.is_dir()) or args.name == "."
    findings = check_folder(folder.resolve()) if is_path else check_plugin(installed.find(args.name))
    errors = sum(finding.severity == "error" for finding in findings)
    counts = f"{plural(errors, 'error')}, {plural(len(findings) - errors, 'warning')}"
    return Report(
        {"ok": not errors, "findings": findings},
        [*finding_lines(findings), counts if findings else "OK"],
        code=1 if errors else 0,
    )


def _new(args: argparse.Namespace, _installed: InstalledPlugins) -> None:
    from hermes.plugins.install.scaffold import write_scaffold

    folder = write_scaffold(args.name, Path(args.path).expanduser())
    print(f"Created plugin {args.name} in {folder}.")
    needed = "" if find_spec("pytest") else "  (needs: pip install pytest)"
    print(f"Run its tests:  {Path(sys.executable).name} -m pytest {folder}{needed}")
    print(f"Install it:     hermes plugins install {folder.resolve()} --enable")


_NAME = Argument("name NAME", "the plugin, as 'hermes plugins list' shows it")
_REF = Argument("--ref REV", "this branch, tag, commit or package version", default="")


def _limit(name: str, default: float, meaning: str) -> Argument:
    return Argument(f"{name} SECONDS", f"{meaning} (default: {default:g})", type=seconds, default=default)


def _choice(name: str, meaning: str) -> Argument:
    return Argument(name, meaning, action=argparse.BooleanOptionalAction, default=None)


#: What edits the configuration is imported when it is used: it needs a library that listing does not.
COMMAND = CommandSpec(
    default="list",
    opened=lambda _args: nullcontext(InstalledPlugins()),
    epilog=_EXAMPLES,
    actions=(
        Action("list", _list, "list the plugins with their status and past calls (the default)", aliases=("ls",)).takes(
            flag("--enabled", "only enabled plugins"),
            flag("--user", "only those in the plugins folder of the home"),
            flag("--no-bundled", "without bundled plugins"),
            flag("--plain", "one line each: status, source, version, key"),
            JSON,
        ),
        Action("info", "extend.plugins.info:show_info", "show one plugin in detail").takes(
            _NAME, flag("--load", "load it and show what it registers"), JSON
        ),
        Action("check", _check, "validate a plugin's manifest and names without running it").takes(
            Argument("name PATH_OR_NAME", "a plugin's folder, or the name of an installed one"), JSON
        ),
        Action("test", "extend.plugins.info:run_test", "test a plugin against the contract").takes(
            Argument("path PATH", "the plugin's folder, or the name of an installed plugin"),
            JSON,
            flag("--strict", "fail on warnings too"),
            flag("--skip-tools", "do not call the plugin's tools and commands"),
            flag("--allow-tool-override", "allow the plugin to replace tools"),
            _limit("--deadline", 5.0, "a call that takes longer counts as hanging"),
            _limit("--slow", 0.25, "a callback that takes longer counts as slow"),
            _limit("--budget", 60.0, "total time limit"),
        ),
        Action("enable", "extend.plugins.lifecycle:enable", "enable a plugin, from the next session on").takes(
            _NAME, _choice("--allow-tool-override", "whether it may replace built-in tools")
        ),
        Action("disable", "extend.plugins.lifecycle:disable", "disable a plugin, from the next session on").takes(
            _NAME
        ),
        Action(
            "install",
            "extend.plugins.lifecycle:install",
            "install a plugin from a git repository, a folder or a package",
        ).takes(
            Argument("source SOURCE", "a git URL, owner/repo[/folder] on GitHub, a folder, or a package's name"),
            flag("-f, --force", "replace an existing plugin"),
            _choice("--enable", "enable it, or not, without asking"),
            _REF,
        ),
        Action("update", "extend.plugins.lifecycle:update", "fetch a plugin again from its source").takes(
            _NAME, flag("-f, --force", "overwrite locally changed files"), _REF
        ),
        Action(
            "remove", "extend.plugins.lifecycle:remove", "delete a plugin and its settings", aliases=("rm", "uninstall")
        ).takes(_NAME, flag("--yes, -y", "do not ask")),
        Action("new", _new, "create a small plugin with a test").takes(
            Argument("name NAME", "its name: letters, digits, - and _"),
            Argument("--path DIR", "the parent folder (default: the current one)", default="."),
        ),
    ),
)
