"""``ctx``, the object that a plugin's ``register`` is given, and loading one plugin as a transaction."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack, cast

from hermes.base.errors import PluginError
from hermes.contract.commands import OWN_PREFIX, YIELDING_COMMANDS
from hermes.contract.events import Event
from hermes.contract.plugin import SECTION_CHARS
from hermes.hooks.callback import describe, is_awaitable
from hermes.hooks.observers import OnError
from hermes.hooks.queue import BackgroundQueue, Overflow
from hermes.hooks.sinks import EventSink
from hermes.hooks.table import Snapshot
from hermes.hooks.threads.runner import OWN_SIGNALS, CallLate
from hermes.hooks.threads.timed_call import FOREVER, refuse_late_calls
from hermes.plugins.ctx.offers import ProviderRegistrations
from hermes.plugins.ctx.own_data import OwnData
from hermes.plugins.loading.manifest import PluginManifest, env_names
from hermes.plugins.loading.modules import forget_plugin
from hermes.plugins.loading.registration import import_register, remarks_on
from hermes.plugins.registry import (
    AuxiliaryTaskEntry,
    CliCommand,
    Command,
    LoadedPlugin,
    PromptSection,
    Skill,
    check_section,
)
from hermes.plugins.services import PluginHost
from hermes.plugins.tool_handler import availability, check_name, read_schema, runner, wrapping
from hermes.tools.declarations.declaration import DeclaredKeywords, declaration_from
from hermes.tools.registry import Effect, Tool

if TYPE_CHECKING:
    from hermes.base.config.schema.mcp import McpServerConfig
    from hermes.base.sanitize import Redactor
    from hermes.plugins.http import PluginHttp
    from hermes.plugins.llm.access import PluginLlm

log = logging.getLogger("hermes.plugins")

_PLAIN_NAME = re.compile(r"[a-zA-Z0-9_-]+")

#: Side jobs the runtime has itself, and the settings that share their section.
_BUILT_IN_TASKS = frozenset(
    (
        "vision web_extract compression session_search approval title_generation mcp skills_hub "
        "flush_memories plugin_llm timeout transient_retries"
    ).split()
)


class PluginToolOverrideError(PluginError, PermissionError):
    """A plugin wants to replace a tool that the configuration does not let it replace."""


class PluginContext(OwnData, ProviderRegistrations):
    """One plugin's access to the host. It stays valid after ``register``, as long as the plugin is loaded."""

    def __init__(self, manifest: PluginManifest, record: LoadedPlugin, host: PluginHost) -> None:
        self.manifest = manifest
        self._record = record
        self._host = host
        self._llm: PluginLlm | None = None
        self._open = True
        #: Whether ``register`` has still to come to its end.
        self.loading = True
        self._before: Snapshot = host.hooks.snapshot()
        self._replaced: list[tuple[str, Tool | None]] = []

    # -- what the host offers -----------------------------------------------------------------------------------

    @property
    def llm(self) -> PluginLlm:
        """Model access for this plugin, as far as ``plugins.entries.<key>.llm`` grants it."""
        if self._llm is None:
            from hermes.plugins.llm.access import PluginLlm  # most plugins never ask a model

            self._llm = PluginLlm(self.manifest.key, self._host.services.llm)
        return self._llm

    @property
    def http(self) -> PluginHttp:
        """HTTP over the host's connections: `get`, `request` and `arequest`, with the SSRF guard on by default."""
        return self._host.services.http

    @property
    def redactor(self) -> Redactor:
        """Masks every secret of the home in a text: `redact(text)` for all that leaves the machine."""
        return self._host.services.redactor

    @property
    def _manager(self) -> Any:
        """The plugin manager, as plugins for other hosts of the contract reach it."""
        from hermes.plugins.compat.manager import manager_of

        return manager_of(self._host)

    @property
    def profile_name(self) -> str:
        """The active profile: ``default``, a profile's id, or ``custom``."""
        return self._host.services.profile_name

    def dispatch_tool(self, tool_name: str, args: dict[str, Any] | None = None, **kwargs: Any) -> str:
        """Run a tool with everything a call of the model's goes through, and return its result."""
        return self._host.services.dispatch_tool(tool_name, args or {}, **kwargs)

    def inject_message(self, content: str, role: str = "user") -> bool:
        """Add a message to the running turn, or start one at an idle prompt. False when none takes it.

        A role other than ``user`` becomes a prefix.
        """
        text = content if role == "user" else f"[{role}] {content}"
        taken = self._host.services.inject_message(text, "user")
        if not taken:
            log.warning("plugin %r: there is no conversation to inject a message into", self.manifest.key)
        return taken

    # -- tools --------------------------------------------------------------------------------------------------

    def register_tool(
        self,
        name: str,
        toolset: str,
        schema: dict[str, Any],
        handler: Callable[..., Any],
        check_fn: Callable[[], Any] | None = None,
        requires_env: Sequence[Any] | None = None,
        is_async: bool = False,
        description: str = "",
        emoji: str = "",
        override: bool = False,
        *,
        effect: Effect = "unsafe",
        parallel: bool = False,
        untrusted: bool = False,
        **declares: Unpack[DeclaredKeywords],
    ) -> None:
        """Offer a tool: ``handler(args, **keywords)`` returns a JSON string, or a coroutine of one.

        A name that is taken is refused, unless the plugin's ``allow_tool_override`` is true, and ``override`` is set or
        the toolset is that of the other tool: it then wraps that one, and takes over its declarations if it has none.
        ``is_async`` is accepted and not needed. ``effect`` and ``parallel`` say when a call may run again after a
        crash and next to others. ``untrusted`` marks every result as untrusted text, such as a web page: the model
        sees it between ``<untrusted ID>`` and ``</untrusted ID>``. ``reads``, ``writes``, ``runs``, ``workdir`` and
        ``sends`` name the arguments that are paths, code and addresses, for the gate; ``kind``, ``subject`` and
        ``detail`` say how calls are shown.
        """
        self._check_open()
        key = self.manifest.key
        if not callable(handler):
            raise PluginError(f"register_tool({name!r}) needs a function, got {type(handler).__name__}")
        text, parameters = read_schema(check_name(name), schema, description)
        if not self._may_take(name, toolset, override):
            return
        tool = Tool(
            name=name,
            toolset=toolset,
            description=text,
            parameters=parameters,
            run=runner(name, key, handler, self._host.hooks.loop),
            effect=effect,
            declares=declaration_from(declares),
            parallel=parallel,
            available=availability(name, key, check_fn, requires_env, self._host.hooks.runner),
            needs=", ".join(env_names(requires_env or ())),
            emoji=emoji,
            plugin=key,
            untrusted=untrusted,
        )
        existing = self._host.tools.get(name)
        if existing is not None and existing.toolset == toolset and not override and tool.declares is None:
            tool = wrapping(tool, existing)
        self._replaced.append((name, existing))
        self._host.tools.add(tool, override=True)
        if name not in self._record.tools:
            self._record.tools.append(name)

    def _may_take(self, name: str, toolset: str, override: bool) -> bool:
        """Whether the plugin may register a tool of that name: one that exists is replaced only with the grant."""
        existing = self._host.tools.get(name)
        if existing is not None and existing.plugin == self.manifest.key:
            return True
        if override:
            self._check_override_grant(name)
            return True
        if existing is None:
            return True
        is_wrapper = existing.toolset == toolset
        if is_wrapper and self._may_override:
            return True
        owner = f"plugin {existing.plugin!r}" if existing.plugin else "the runtime"
        how = f"{self._grant}: true lets it" if is_wrapper else "override=True asks for that"
        self._problem(f"tool {name!r} is already registered by {owner}; it was not replaced ({how})")
        return False

    def _check_override_grant(self, name: str) -> None:
        if not self._may_override:
            raise PluginToolOverrideError(
                f"plugin {self.manifest.key!r} may not override tool {name!r}; set {self._grant}: true to let it"
            )

    @property
    def _grant(self) -> str:
        return f"plugins.entries.{self.manifest.key}.allow_tool_override"

    @property
    def _may_override(self) -> bool:
        settings = self._host.entries.get(self.manifest.key)
        granted = isinstance(settings, dict) and cast("dict[str, Any]", settings).get("allow_tool_override") is True
        return granted or self.manifest.source == "bundled"

    # -- hooks and middleware -----------------------------------------------------------------------------------

    def register_hook(
        self,
        hook_name: str,
        callback: Callable[..., Any],
        *,
        timeout: float | None = None,
        background: bool = False,
        on_error: OnError | None = None,
        overflow: Overflow = "drop",
    ) -> None:
        """Observe an event. The keywords, all optional, are beyond the basic contract: see ``Hooks.subscribe``."""
        self._check_open()
        known = self._host.hooks.subscribe(
            hook_name,
            self.manifest.key,
            callback,
            timeout=timeout,
            background=background,
            on_error=on_error,
            overflow=overflow,
        )
        self._note(self._record.hooks, hook_name, "hook", known)

    def register_event_sink(
        self,
        sink: EventSink,
        *,
        events: Collection[type[Event]] | None = None,
        leave_out: Collection[str] = (),
        timeout: float | None = None,
        background: bool = False,
        overflow: Overflow = "drop",
    ) -> None:
        """Observe events as objects of ``hermes.contract.events``: ``sink(event)``. See ``Hooks.subscribe_events``."""
        self._check_open()
        hooks = self._host.hooks.subscribe_events(
            self.manifest.key,
            sink,
            events=events,
            leave_out=leave_out,
            timeout=timeout,
            background=background,
            overflow=overflow,
        )
        for hook in hooks:
            self._note(self._record.hooks, hook, "hook", known=True)

    def background_queue(self, capacity: int | None = None) -> BackgroundQueue:
        """The plugin's bounded background queue, shared with its ``background=True`` callbacks.

        ``put(work)`` runs work in order on a daemon thread, ``flush(seconds)`` waits for what is queued until a
        deadline. The host flushes and closes the queue when it closes. ``capacity`` sets how many items may wait.
        """
        self._check_open()
        return self._host.hooks.queue(self.manifest.key, capacity)

    def register_middleware(self, kind: str, callback: Callable[..., Any]) -> None:
        """Rewrite requests or wrap their execution."""
        self._check_open()
        known = self._host.hooks.add_middleware(kind, self.manifest.key, callback)
        self._note(self._record.middleware, kind, "middleware kind", known)

    def _note(self, names: list[str], name: str, noun: str, known: bool) -> None:
        if not known:
            self._record.problems.append(f"there is no {noun} {name!r}")
        elif name not in names:
            names.append(name)

    # -- commands -----------------------------------------------------------------------------------------------

    def register_command(
        self, name: str, handler: Callable[[str], Any], description: str = "", args_hint: str = ""
    ) -> None:
        """Add a slash command: ``handler(raw_args)`` returns text, nothing, or a coroutine of either."""
        self._check_open()
        plain = name.strip().lstrip("/").strip().lower().replace(" ", "-")
        if not plain:
            self._problem(f"a command needs a name; {name!r} has none")
        elif plain in self._host.reserved_commands:
            self._problem(f"command /{plain} is the runtime's own; it was not replaced")
        elif (other := self._host.plugins.commands.get(plain)) and other.plugin != self.manifest.key:
            self._problem(f"command /{plain} is already registered by plugin {other.plugin!r}")
        else:
            if plain in YIELDING_COMMANDS:
                log.warning(
                    "plugin %r: its command /%s comes before the runtime's, which is /%s%s now",
                    self.manifest.key,
                    plain,
                    OWN_PREFIX,
                    plain,
                )
            self._record.commands[plain] = Command(plain, handler, description, args_hint, self.manifest.key)

    def register_cli_command(
        self,
        name: str,
        help: str,  # noqa: A002  (the contract's spelling)
        setup_fn: Callable[[Any], Any],
        handler_fn: Callable[[Any], Any] | None = None,
        description: str = "",
    ) -> None:
        """Add ``hermes <name>``: ``setup_fn(parser)`` adds arguments, ``handler_fn(args)`` runs it."""
        self._check_open()
        command = CliCommand(name, help, setup_fn, handler_fn, description, self.manifest.key)
        self._record.cli_commands[name] = command

    # -- skills and side jobs -----------------------------------------------------------------------------------

    def register_skill(self, name: str, path: str | Path, description: str = "") -> None:
        """Offer a read-only skill as ``<plugin name>:<name>``."""
        self._check_open()
        if not _PLAIN_NAME.fullmatch(name):
            raise ValueError(f"skill name {name!r}: only letters, digits, _ and - are allowed")
        skill = Path(path)
        if not skill.exists():
            raise FileNotFoundError(f"skill {name!r}: there is nothing at {skill}")
        qualified = f"{self.manifest.name}:{name}"
        self._record.skills[qualified] = Skill(qualified, skill, description, self.manifest.key)

    def register_auxiliary_task(
        self, key: str, *, display_name: str, description: str, defaults: Mapping[str, Any] | None = None
    ) -> None:
        """Add a side job whose model is configured under ``auxiliary.<key>``."""
        self._check_open()
        if not _PLAIN_NAME.fullmatch(key):
            raise ValueError(f"auxiliary task {key!r}: only letters, digits, _ and - are allowed")
        if key in _BUILT_IN_TASKS:
            raise ValueError(f"auxiliary task {key!r} is built in; choose another key")
        other = self._host.plugins.auxiliary_tasks.get(key)
        if other is not None and other.plugin != self.manifest.key:
            raise ValueError(f"auxiliary task {key!r} is already registered by plugin {other.plugin!r}")
        settings = {"provider": "auto", "timeout": 60, **(defaults or {})}
        task = AuxiliaryTaskEntry(key, display_name, description, settings, self.manifest.key)
        self._record.auxiliary_tasks[key] = task

    def register_system_prompt_section(
        self,
        id: str,  # noqa: A002  (the contract's spelling)
        content: str | Callable[[dict[str, Any]], Any],
        *,
        position: str = "after_memory",
        max_chars: int = SECTION_CHARS,
    ) -> None:
        """Add a text to the system prompt of every session that begins: text, or a function of the session's details.

        It is made once per session and recorded with it, so that the prompt stays the same.
        """
        self._check_open()
        check_section(id, content, position, max_chars)
        other = self._host.plugins.prompt_sections.get(id)
        if other is not None:
            raise ValueError(f"prompt section {id!r} is already registered by plugin {other.plugin!r}")
        self._record.prompt_sections[id] = PromptSection(id, content, max_chars, self.manifest.key)

    # -- the end --------------------------------------------------------------------------------------------------

    def on_unload(self, callback: Callable[[], Any]) -> None:
        """Have a function called once when the plugin is unloaded: its host closes, or its ``register`` fails."""
        self._check_open()
        if not callable(callback):
            raise TypeError(f"on_unload needs a function, got {type(callback).__name__}")
        self._record.clean_ups.append(callback)

    # -- for portable packages ------------------------------------------------------------------------------------

    def add_mcp_server(self, name: str, server: McpServerConfig) -> None:
        """Offer an MCP server of a portable package."""
        self._record.mcp_servers[name] = server

    def note_problem(self, text: str) -> None:
        """Say that a part of a portable package is left out."""
        self._problem(text)

    # -- the transaction ----------------------------------------------------------------------------------------

    def roll_back(self) -> None:
        """Undo every registration and accept no more."""
        self._open = self.loading = False
        self._host.hooks.restore(self._before)
        for name, before in reversed(self._replaced):
            self._host.tools.remove(name)
            if before is not None:
                self._host.tools.add(before)
        self._record.forget()

    def commit(self) -> None:
        """Keep what was registered."""
        self.loading = False
        self._before = {}
        self._replaced.clear()

    def _check_open(self) -> None:
        refuse_late_calls()
        if not self._open:
            raise PluginError(f"plugin {self.manifest.key!r} failed to load; it cannot register anything")


