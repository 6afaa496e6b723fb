"""``hermes plugins enable`` and ``disable``: which plugins the next session loads."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping

from hermes.cli.plugins.desk import Desk, confirmed, is_terminal, warn
from hermes.cli.plugins.text import finding_lines
from hermes.config import edit_config, edit_list
from hermes.errors import PluginError
from hermes.plugins.check import asks_for_override, check_plugin
from hermes.plugins.loader import decide
from hermes.plugins.manifest import PluginManifest

ENABLED, DISABLED = "plugins.enabled", "plugins.disabled"
NEXT_SESSION = "It takes effect from the next session."


def enable(desk: Desk, args: argparse.Namespace) -> int:
    """Have a plugin loaded."""
    manifests = desk.manifests()
    manifest = desk.find(args.name)
    switch_on(desk, manifest, manifests)
    grant_override(desk, manifest, args.allow_tool_override)
    for name in manifest.missing_env(os.environ):
        warn(f"{name} is not set; put it into {desk.home / '.env'}")
    return 0


def disable(desk: Desk, args: argparse.Namespace) -> int:
    """Have a plugin left out."""
    manifests = desk.manifests()
    manifest = desk.find(args.name)
    _move(desk, manifest, manifests, to=DISABLED, out_of=ENABLED)
    print(f"Plugin {manifest.key} is disabled. {NEXT_SESSION}")
    return 0


def switch_on(desk: Desk, manifest: PluginManifest, manifests: Mapping[str, PluginManifest]) -> None:
    """Enable a plugin and say what is doubtful about it."""
    if manifest.problem:
        raise PluginError(f"plugin {manifest.key!r} cannot be enabled: {manifest.problem}")
    _move(desk, manifest, manifests, to=ENABLED, out_of=DISABLED)
    print(f"Plugin {manifest.key} is enabled. {NEXT_SESSION}")
    for line in finding_lines(check_plugin(manifest)):
        warn(line)
    if decide(manifest, {manifest.key}, ()) == "waiting":
        warn(f"kind {manifest.kind!r} is loaded by the part of the runtime it belongs to, when that selects it")


def grant_override(desk: Desk, manifest: PluginManifest, answer: bool | None) -> None:
    """Write down whether the plugin may replace tools. Nobody is asked about one that does not want to."""
    setting = f'plugins.entries."{manifest.key}".allow_tool_override'
    if answer is None:
        if manifest.source == "bundled" or manifest.path is None or not asks_for_override(manifest.path):
            return
        entry = desk.config.entries.get(manifest.key)
        if isinstance(entry, dict) and "allow_tool_override" in entry:
            return
        if not is_terminal():
            warn(f"it wants to replace tools; --allow-tool-override lets it (plugin {manifest.key})")
            return
        answer = confirmed(f"Plugin {manifest.key} wants to replace tools of the runtime. Allow that?")
    edit_config(desk.home, setting, answer)
    print(f"It may {'' if answer else 'not '}replace tools.")


def _move(
    desk: Desk, manifest: PluginManifest, manifests: Mapping[str, PluginManifest], *, to: str, out_of: str
) -> None:
    """Put the plugin's key into one list and take all its names out of the other."""
    others = [other for other in manifests.values() if other.key != manifest.key]
    names = {manifest.key, manifest.name}
    leaf = manifest.key.rpartition("/")[2]
    if not any(other.answers_to(leaf) for other in others):
        names.add(leaf)
    config = desk.config
    taken_out = names.intersection(config.enabled if out_of == ENABLED else config.disabled)
    # A name that others share stood for them too: they stay listed under their own keys.
    shared = [other.key for other in others if any(other.answers_to(name) for name in taken_out)]
    edit_list(desk.home, out_of, add=shared, remove=names)
    edit_list(desk.home, to, add=[manifest.key])
    if to == ENABLED and any(manifest.answers_to(name) for name in desk.config.disabled):
        warn(f"another plugin is disabled under the name {manifest.name!r}, which is this one's too: it stays disabled")
