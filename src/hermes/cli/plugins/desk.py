"""What the commands about plugins work on, and how they talk to a person."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from hermes.cli.plugins.rows import PluginRow, plugin_row
from hermes.cli.terminal import one_line, plain
from hermes.config import apply_env, hermes_home, load_config, load_env_file
from hermes.config.sections import PluginsConfig
from hermes.errors import JournalError
from hermes.journal.store import Store
from hermes.journal.usage.plugins import PluginTotals, plugin_totals
from hermes.plugins.discovery import discover, find_plugin
from hermes.plugins.manifest import PluginManifest


class Desk:
    """One home with its configuration and the plugins that are found from here."""

    def __init__(self) -> None:
        self.home = hermes_home()
        self.cwd = Path.cwd()
        #: The environment as the shell gave it. Programs that are started get this one, without the keys of ``.env``.
        self.shell: Mapping[str, str] = dict(os.environ)
        apply_env(load_env_file(self.home))

    @property
    def config(self) -> PluginsConfig:
        """The ``plugins`` section as it is now."""
        return load_config(self.home).config.plugins

    def manifests(self) -> dict[str, PluginManifest]:
        """Every plugin that is found."""
        return discover(self.home, self.cwd)

    def find(self, name: str) -> PluginManifest:
        """The plugin with that key, name or last part of a key."""
        return find_plugin(name, self.manifests())

    def row(self, manifest: PluginManifest) -> PluginRow:
        """What is known of one plugin."""
        return plugin_row(manifest, self.config, self.totals(), os.environ)

    def totals(self) -> dict[str, PluginTotals]:
        """How plugins have fared; nothing, with a warning, when the journal cannot be read."""
        store = Store(self.home / "state.db")
        try:
            return plugin_totals(store)
        except JournalError as error:
            warn(f"no counters: {error}")
            return {}
        finally:
            store.close()


def is_terminal() -> bool:
    """Whether somebody is there who can be asked."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def confirmed(question: str) -> bool:
    """A yes-or-no question; no answer is no."""
    try:
        return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        print()
        return False


def warn(text: str) -> None:
    """A line on stderr."""
    print(f"Warning: {one_line(text, 1000)}", file=sys.stderr)


def print_lines(lines: Iterable[str]) -> None:
    for line in lines:
        print(plain(line))