def load_one(record: LoadedPlugin, host: PluginHost, register: Callable[[Any], Any] | None = None) -> None:
    """Import a plugin, unless ``register`` is given, and let it register. When anything fails, everything is undone."""
    manifest = record.manifest
    context = host.contexts[manifest.key] = PluginContext(manifest, record, host)
    try:
        _register(context, register, host)
    except BaseException as failure:
        if record.clean_ups:
            from hermes.plugins.loading.unloading import unload

            unload(record, host.hooks.runner)
        context.roll_back()
        forget_plugin(manifest)
        if not isinstance(failure, _LoadFailed):
            raise
        error = record.failure = failure.error
        record.status = "failed"
        record.error = str(error) if isinstance(error, PluginError) else describe(error)
        log.warning("plugin %r is not loaded: %s", manifest.key, record.error)
        log.debug("how plugin %r failed", manifest.key, exc_info=error)
        return
    context.commit()
    record.status = "loaded"
    remarks = remarks_on(manifest, host.entries.get(manifest.key))
    for remark in (*remarks, *(f"{name} is not set" for name in record.missing_env)):
        log.warning("plugin %r: %s", manifest.key, remark)
    log.debug("plugin %r %s is loaded from %s", manifest.key, manifest.version, manifest.source)


def _register(context: PluginContext, register: Callable[[Any], Any] | None, host: PluginHost) -> None:
    """Import the plugin and call its ``register``, each within the limit for loading."""
    manifest = context.manifest
    function: Callable[[Any], Any] = register or _limited(
        "import", lambda: import_register(manifest, host), manifest, host
    )

    def call() -> None:
        result = function(context)
        if is_awaitable(result):
            seconds = host.hooks.runner.limits.load_seconds(manifest.key)
            limit = None if seconds == FOREVER else seconds
            host.hooks.loop.run(result, f"register of plugin {manifest.key!r}", limit)

    _limited("register", call, manifest, host)


