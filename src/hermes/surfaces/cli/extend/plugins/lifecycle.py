"""``hermes plugins enable``, ``disable``, ``install``, ``update`` and ``remove``."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from pathlib import Path
from typing import Any

from hermes.base.config.edit import edit_config, edit_list, unset_config
from hermes.base.errors import ConfigError, HermesError, PluginError
from hermes.base.sanitize import is_secret_key
from hermes.plugins.check import asks_for_override, check_plugin
from hermes.plugins.install.install import install_plugin, remove_plugin, update_plugin
from hermes.plugins.install.source import InstallSource, parse_source
from hermes.plugins.loading.loader import decide
from hermes.plugins.loading.manifest import PluginManifest, env_names
from hermes.surfaces.cli.extend.plugins.info import finding_lines
from hermes.surfaces.cli.extend.plugins.installed import InstalledPlugins
from hermes.surfaces.cli.terminal import confirm, is_interactive, one_line, plain, print_lines, warn

ENABLED, DISABLED = "plugins.enabled", "plugins.disabled"
NEXT_SESSION = "Takes effect in the next session."


def enable(args: argparse.Namespace, installed: InstalledPlugins) -> None:
    """Enable a plugin."""
    manifest = installed.find(args.name)
    enable_plugin(installed, manifest)
    offer_packages(installed, manifest)
    grant_override(installed, manifest, args.allow_tool_override)
    for name in manifest.missing_env(os.environ):
        warn(f"{name} is not set; add it to {installed.home / '.env'}")


def disable(args: argparse.Namespace, installed: InstalledPlugins) -> None:
    """Disable a plugin."""
    manifest = installed.find(args.name)
    _move(installed, manifest, to=DISABLED, out_of=ENABLED)
    print(f"Disabled plugin {manifest.key}. {NEXT_SESSION}")


def enable_plugin(installed: InstalledPlugins, manifest: PluginManifest) -> None:
    """Enable a plugin and print the findings of its check."""
    if manifest.problem:
        raise PluginError(f"plugin {manifest.key!r} cannot be enabled: {manifest.problem}")
    _move(installed, manifest, to=ENABLED, out_of=DISABLED)
    print(f"Enabled plugin {manifest.key}. {NEXT_SESSION}")
    for line in finding_lines(check_plugin(manifest)):
        warn(line)
    if decide(manifest, {manifest.key}, ()) == "waiting":
        warn(f"plugins of kind {manifest.kind!r} are loaded only when selected")


def grant_override(installed: InstalledPlugins, manifest: PluginManifest, answer: bool | None) -> None:
    """Save whether the plugin may replace tools. Asks only about a plugin that wants to."""
    setting = f'plugins.entries."{manifest.key}".allow_tool_override'
    if answer is None:
        if manifest.source == "bundled" or manifest.path is None:
            return
        if "tools.override" not in manifest.capabilities and not asks_for_override(manifest.path):
            return
        entry = installed.config.entries.get(manifest.key)
        if isinstance(entry, dict) and "allow_tool_override" in entry:
            return
        if not is_interactive():
            warn(f"plugin {manifest.key} wants to replace tools; use --allow-tool-override to allow it")
            return
        answer = confirm(f"Plugin {manifest.key} wants to replace built-in tools. Allow that?")
    edit_config(installed.home, setting, answer)
    print(f"It may {'' if answer else 'not '}replace tools.")


def offer_packages(installed: InstalledPlugins, manifest: PluginManifest) -> None:
    """Offer to install the Python packages that the plugin needs and that are not there."""
    if not manifest.python_dependencies:
        return
    from hermes.plugins.loading.requirements import missing_packages

    missing = missing_packages(manifest.python_dependencies)
    if not missing:
        return
    names = ", ".join(missing)
    if not is_interactive() or not confirm(f"Plugin {manifest.key} needs {names}. Install with pip into {sys.prefix}?"):
        warn(
            f"plugin {manifest.key} needs {names}; install with: {sys.executable} -m pip install {shlex.join(missing)}"
        )
        return
    from hermes.plugins.install.packages import install_requirements

    print(f"Installing {names} with pip into {sys.prefix} …", file=sys.stderr)
    install_requirements(missing, installed.shell)
    print(f"Installed {names}.")


def _move(installed: InstalledPlugins, manifest: PluginManifest, *, to: str, out_of: str) -> None:
    """Add the plugin's key to one list and remove all its names from the other."""
    others = [other for other in installed.manifests().values() if other.key != manifest.key]
    names = {manifest.key, manifest.name}
    leaf = manifest.key.rpartition("/")[2]
    if not any(other.answers_to(leaf) for other in others):
        names.add(leaf)
    config = installed.config
    taken_out = names.intersection(config.enabled if out_of == ENABLED else config.disabled)
    # A shared name stood for other plugins too: these stay listed under their own keys.
    shared = [other.key for other in others if any(other.answers_to(name) for name in taken_out)]
    edit_list(installed.home, out_of, add=shared, remove=names)
    edit_list(installed.home, to, add=[manifest.key])
    if to == ENABLED and any(manifest.answers_to(name) for name in installed.config.disabled):
        warn(f"it stays disabled: plugins.disabled contains {manifest.name!r}, a name it shares with another plugin")


_NOTES = "after-install.md"
_MAX_NOTES_CHARS = 20_000


