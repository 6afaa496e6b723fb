"""The plugins of one host: what became of each, and what they registered."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal

from msgspec import Struct

from hermes.hooks.table import Hooks
from hermes.plugins.manifest import PluginManifest
from hermes.plugins.records import AuxiliaryTaskEntry, CliCommand, Command, Skill, Waiting

log = logging.getLogger("hermes.plugins")

#: ``waiting``: loaded by the part of the runtime that its kind belongs to, when that selects it.
Status = Literal["loaded", "failed", "disabled", "not enabled", "waiting"]


class LoadedPlugin(Struct):
    """One plugin, whether or not it runs."""

    manifest: PluginManifest
    status: Status = "not enabled"
    error: str = ""
    #: Things that did not work but kept nothing else from working, such as a tool name that was taken.
    problems: list[str] = []
    #: Environment variables it asks for that are not set.
    missing_env: list[str] = []
    tools: list[str] = []
    hooks: list[str] = []
    middleware: list[str] = []
    commands: dict[str, Command] = {}
    cli_commands: dict[str, CliCommand] = {}
    skills: dict[str, Skill] = {}
    auxiliary_tasks: dict[str, AuxiliaryTaskEntry] = {}
    waiting: list[Waiting] = []
    #: What was waiting until a part of the runtime picked it up.
    in_use: list[Waiting] = []

    def forget(self) -> None:
        """Drop what was registered: a plugin that failed leaves nothing behind."""
        for registered in (self.tools, self.hooks, self.middleware, self.waiting, self.in_use):
            registered.clear()
        for registered in (self.commands, self.cli_commands, self.skills, self.auxiliary_tasks):
            registered.clear()


class PluginCounters(Struct, frozen=True):
    """How the callbacks of one plugin have fared, all together."""

    calls: int = 0
    failures: int = 0
    seconds: float = 0.0
    last_error: str = ""


class PluginSet:
    """Every plugin the host looked at, by key. Those it had no reason to look at are not in it."""

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks
        self.plugins: dict[str, LoadedPlugin] = {}

    def __iter__(self) -> Iterator[LoadedPlugin]:
        return iter(self.plugins.values())

    def __len__(self) -> int:
        return len(self.plugins)

    def get(self, key: str) -> LoadedPlugin | None:
        return self.plugins.get(key)

    @property
    def loaded(self) -> list[LoadedPlugin]:
        """Those that run."""
        return [plugin for plugin in self.plugins.values() if plugin.status == "loaded"]

    @property
    def commands(self) -> Mapping[str, Command]:
        """The slash commands of all plugins."""
        return {name: command for plugin in self for name, command in plugin.commands.items()}

    @property
    def cli_commands(self) -> Mapping[str, CliCommand]:
        """The subcommands of all plugins."""
        return {name: command for plugin in self for name, command in plugin.cli_commands.items()}

    @property
    def skills(self) -> Mapping[str, Skill]:
        return {name: skill for plugin in self for name, skill in plugin.skills.items()}

    @property
    def auxiliary_tasks(self) -> Mapping[str, AuxiliaryTaskEntry]:
        return {key: task for plugin in self for key, task in plugin.auxiliary_tasks.items()}

    def missing(self, wanted: Iterable[str], redact: Callable[[str], str]) -> list[str]:
        """A guard that is not on duty is worth a line: it may be what keeps a command from running."""
        lines = [
            f"plugin {plugin.manifest.key} is enabled and did not load: {redact(plugin.error)}"
            for plugin in self
            if plugin.status == "failed"
        ]
        known = {name for plugin in self for name in (plugin.manifest.key, plugin.manifest.name)}
        return lines + [f"plugin {name} is enabled and was not found" for name in wanted if name not in known]

    def waiting(self, what: str) -> list[Waiting]:
        """The registrations of one kind that no part of the runtime has picked up."""
        return [entry for plugin in self for entry in plugin.waiting if entry.what == what]

    def take(self, what: str, name: str) -> tuple[str, Any] | None:
        """Pick up a registration: the key of its plugin and what was registered, or None. It waits no more."""
        for plugin in self:
            for entry in plugin.waiting:
                if (entry.what, entry.name) == (what, name):
                    plugin.waiting.remove(entry)
                    plugin.in_use.append(entry)
                    return plugin.manifest.key, entry.value
        return None

    def counters(self) -> dict[str, PluginCounters]:
        """How the callbacks of each plugin have fared."""
        totals = {key: PluginCounters() for key in self.plugins}
        for one in self._hooks.stats():
            sum_ = totals.get(one.plugin, PluginCounters())
            totals[one.plugin] = PluginCounters(
                sum_.calls + one.calls,
                sum_.failures + one.failures,
                sum_.seconds + one.seconds,
                one.last_error or sum_.last_error,
            )
        return totals

    def close(self) -> None:
        """Deliver the events that are still queued, within a few seconds."""
        for plugin in self._hooks.flush():
            log.warning("plugin %r: not all of its background events were delivered in time", plugin)
