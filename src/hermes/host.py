"""The composition root: builds the parts of a process that runs agents, from the configuration."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from hermes.agent.approvals.gate import Approvals
from hermes.agent.approvals.model_approval import ModelApproval
from hermes.agent.approvals.modes import SessionModes
from hermes.agent.approvals.responder import Responders
from hermes.agent.approvals.rules import ApprovalRules
from hermes.agent.context.window import Contexts
from hermes.agent.images.describe import Vision
from hermes.agent.images.generate import ImageMaker
from hermes.agent.llm.model_runtime import ModelRuntime
from hermes.agent.llm.models import Models
from hermes.agent.llm.side_call import SideModel
from hermes.agent.memory.memory import Memory
from hermes.agent.runtime import OpenSessions, Runtime
from hermes.agent.services import Services
from hermes.agent.session import Session
from hermes.agent.tools.catalogue import agent_tools
from hermes.agent.tools.web import WebProviders
from hermes.agent.workers import Workers
from hermes.base.config.changes import changed_settings, config_digest
from hermes.base.config.load import FreshConfig
from hermes.base.config.principals import SERVED_PLATFORMS
from hermes.base.config.schema.modes import UNASKED_MODE, PermissionMode
from hermes.base.config.schema.sections import BudgetsConfig, Config
from hermes.base.config.secrets import home_secrets
from hermes.base.errors import HermesError, SessionNotFound
from hermes.base.sanitize import Redactor
from hermes.base.scope import Scope, new_session_id
from hermes.base.version import __version__
from hermes.hooks.table import Hooks
from hermes.hooks.threads.runner import PluginLimits
from hermes.journal.questions import Questions
from hermes.journal.sessions import Sessions
from hermes.journal.store.port import open_store
from hermes.models.local.endpoint import NOTICE, is_embedded
from hermes.plugins.loading.discovery import is_set
from hermes.plugins.loading.loader import load_plugins
from hermes.plugins.registry import PluginSet
from hermes.service.mcp.sources import McpSources
from hermes.tools.builtin import builtin_tools
from hermes.tools.files.checkpoints.port import CheckpointPort
from hermes.tools.files.guard import FileGuard
from hermes.tools.registry import Tool, ToolLimits, ToolRegistry
from hermes.tools.sandbox.confinement import Confinements
from hermes.tools.skills.prompt_files import PromptFiles
from hermes.tools.skills.skills import TOOL_NAMES as SKILL_TOOLS
from hermes.tools.skills.skills import Skills
from hermes.tools.terminal.background import ProcessTable
from hermes.tools.toolsets import only_allowed, select_tools

if TYPE_CHECKING:
    from hermes.agent.context.inputs import TurnInputs
    from hermes.journal.turns.steps import Message
    from hermes.models.wires.wire import Transport
    from hermes.plugins.shell_hooks.consent import AskConsent
    from hermes.service.mcp.callbacks.sampling import SamplingModels
    from hermes.service.mcp.servers import McpServers
    from hermes.service.schedules.plugin_jobs import PluginJobs


log = logging.getLogger("hermes.host")


class HostOptions(msgspec.Struct, frozen=True):
    """The options of one run beyond the configuration."""

    provider: str = ""
    model: str = ""
    #: Toolsets to offer; None offers those of the configuration.
    toolsets: Sequence[str] | None = None
    #: Names or patterns (``read_*``) of tools; no others are offered. None leaves out none.
    allowed_tools: Sequence[str] | None = None
    #: Tools of the program that embeds the host. They are always offered.
    tools: Sequence[Tool] = ()
    max_turns: int | None = None
    #: Plugins to load whether or not the configuration enables them.
    plugins: Sequence[str] = ()
    #: Plugins of the program that embeds the host: objects with a ``register(ctx)`` function.
    plugin_objects: Sequence[object] = ()
    #: False leaves out the plugins that the configuration enables.
    use_enabled_plugins: bool = True
    #: Run without approvals. Hardline commands stay refused.
    allow_everything: bool = False
    #: The permission mode that sessions start in; None is that of the configuration.
    permission_mode: PermissionMode | None = None
    #: Run the configured hook commands without consent.
    accept_hooks: bool = False
    #: Asks for consent to a hook command; without it, only commands that were accepted before run.
    ask_consent: AskConsent | None = None
    platform: str = "cli"
    #: The chat platforms to run, whose plugins are loaded.
    platforms: Sequence[str] = ()
    #: No person can be asked in this run.
    unattended: bool = False
    #: The programs that this process starts cannot read its memory. Debuggers cannot either.
    hide_memory: bool = False
    #: The folder of a journal that is thrown away afterwards; None keeps it in the home.
    journal: Path | None = None
    #: Where a run that is run again gets what came from outside, and what answers instead of its models.
    inputs: TurnInputs | None = None
    transport: Transport | None = None

    def recorded(self) -> dict[str, Any]:
        """The options that shape a run, as far as they are set, for the record of its environment."""
        usual = HostOptions()
        return {name: value for name in RECORDED_OPTIONS if (value := getattr(self, name)) != getattr(usual, name)}


#: Options that change what a model is asked and what it may do.
RECORDED_OPTIONS = tuple(
    (
        "toolsets allowed_tools max_turns plugins use_enabled_plugins allow_everything permission_mode "
        "platform unattended"
    ).split()
)


class Host:
    """The parts of one process: plugins, tools, providers, journal. Close it when done."""

    def __init__(
        self,
        home: Path,
        config: Config,
        options: HostOptions | None = None,
        *,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        redactor: Redactor | None = None,
    ) -> None:
        self.home = home
        self._began = time.time()
        self.config = config
        self.options = options or HostOptions()
        self.cwd = cwd or (Path.cwd() / Path(config.terminal.cwd).expanduser()).resolve()
        self._env = os.environ if env is None else env
        self._environment: dict[str, Any] | None = None
        #: Knows every secret of the home, so that they are masked wherever text leaves the process.
        self.redactor = redactor or Redactor()
        self.redactor.add_secrets(home_secrets(home, config, {**os.environ, **self._env}))
        self.hooks = Hooks(PluginLimits(config.plugins))
        self.workers = Workers()
        #: The users that can be asked, by session; a surface with a user attaches it here.
        self.responders = Responders()
        self.open_sessions = OpenSessions[Session](lambda: self._conversation_models().endpoints)
        self._open_journal()
        self.models = Models(home, config, self._env, self.redactor, self.hooks)
        self.models.stand_in = self.options.transport
        self.side = SideModel(self.models, self.store)
        self.runtime = self._build_runtime()
        if config.budgets != BudgetsConfig():
            from hermes.agent.llm.budgets import Budgets  # most homes have none

            self.models.budgets = Budgets(self.store, config.budgets, self.runtime.responders)
        self._fresh_config = FreshConfig(home, config, self._env, follow=self.options.use_enabled_plugins)
        self.mcp_sources = McpSources(
            self._build_mcp_servers,
            self._fresh_config,
            home=home,
            cwd=self.cwd,
            uses_project=self.options.use_enabled_plugins,
        )
        self.services = Services(
            self.runtime,
            cwd=self.cwd,
            platform=self.options.platform,
            fresh_config=self._fresh_config,
        )
        self.services.schedules = self._plugin_jobs
        self.services.new_session, self.services.resume_session = self.new_session, self.resume_session
        #: Notices for the user, one line each.
        self.notices = self._load_extensions()

    def _load_extensions(self) -> list[str]:
        """Load the plugins and what they provide, hook commands and MCP servers. Returns the notices of the start."""
        self.plugins = PluginSet(self.hooks)
        try:
            self.plugins = self._load_plugins()
            self.models.use_plugins(self.plugins)
            self.runtime.prompt_sections.update(self.plugins.prompt_sections)
            notices = [
                *self.runtime.memory.use_provider(self.plugins, self.tools, self.hooks.loop),
                *self.runtime.contexts.choose(self.plugins, self.tools, self.hooks),
                *self._load_shell_hooks(),
                *self.mcp_sources.load(self.config),
                *(self.mcp_sources.add(servers) if (servers := self.plugins.mcp_servers) else ()),
            ]
        except BaseException:
            self.plugins.close()
            self.hooks.close()
            raise
        notices = [*self._missing_plugins(), *notices, *self.models.keys.notices]
        if self._journal_notice:
            notices.insert(0, self._journal_notice)
            log.warning("%s", self._journal_notice)
        if self.options.platform in SERVED_PLATFORMS and (sandbox := self.confinements.start_line()):
            notices.append(sandbox)
        return notices

    def _open_journal(self) -> None:
        if self.options.journal is None:
            self.store = open_store(self.home, self.config.journal)
        else:
            self.store = open_store(self.options.journal, is_scratch=True)
        self._journal_notice = self.store.notice()
        self.runner = self.store.new_runner()
        self.sessions = Sessions(self.store)
        self.search = self.store.search_index()
        self.guard = FileGuard(self.home)
        self.guard.protect(*self.store.files(), *self.search.files())

    def _session_began(self, session_id: str) -> float:
        try:
            return self.sessions.get(session_id).created_at
        except SessionNotFound:
            return self._began

    def _build_runtime(self) -> Runtime:
        config, limits, sessions = self.config, ToolLimits.of(self.config), self.open_sessions
        self.confinements = Confinements(
            config.terminal,
            self.redactor,
            hermes_home=self.home,
            is_attended=not self.options.unattended,
            hides_memory=self.options.hide_memory,
        )
        self.tools = ToolRegistry()
        self.approvals = self._build_approvals()
        runtime = Runtime(
            home=self.home,
            config=config,
            store=self.store,
            runner=self.runner,
            search=self.search,
            hooks=self.hooks,
            workers=self.workers,
            redactor=self.redactor,
            models=self.models,
            tools=self.tools,
            limits=limits,
            processes=ProcessTable(),
            guard=self.guard,
            confinements=self.confinements,
            approvals=self.approvals,
            responders=self.responders,
            open_sessions=sessions,
            contexts=Contexts(config, self.models, self.side, self.workers, sessions.messages),
            memory=Memory(self.home, config.memory, self.redactor, self.workers),
            images=ImageMaker(
                self.home,
                config.image_gen,
                lambda: self.plugins,
                self.workers,
                allow_private=config.security.allow_private_urls,
            ),
            vision=Vision(self.models, self.side, self.store),
            web=WebProviders(
                config.web,
                lambda: self.plugins,
                self.workers,
                self.hooks.loop,
                lambda: self.models.driver.http,
                allow_private=config.security.allow_private_urls,
            ),
            skills=Skills(self.home, config.skills, lambda: self.plugins.skills),
            prompt_files=PromptFiles(self.home),
            checkpoints=CheckpointPort(self.home, config.checkpoints, self.guard.protect)
            if config.checkpoints.enabled
            else None,
            environment=self._describe_environment,
            inputs=self.options.inputs,
            seal=self._sealing(),
        )
        self._add_tools(runtime)
        return runtime

    def _add_tools(self, runtime: Runtime) -> None:
        can_leave = self.confinements.can_leave(Scope(platform=self.options.platform))
        named = [] if self.options.platform in SERVED_PLATFORMS else runtime.prompt_files.usable("agents", self.cwd)
        self.tools.add_builtin(builtin_tools(runtime.limits, can_leave_sandbox=can_leave))
        self.tools.add_builtin((*agent_tools(runtime, named), *self._schedule_tools(runtime)))
        for tool in self.options.tools:
            self.tools.add(tool)

    def _build_approvals(self) -> Approvals:
        rules = ApprovalRules(self.config)
        return Approvals(
            rules,
            home=self.home,
            responders=self.responders,
            hooks=self.hooks,
            questions=Questions(self.store),
            redactor=self.redactor,
            model=ModelApproval(self.side, self.open_sessions.endpoints, self.redactor),
            modes=SessionModes(
                UNASKED_MODE if self.options.allow_everything else rules.permission_mode,
                chosen=None if self.options.allow_everything else self.options.permission_mode,
                store=self.sessions.set_mode,
            ),
            started_at=self._session_began,
            always_asks=self.open_sessions.uses_embedded_model,
            said=self.sessions.said,
            is_sandboxed=self.confinements.is_sandboxed,
        )

    def _sealing(self) -> Callable[[str], None] | None:
        """Seals sessions with the configured key. A journal that is thrown away is not worth it."""
        if not self.config.audit.seal_key or self.options.journal is not None:
            return None
        from hermes.trace.seals import TurnSealer  # few homes seal

        return TurnSealer(self.store, self.home, Path(self.config.audit.seal_key).expanduser()).seal

    def _schedule_tools(self, runtime: Runtime) -> list[Tool]:
        if not self.config.cron.tool:
            return []
        from hermes.service.schedules.tool import cronjob_tool  # most configurations do not offer it

        return [cronjob_tool(runtime)]

    def _plugin_jobs(self) -> PluginJobs:
        from hermes.service.schedules.plugin_jobs import PluginJobs  # few plugins make schedules

        return PluginJobs(self.store, self.home, self.config, self.cwd)

    def _describe_environment(self) -> dict[str, Any]:
        """What turns run with; made once, when everything is loaded."""
        if self._environment is None:
            self._environment = {
                "hermes": __version__,
                "plugins": {plugin.manifest.key: plugin.manifest.version for plugin in self.plugins.loaded},
                "config_sha256": config_digest(self.config),
                "settings": self.redactor.mask_data(changed_settings(self.config)),
                "options": self.options.recorded(),
            }
        return self._environment

    # -- sessions -----------------------------------------------------------------------------------------------

    def new_session(
        self, *, principal: str = "", cwd: Path | None = None, platform: str = "", session_id: str = ""
    ) -> Session:
        """A conversation that starts here and now. It is stored from its first message on.

        ``principal`` is the caller it belongs to; empty is the owner of the home. ``platform`` is the surface; empty
        is that of the host. ``session_id`` names one that does not exist yet.
        """
        return self._open_session(
            session_id or new_session_id(), cwd or self.cwd, principal=principal, platform=platform
        )

    def resume_session(self, session_id: str, *, cwd: Path | None = None, platform: str = "") -> Session:
        """The conversation with that id (or a unique beginning of it), in ``cwd`` or where it was started.

        ``platform`` is the surface that it continues at; empty is that of the host.
        """
        row = self.sessions.head(session_id)
        already = self.open_sessions.get(row.id)
        if already is not None:
            return already
        cwd = cwd or Path(row.cwd)
        if not cwd.is_dir():
            raise HermesError(
                f"session {row.id} worked in {cwd}, which is gone; make that directory again, or start a new session"
            )
        self.approvals.modes.resume(row.id, row.mode)
        history = self.sessions.context(row.id) if row.has_events else []
        return self._open_session(row.id, cwd, history, principal=row.principal, platform=platform)

    def _open_session(
        self,
        session_id: str,
        cwd: Path,
        history: list[Message] | None = None,
        *,
        principal: str = "",
        platform: str = "",
    ) -> Session:
        platform = platform or self.options.platform
        session = Session(
            self.runtime,
            session_id,
            models=self._models(),
            offered=self.tools_for(cwd, principal, platform),
            max_steps=self.options.max_turns or self.config.agent.max_turns,
            cwd=cwd,
            platform=platform,
            principal=principal,
            history=history,
            is_new=history is None,
        )
        return self.open_sessions.add(session)

    def tools_for(self, cwd: Path, principal: str, platform: str = "") -> list[Tool]:
        """The tools that a session in ``cwd`` offers. Those for skills are left out where there is no skill."""
        offered = self.offered_tools(platform, principal)
        tools = [tool for tool in offered if not self.runtime.memory.is_closed_to(principal, tool)]
        if self.config.cron.tool:
            from hermes.service.schedules.tool import TOOL, is_open_to

            tools = [tool for tool in tools if tool.name != TOOL or is_open_to(self.config.cron, platform, principal)]
        if any(tool.name in SKILL_TOOLS for tool in tools) and not self.runtime.skills.usable(cwd, principal):
            tools = [tool for tool in tools if tool.name not in SKILL_TOOLS]
        return tools

    def branch_session(self, session: Session, title: str = "") -> Session:
        """A new conversation that begins as a copy of ``session``, with the same models and tools."""
        from hermes.journal.history.branching import branch_session

        new_id = new_session_id()
        branch_session(self.store, self.runner, session.id, new_id, title)
        branch = self.resume_session(new_id)
        branch.models, branch.offered = session.models, session.offered
        return branch

    def latest_session(self) -> Session:
        """The conversation used last, in this directory if there is one."""
        return self.resume_session(self.sessions.to_continue(str(self.cwd)))

    def offered_tools(self, platform: str = "", principal: str = "") -> list[Tool]:
        """The tools that a new session at a platform offers to its model; empty is that of the host, and the owner."""
        config, options = self.config, self.options
        toolsets = options.toolsets
        if toolsets is None:
            named = config.platform_toolsets.get(platform or options.platform) or config.toolsets
            toolsets = [*named, *self._toolsets_set_up()]
        if self.mcp is not None and (options.allowed_tools is not None or options.toolsets is not None):
            self.mcp.settle()  # what is named has to be known
        names = [*toolsets, *self.runtime.contexts.toolsets, *(tool.toolset for tool in options.tools)]
        tools = select_tools(self.tools, names, config.agent.disabled_toolsets, is_owner=not principal)
        return tools if options.allowed_tools is None else only_allowed(tools, options.allowed_tools)

    def _toolsets_set_up(self) -> list[str]:
        """Toolsets that are offered because the user set up what they need."""
        vision = self.config.auxiliary.task("vision")
        return [*self.runtime.web.toolsets, *(["vision"] if vision.model or vision.base_url else [])]

    def _conversation_models(self) -> ModelRuntime:
        return self.models.conversation(provider=self.options.provider, model=self.options.model)

    def _models(self) -> ModelRuntime:
        models = self._conversation_models()
        if self.models.uses_embedded_default and is_embedded(models.endpoints[0]) and NOTICE not in self.notices:
            self.notices.append(NOTICE)
            log.warning("%s", NOTICE)
        return models

    def _load_plugins(self) -> PluginSet:
        return load_plugins(
            home=self.home,
            plugins_config=self.config.plugins,
            tools=self.tools,
            hooks=self.hooks,
            services=self.services,
            extra=self.options.plugins,
            objects=self.options.plugin_objects,
            use_enabled=self.options.use_enabled_plugins,
            is_gateway=self.options.platform == "gateway",
            selected=[
                self.config.memory.provider.strip(),
                self.config.cron.provider.strip(),
                self.runtime.contexts.wanted,
                *self.models.names_for_plugins(self.options.provider),
                *self.options.platforms,
            ],
            cwd=self.cwd,
        )

    def _missing_plugins(self) -> list[str]:
        uses_enabled = self.options.use_enabled_plugins and not is_set("HERMES_SAFE_MODE", self._env)
        return self.plugins.missing(self.config.plugins.enabled if uses_enabled else (), self.redactor.redact)

    def _load_shell_hooks(self) -> list[str]:
        events = self.config.hooks.events
        if not events:
            return []
        from hermes.plugins.shell_hooks.load import load_shell_hooks  # few configurations have any

        return load_shell_hooks(
            events,
            home=self.home,
            hooks=self.hooks,
            cwd=self.cwd,
            cwd_of=self._cwd_of,
            confinements=self.confinements,
            supervisor=self.runtime.processes.supervisor,
            accept=self.options.accept_hooks
            or self.config.hooks_auto_accept
            or is_set("HERMES_ACCEPT_HOOKS", self._env),
            ask=self.options.ask_consent,
        )

    def _cwd_of(self, session_id: str) -> Path:
        """The directory of a session; a resumed one may be elsewhere than this process."""
        session = self.open_sessions.get(session_id)
        return self.cwd if session is None else session.cwd

    # -- MCP ----------------------------------------------------------------------------------------------------

    @property
    def mcp(self) -> McpServers | None:
        """The MCP servers; None while there are none."""
        return self.mcp_sources.servers

    def _build_mcp_servers(self, config: Config) -> McpServers:
        from hermes.service.mcp.environment import ClientEnvironment
        from hermes.service.mcp.servers import McpServers

        environment = ClientEnvironment(
            home=self.home,
            cwd=self.cwd,
            environ=self._env,
            redactor=self.redactor,
            confinements=self.confinements,
            supervisor=self.runtime.processes.supervisor,
            responders=self.responders,
            make_sampling=self._make_sampling,
        )
        follows_config = self.config.mcp.auto_reload_on_config_change
        self.tools.settle = lambda: self.mcp_sources.settle(follows_config=follows_config)
        return McpServers(
            environment,
            self.tools,
            discovery_timeout=config.mcp_discovery_timeout,
            on_change=self._offer_changed_tools,
        )

    def _make_sampling(self) -> SamplingModels:
        from hermes.service.mcp.callbacks.sampling import SamplingModels  # few servers ask models

        return SamplingModels(self.runtime, self._fresh_config)

    def _offer_changed_tools(self) -> None:
        """Bring the tools of open sessions up to date after the registry has changed."""
        for session in self.open_sessions:
            if session.parent is not None:
                continue
            try:
                wanted = self.offered_tools(session.platform, session.principal)
            except HermesError as error:
                log.warning("tools that came late are not offered: %s", error)
                wanted = []
            session.renew_tools(wanted)

    # -- life ---------------------------------------------------------------------------------------------------

    def close(self, reason: str = "shutdown") -> None:
        """End every session, then the parts, in the order of their dependencies."""
        for session in self.open_sessions:
            session.close(reason)
        if self.runtime.memory.provided is not None:
            self.runtime.memory.provided.close()
        self.plugins.close()
        self._record_plugin_counters()
        self.hooks.close()
        self.services.close()
        self.workers.close()
        if self.mcp is not None:
            self.mcp.close()
        self.runtime.processes.close()
        self.confinements.close()
        self.models.close()
        if self.runtime.checkpoints is not None:
            self.runtime.checkpoints.close()
        self.store.close()
        self.runner.close()

    def _record_plugin_counters(self) -> None:
        """Store the counters of the plugins with the session used last. A run never fails because of it."""
        stats = self.hooks.stats()
        if not self.open_sessions or not (
            stats or any(plugin.status in ("loaded", "failed") for plugin in self.plugins)
        ):
            return
        from hermes.plugins.usage import record_usage

        session_id = list(self.open_sessions)[-1].id
        self.open_sessions.clear()  # closing a second time must not count twice
        record_usage(self.store, session_id, self.plugins, stats, self.redactor.redact)

    def __enter__(self) -> Host:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()