def install(args: argparse.Namespace, installed: InstalledPlugins) -> None:
    """Install a plugin and optionally enable it."""
    source = parse_source(args.source, installed.cwd, args.ref)
    if source.is_unprotected:
        warn(f"{source.shown} is not encrypted in transit; install only what you trust")
    if source.kind == "package":
        from hermes.plugins.install.packages import install_package

        print(f"Installing package {source.location} with pip into {sys.prefix} …", file=sys.stderr)
        points = install_package(installed.home, source, installed.shell)
        print_lines(f"Plugin {point.name} installed: package {point.package} {point.version}." for point in points)
        keys = [point.name for point in points]
    else:
        done = install_plugin(installed.home, source, installed.shell, cwd=installed.cwd, force=args.force)
        keys = [done.manifest.key]
        name = f"{keys[0]} {done.manifest.version}".rstrip()
        print_lines([f"Plugin {name} installed in {done.manifest.path}."])
        print_lines([f"From {source.shown}, revision {done.revision}."])
    for key in keys:
        manifest = installed.manifests()[key]
        offer_packages(installed, manifest)
        ask_for_env(installed, manifest)
        _show_notes(manifest.path)
        _offer_to_enable(installed, manifest, args.enable)


def update(args: argparse.Namespace, installed: InstalledPlugins) -> None:
    """Fetch a plugin again from its source."""
    manifest = installed.find(args.name)
    if args.ref.startswith("-"):
        raise PluginError(f"{args.ref!r} is not a revision; give a branch, a tag or a commit")
    if manifest.source == "entrypoint":
        from hermes.plugins.install.packages import install_package, package_of

        source = InstallSource("package", package_of(installed.home, manifest.key), ref=args.ref)
        points = install_package(installed.home, source, installed.shell, upgrade=True)
        before, now = manifest.version, next((one.version for one in points if one.name == manifest.key), "")
        is_unchanged, what = before == now, "version"
    else:
        done = update_plugin(installed.home, manifest, installed.shell, ref=args.ref, force=args.force)
        before, now, is_unchanged, what = done.before, done.revision, done.is_unchanged, "revision"
    if is_unchanged:
        print_lines([f"Plugin {manifest.key} is up to date ({what} {now})."])
        return
    print_lines([f"Plugin {manifest.key} updated from {before} to {now}."])
    if what == "revision":
        offer_packages(installed, installed.find(manifest.key))
        ask_for_env(installed, installed.find(manifest.key))


def remove(args: argparse.Namespace, installed: InstalledPlugins) -> int:
    """Delete a plugin and its settings."""
    manifest = installed.find(args.name)
    package = ""
    if manifest.source == "entrypoint":
        from hermes.plugins.install.packages import package_of

        package = package_of(installed.home, manifest.key)
    what = f"package {package}" if package else str(manifest.path)
    if not args.yes:
        if not is_interactive():
            raise HermesError("not a terminal: use --yes to remove without confirmation")
        if not confirm(f"Remove plugin {plain(manifest.key)} ({plain(what)})?"):
            print("Nothing was removed.")
            return 1
    if package:
        from hermes.plugins.install.packages import remove_package

        remove_package(package, installed.shell)
    else:
        remove_plugin(installed.home, manifest)
    print_lines([f"Removed plugin {manifest.key} ({what})."])
    _remove_settings(installed, manifest)
    return 0


def _remove_settings(installed: InstalledPlugins, manifest: PluginManifest) -> None:
    """Remove a plugin from the configuration: one installed later must not inherit its permissions."""
    left = installed.manifests().values()
    names = {name for name in (manifest.key, manifest.name) if not any(other.answers_to(name) for other in left)}
    config = installed.config
    for setting, listed in ((ENABLED, config.enabled), (DISABLED, config.disabled)):
        if names.intersection(listed):
            edit_list(installed.home, setting, remove=names)
    if manifest.key in names and manifest.key in config.entries:
        unset_config(installed.home, f'plugins.entries."{manifest.key}"')
        print_lines([f"Removed its settings under plugins.entries.{manifest.key}."])


def ask_for_env(installed: InstalledPlugins, manifest: PluginManifest) -> None:
    """Ask for the variables a plugin needs and save them in ``.env``; without a terminal, name them."""
    from hermes.base.config.environment import save_env

    missing = set(manifest.missing_env(os.environ))
    for requirement in manifest.requires_env:
        name = next(iter(env_names([requirement])), "")
        if name not in missing:
            continue
        missing.discard(name)
        if not name.isidentifier() or not is_interactive():
            warn(f"plugin {manifest.key} needs {name}; add it to {installed.home / '.env'}")
            continue
        value = _ask_value(name, requirement)
        if not value:
            continue
        try:
            save_env(installed.home, {name: value})
        except ConfigError as error:
            warn(str(error))
            continue
        os.environ[name] = value
        print(f"Saved {name} in {installed.home / '.env'}.")


def _ask_value(name: str, requirement: str | dict[str, Any]) -> str:
    entry = requirement if isinstance(requirement, dict) else {}
    for field in ("description", "url"):
        if entry.get(field):
            print(f"  {one_line(str(entry[field]), 300)}")
    question = f"{name} (Enter to skip):  "
    secret = entry.get("secret")
    try:
        if secret if isinstance(secret, bool) else is_secret_key(name):
            from getpass import getpass

            return getpass(question).strip()
        return input(question).strip()
    except EOFError:
        print()
        return ""


def _offer_to_enable(installed: InstalledPlugins, manifest: PluginManifest, answer: bool | None) -> None:
    if answer is None:
        answer = is_interactive() and confirm(f"Enable plugin {plain(manifest.key)} now?")
    if answer:
        enable_plugin(installed, manifest)
        grant_override(installed, manifest, None)
    else:
        print_lines([f"Not enabled. To enable it: hermes plugins enable {manifest.key}"])


def _show_notes(folder: Path | None) -> None:
    """Print the notes of the plugin's author."""
    try:
        text = (folder / _NOTES).read_text("utf-8", "replace") if folder else ""
    except OSError:
        return
    if text.strip():
        print_lines(["", text[:_MAX_NOTES_CHARS].strip(), ""])
