"""``hermes plugins install``, ``update`` and ``remove``."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from hermes.cli.plugins.desk import Desk, confirmed, is_terminal, print_lines, warn
from hermes.cli.plugins.enable import DISABLED, ENABLED, grant_override, switch_on
from hermes.cli.terminal import one_line, plain
from hermes.config import edit_list, unset_config
from hermes.errors import ConfigError, HermesError, PluginError
from hermes.plugins.discovery import find_plugin
from hermes.plugins.install.install import install_plugin, remove_plugin, update_plugin
from hermes.plugins.install.source import InstallSource, parse_source
from hermes.plugins.manifest import PluginManifest, env_names
from hermes.sanitize import is_secret_key

_NOTES = "after-install.md"
_MAX_NOTES_CHARS = 20_000


def install(desk: Desk, args: argparse.Namespace) -> int:
    """Bring a plugin here and, when wanted, enable it."""
    source = parse_source(args.source, desk.cwd, args.ref)
    if source.is_unprotected:
        warn(f"nothing protects {source.shown} on its way here; install only what you trust")
    for key in _install_package(desk, source) if source.kind == "package" else [_install_files(desk, source, args)]:
        manifests = desk.manifests()
        manifest = manifests[key]
        ask_for_env(desk, manifest)
        _show_notes(manifest.path)
        _offer_to_enable(desk, manifest, manifests, args.enable)
    return 0


def _install_files(desk: Desk, source: InstallSource, args: argparse.Namespace) -> str:
    done = install_plugin(desk.home, source, desk.shell, cwd=desk.cwd, force=args.force)
    key, folder = done.manifest.key, done.manifest.path
    print_lines([f"Plugin {key} {done.manifest.version}".rstrip() + f" is installed in {folder}."])
    print_lines([f"From {source.shown}, revision {done.revision}."])
    return key


def _install_package(desk: Desk, source: InstallSource) -> list[str]:
    from hermes.plugins.install.packages import install_package

    print(f"Installing package {source.location} with pip into {sys.prefix} …", file=sys.stderr)
    points = install_package(desk.home, source, desk.shell)
    for point in points:
        print_lines([f"Plugin {point.name} is installed: package {point.package} {point.version}."])
    return [point.name for point in points]


def update(desk: Desk, args: argparse.Namespace) -> int:
    """Fetch a plugin again from where it came from."""
    manifest = desk.find(args.name)
    if args.ref.startswith("-"):
        raise PluginError(f"{args.ref!r} is no revision; give a branch, a tag or a commit")
    if manifest.source == "entrypoint":
        return _update_package(desk, manifest, args.ref)
    done = update_plugin(desk.home, manifest, desk.shell, ref=args.ref, force=args.force)
    if done.is_unchanged:
        print_lines([f"Plugin {manifest.key} is up to date (revision {done.revision})."])
        return 0
    print_lines([f"Plugin {manifest.key} is updated from {done.before} to {done.revision}."])
    fresh = desk.find(manifest.key)
    ask_for_env(desk, fresh)
    return 0


def _update_package(desk: Desk, manifest: PluginManifest, ref: str) -> int:
    from hermes.plugins.install.packages import install_package, package_of

    source = InstallSource("package", package_of(desk.home, manifest.key), ref=ref)
    points = install_package(desk.home, source, desk.shell, upgrade=True)
    version = next((point.version for point in points if point.name == manifest.key), "")
    if version == manifest.version:
        print_lines([f"Plugin {manifest.key} is up to date (version {version})."])
    else:
        print_lines([f"Plugin {manifest.key} is updated from {manifest.version} to {version}."])
    return 0


def remove(desk: Desk, args: argparse.Namespace) -> int:
    """Delete a plugin and every mention of it in the configuration."""
    manifest = desk.find(args.name)
    package = ""
    if manifest.source == "entrypoint":
        from hermes.plugins.install.packages import package_of

        package = package_of(desk.home, manifest.key)
    what = f"package {package}" if package else str(manifest.path)
    if not args.yes:
        if not is_terminal():
            raise HermesError("removing needs a confirmation and this is no terminal; give --yes to remove anyway")
        if not confirmed(f"Remove plugin {plain(manifest.key)} ({plain(what)})?"):
            print("Nothing was removed.")
            return 1
    if package:
        from hermes.plugins.install.packages import remove_package

        remove_package(package, desk.shell)
    else:
        remove_plugin(desk.home, manifest)
    print_lines([f"Plugin {manifest.key} is removed ({what})."])
    _forget(desk, manifest)
    return 0


def _forget(desk: Desk, manifest: PluginManifest) -> None:
    """Take a plugin out of the configuration: one installed later must not inherit what this one was allowed."""
    left = desk.manifests().values()
    names = {name for name in (manifest.key, manifest.name) if not any(other.answers_to(name) for other in left)}
    config = desk.config
    for setting, listed in ((ENABLED, config.enabled), (DISABLED, config.disabled)):
        if names.intersection(listed):
            edit_list(desk.home, setting, remove=names)
    if manifest.key in names and manifest.key in config.entries:
        unset_config(desk.home, f'plugins.entries."{manifest.key}"')
        print_lines([f"Its settings under plugins.entries.{manifest.key} are removed too."])


# -- questions ------------------------------------------------------------------------------------------------------


def ask_for_env(desk: Desk, manifest: PluginManifest) -> None:
    """Ask for the variables a plugin needs and keep them in ``.env``; without a terminal, name them."""
    missing = set(manifest.missing_env(os.environ))
    for requirement in manifest.requires_env:
        name = next(iter(env_names([requirement])), "")
        if name not in missing:
            continue
        missing.discard(name)
        if not name.isidentifier() or not is_terminal():
            warn(f"plugin {manifest.key} needs {name}; put it into {desk.home / '.env'}")
            continue
        value = _ask_value(name, requirement)
        if value:
            _keep(desk, name, value)


def _ask_value(name: str, requirement: str | dict[str, Any]) -> str:
    entry = requirement if isinstance(requirement, dict) else {}
    for field in ("description", "url"):
        if entry.get(field):
            print(f"  {one_line(str(entry[field]), 300)}")
    question = f"{name} (empty to leave it out): "
    secret = entry.get("secret")
    try:
        if secret if isinstance(secret, bool) else is_secret_key(name):
            from getpass import getpass

            return getpass(question).strip()
        return input(question).strip()
    except EOFError:
        print()
        return ""


def _keep(desk: Desk, name: str, value: str) -> None:
    from hermes.config.env_edit import save_env

    try:
        save_env(desk.home, {name: value})
    except ConfigError as error:
        warn(str(error))
        return
    os.environ[name] = value
    print(f"{name} is saved in {desk.home / '.env'}.")


def _offer_to_enable(
    desk: Desk, manifest: PluginManifest, manifests: dict[str, PluginManifest], answer: bool | None
) -> None:
    if answer is None:
        answer = is_terminal() and confirmed(f"Enable plugin {plain(manifest.key)} now?")
    if answer:
        switch_on(desk, find_plugin(manifest.key, manifests), manifests)
        grant_override(desk, manifest, None)
    else:
        print_lines([f"It is not enabled. To enable it: hermes plugins enable {manifest.key}"])


def _show_notes(folder: Path | None) -> None:
    """What the plugin's author wants known after an install."""
    try:
        text = (folder / _NOTES).read_text("utf-8", "replace") if folder else ""
    except OSError:
        return
    if text.strip():
        print_lines(["", text[:_MAX_NOTES_CHARS].strip(), ""])
