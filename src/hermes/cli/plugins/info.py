"""``hermes plugins info``: one plugin in full, from what is written down or from loading it."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Generator
from typing import Any

from hermes.cli.plugins.desk import Desk, print_lines
from hermes.cli.plugins.rows import as_json
from hermes.cli.plugins.text import info_lines, loaded_lines
from hermes.cli.terminal import print_json
from hermes.config.sections import PluginsConfig
from hermes.errors import PluginError
from hermes.plugins.loader import load_plugins
from hermes.plugins.manifest import PluginManifest
from hermes.plugins.registry import LoadedPlugin


def show_info(desk: Desk, args: argparse.Namespace) -> int:
    """Print what is known of a plugin; with ``--load``, what it registers too."""
    manifest = desk.find(args.name)
    row = desk.row(manifest)
    if not args.load:
        if args.json:
            print_json(as_json(row))
        else:
            print_lines(info_lines(row))
        return 0
    try:
        with _loaded(desk, manifest) as plugin:
            if args.json:
                print_json({**as_json(row), "registered": _registered(plugin)})
            else:
                print_lines([*info_lines(row), *loaded_lines(plugin)])
    except PluginError:
        if not args.json:
            print_lines(info_lines(row))
        raise
    return 0


@contextlib.contextmanager
def _loaded(desk: Desk, manifest: PluginManifest) -> Generator[LoadedPlugin]:
    """The plugin, loaded by the real loader into parts that nothing else uses."""
    from hermes.testing.harness import PluginHarness

    others = [other.key for other in desk.manifests().values() if not manifest.answers_to(other.key)]
    config = PluginsConfig(disabled=others, entries=desk.config.entries)
    stdout = sys.stdout
    with PluginHarness(lambda _ctx: None, cwd=desk.cwd) as parts:
        sys.stdout = sys.stderr  # what a plugin prints while it loads is not what was asked for
        try:
            plugins = load_plugins(
                home=desk.home,
                plugins_config=config,
                tools=parts.tools,
                hooks=parts.hooks,
                services=parts,
                extra=[manifest.key],
                use_enabled=False,
                cwd=desk.cwd,
            )
        finally:
            sys.stdout = stdout
        yield plugins.plugins[manifest.key]


def _registered(plugin: LoadedPlugin) -> dict[str, Any]:
    return {
        "hooks": plugin.hooks,
        "middleware": plugin.middleware,
        "tools": plugin.tools,
        "commands": list(plugin.commands),
        "cli_commands": list(plugin.cli_commands),
        "skills": list(plugin.skills),
        "auxiliary_tasks": list(plugin.auxiliary_tasks),
        "waiting": [{"what": one.kind, "name": one.name} for one in plugin.waiting],
        "problems": plugin.problems,
    }
