"""Plugin registry: the plugins of one host, the status of each, and what they registered."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from hermes.base.config.schema.mcp import McpServerConfig
from hermes.contract.plugin import SECTION_CHARS, SECTION_ID, SECTION_POSITIONS
from hermes.hooks.table import Hooks
from hermes.plugins.loading.manifest import PluginManifest, Source

log = logging.getLogger("hermes.plugins")

#: ``waiting``: loaded by the part of the runtime that its kind belongs to, when that selects it.
Status = Literal["loaded", "failed", "disabled", "not enabled", "waiting"]

#: Where a plugin may come from; of several offers of one name, that of the first place is used.
_PLACES: tuple[Source, ...] = ("program", "project", "user", "entrypoint", "bundled")


class Command(Struct, frozen=True):
    """A slash command: ``handler(raw_args)`` returns text, nothing, or a coroutine of either."""

    name: str
    handler: Callable[[str], Any]
    description: str
    args_hint: str
    plugin: str


class CliCommand(Struct, frozen=True):
    """A subcommand of ``hermes``: ``setup_fn(parser)`` adds its arguments, ``handler_fn(args)`` runs it."""

    name: str
    help: str
    setup_fn: Callable[[Any], Any]
    handler_fn: Callable[[Any], Any] | None
    description: str
    plugin: str


class Skill(Struct, frozen=True):
    """A read-only skill, named ``plugin:skill``."""

    name: str
    path: Path
    description: str
    plugin: str


class AuxiliaryTaskEntry(Struct, frozen=True):
    """A side job for a model, configured under ``auxiliary.<key>``."""

    key: str
    display_name: str
    description: str
    defaults: Mapping[str, Any]
    plugin: str


#: The text, or a function of what is known of the session.
Content = str | Callable[[dict[str, Any]], Any]


class PromptSection(Struct, frozen=True):
    """One section: ``content`` is its text, or gives it for a session."""

    id: str
    content: Content
    max_chars: int
    plugin: str


class ProviderOffer(Struct, frozen=True):
    """A provider, engine or platform that a plugin registered, for the part of the runtime that it belongs to."""

    #: What it was registered as, such as ``platform`` or ``web_search_provider``.
    kind: str
    name: str
    value: Any
    plugin: str
    options: dict[str, Any] = {}


class LoadedPlugin(Struct):
    """One plugin, whether or not it runs."""

    manifest: PluginManifest
    status: Status = "not enabled"
    error: str = ""
    #: What its own code raised while it was loaded.
    failure: BaseException | None = None
    #: Registrations that failed without failing the plugin, such as a hook that does not exist.
    problems: list[str] = []
    #: Those of them that were refused, such as a tool name that was taken.
    refused: list[str] = []
    #: Environment variables it asks for that are not set.
    missing_env: list[str] = []
    tools: list[str] = []
    hooks: list[str] = []
    middleware: list[str] = []
    commands: dict[str, Command] = {}
    cli_commands: dict[str, CliCommand] = {}
    skills: dict[str, Skill] = {}
    auxiliary_tasks: dict[str, AuxiliaryTaskEntry] = {}
    prompt_sections: dict[str, PromptSection] = {}
    #: MCP servers of a portable package, by name.
    mcp_servers: dict[str, McpServerConfig] = {}
    #: Offers that no part of the runtime uses, and those that one does.
    waiting: list[ProviderOffer] = []
    in_use: list[ProviderOffer] = []
    #: What it wants run when it is unloaded.
    clean_ups: list[Callable[[], Any]] = []

    @property
    def refusals(self) -> str:
        """What it was not allowed to register, in one line; empty when it runs with all that it registered."""
        if self.status != "loaded" or not self.refused:
            return ""
        first, *others = self.refused
        return f"{first}; and {len(others)} more" if others else first

    def forget(self) -> None:
        """Drop what was registered: a plugin that failed leaves nothing behind."""
        lists = (self.tools, self.hooks, self.middleware, self.waiting, self.in_use)
        for registered in (*lists, self.commands, self.cli_commands, self.skills, self.auxiliary_tasks):
            registered.clear()
        self.prompt_sections.clear()
        self.mcp_servers.clear()


class PluginCounters(Struct, frozen=True):
    """Statistics of all callbacks of one plugin."""

    calls: int = 0
    failures: int = 0
    seconds: float = 0.0
    last_error: str = ""


class PluginSet:
    """Every plugin the host considered, by key. Those it had no reason to consider are not in it."""

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks
        self.plugins: dict[str, LoadedPlugin] = {}
        #: The gateway that runs on the host of these plugins, for those that ask for it.
        self.gateway: object | None = None
        #: Called with the names of its platforms once it has started.
        self.gateway_starts: list[Callable[[Sequence[str]], None]] = []

    def __iter__(self) -> Iterator[LoadedPlugin]:
        return iter(self.plugins.values())

    def __len__(self) -> int:
        return len(self.plugins)

    def get(self, key: str) -> LoadedPlugin | None:
        return self.plugins.get(key)

    @property
    def loaded(self) -> list[LoadedPlugin]:
        """The plugins that are loaded."""
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

    @property
    def prompt_sections(self) -> Mapping[str, PromptSection]:
        """What plugins add to the system prompt of a session."""
        return {key: section for plugin in self for key, section in plugin.prompt_sections.items()}

    @property
    def mcp_servers(self) -> dict[str, McpServerConfig]:
        """The MCP servers of portable packages."""
        return {name: server for plugin in self for name, server in plugin.mcp_servers.items()}

    def missing(self, wanted: Iterable[str], redact: Callable[[str], str]) -> list[str]:
        """A line for each enabled plugin that is not there, or in part: it may be a guard that should block calls."""
        lines = [
            f"plugin {plugin.manifest.key} is enabled and did not load: {redact(plugin.error)}"
            for plugin in self
            if plugin.status == "failed"
        ]
        lines += [
            f"plugin {plugin.manifest.key} was refused a part of what it registers, and may not do its work: "
            f"{redact(plugin.refusals)} ('hermes plugins info {plugin.manifest.key} --load' has all)"
            for plugin in self
            if plugin.refusals
        ]
        asked = set(wanted)
        lines += [
            f"plugin {plugin.manifest.key} is enabled and is not loaded: {redact('; '.join(plugin.problems))}"
            for plugin in self
            if plugin.status == "waiting"
            and plugin.problems
            and not asked.isdisjoint((plugin.manifest.key, plugin.manifest.name))
        ]
        known = {name for plugin in self for name in (plugin.manifest.key, plugin.manifest.name)}
        return lines + [f"plugin {name} is enabled and was not found" for name in sorted(asked) if name not in known]

    def waiting(self, kind: str) -> list[ProviderOffer]:
        """The offers of one kind that no part of the runtime uses."""
        return [offer for plugin in self for offer in plugin.waiting if offer.kind == kind]

    def offers(self, kind: str) -> list[ProviderOffer]:
        """All offers of one kind by loaded plugins, in use or not."""
        return [offer for plugin in self.loaded for offer in (*plugin.waiting, *plugin.in_use) if offer.kind == kind]

    def take(self, kind: str, name: str) -> ProviderOffer | None:
        """The first unused offer with that name, marked as in use from here on."""
        waiting = (offer for plugin in self for offer in plugin.waiting)
        found = next((offer for offer in waiting if (offer.kind, offer.name) == (kind, name)), None)
        return None if found is None else self._use(found)

    def choose(self, kind: str, name: str) -> ProviderOffer | str:
        """The offer with that name, or from the plugin with that name; the only one when the name is empty.

        It is marked as in use. A text says why there is none, naming those there are.
        """
        found = self.offers(kind)
        if not name:
            matches = found
        else:
            matches = [offer for offer in found if offer.name == name]
            matches = matches or [offer for offer in found if name in (offer.plugin, offer.plugin.rpartition("/")[2])]
        if len({offer.name for offer in matches}) == 1:
            return self._use(min(matches, key=self._place))
        names = ", ".join(sorted(f"{offer.name} (plugin {offer.plugin})" for offer in matches or found))
        if matches:
            return f"several plugins offer one: {names}; choose one by name"
        wanted = f"no plugin that is loaded offers {name!r}" if name else "no plugin that is loaded offers one"
        return f"{wanted}; there are {names}" if names else f"{wanted}; see 'hermes plugins list'"

    def _place(self, offer: ProviderOffer) -> int:
        """Which of several offers of one name is used, the lowest number first: one name is one thing, installed twice.

        A folder is what a person put there; then come packages, and what is part of the runtime.
        """
        plugin = self.plugins.get(offer.plugin)
        return 0 if plugin is None else _PLACES.index(plugin.manifest.source)

    def _use(self, offer: ProviderOffer) -> ProviderOffer:
        """Mark an offer as in use."""
        for plugin in self:
            if offer in plugin.waiting:
                plugin.waiting.remove(offer)
                plugin.in_use.append(offer)
        return offer

    def counters(self) -> dict[str, PluginCounters]:
        """Statistics of the callbacks of each plugin. The test that `hermes plugins new` writes reads them."""
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
        """Deliver the events that are still queued, within a few seconds, and let the plugins clean up."""
        for plugin in self._hooks.flush():
            log.warning("plugin %r: not all of its background events were delivered in time", plugin)
        for plugin in reversed([plugin for plugin in self if plugin.clean_ups]):
            from hermes.plugins.loading.unloading import unload  # few plugins have something to clean up

            unload(plugin, self._hooks.runner)


def check_section(id: str, content: object, position: str, max_chars: int) -> None:  # noqa: A002
    """Raise ``ValueError`` or ``TypeError`` for a section that cannot be registered."""
    if not isinstance(id, str) or not SECTION_ID.fullmatch(id):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ValueError(
            f"prompt section {id!r}: an id has 1 to 128 characters, a-z, 0-9, '.', '_' and '-', "
            "the first a letter or digit"
        )
    if not isinstance(content, str) and not callable(content):
        raise TypeError(f"prompt section {id!r}: content is a {type(content).__name__}; text or a function is expected")
    if position not in SECTION_POSITIONS:
        raise ValueError(f"prompt section {id!r}: position is {position!r}; there is {', '.join(SECTION_POSITIONS)}")
    if isinstance(max_chars, bool) or not isinstance(max_chars, int) or not 0 < max_chars <= SECTION_CHARS:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ValueError(f"prompt section {id!r}: max_chars is {max_chars!r}; 1 to {SECTION_CHARS} are allowed")