class _LoadFailed(Exception):
    """The plugin's own code failed while it was loaded."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(error)
        self.error = error


def _limited(step: str, work: Callable[[], Any], manifest: PluginManifest, host: PluginHost) -> Any:
    value, error = host.hooks.runner.load(work, manifest.key)
    if isinstance(error, OWN_SIGNALS):
        raise error
    if isinstance(error, CallLate):
        setting = f"plugins.entries.{manifest.key}.load_timeout"
        error = PluginError(f"its {step} did not end: {error} ({setting} sets how long it may take)")
    if error is not None:
        raise _LoadFailed(error)
    return value


def load_object(plugin: object, host: PluginHost) -> str:
    """Load a plugin that the embedding program gives as an object, a module or a ``register`` function; its key."""
    register = getattr(plugin, "register", None) or plugin
    if not callable(register) or isinstance(register, type):
        raise PluginError(f"{plugin!r} is not a plugin: it has no register(ctx) function")
    name = str(getattr(plugin, "name", "") or getattr(plugin, "__name__", "") or type(plugin).__name__)
    known = host.plugins.plugins
    if name in known:
        raise PluginError(f"there are two plugins called {name!r}; give one of them another name")
    version = str(getattr(plugin, "version", "") or getattr(plugin, "__version__", ""))
    summary = (plugin.__doc__ or "").strip().partition("\n")[0]
    known[name] = LoadedPlugin(PluginManifest(name, name, version, summary, source="program"))
    load_one(known[name], host, register)
    return name
