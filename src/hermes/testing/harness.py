"""Plugin harness: loads one plugin on the real hooks, tools and HTTP client, without a model or a session."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hermes.base.errors import PluginError, did_you_mean
from hermes.base.http.client import HttpClient
from hermes.base.sanitize import Redactor
from hermes.base.scope import Scope, current_scope
from hermes.contract.hooks import HOOKS
from hermes.hooks.execution_chain import ExecutionChain
from hermes.hooks.observers import Answer, Emitter
from hermes.hooks.request_chain import RequestChain, RequestOutcome
from hermes.hooks.table import Hooks
from hermes.plugins.context import load_one
from hermes.plugins.llm.access import ModelAccess
from hermes.plugins.loading.discovery import manifest_in
from hermes.plugins.loading.manifest import FILE_NAMES, PluginManifest, read_manifest
from hermes.plugins.registry import LoadedPlugin, PluginSet
from hermes.plugins.services import PluginHost
from hermes.tools.builtin import builtin_tools
from hermes.tools.files.guard import FileGuard
from hermes.tools.registry import ToolContext, ToolRegistry
from hermes.tools.terminal.background import ProcessTable

if TYPE_CHECKING:
    from hermes.plugins.http import PluginHttp


class PluginHarness:
    """A host for one plugin: a folder, or just a ``register`` function.

    ::

        with PluginHarness("plugins/my_policy") as harness:
            assert harness.fire("pre_tool_call", tool_name="terminal", args={"command": "ls"}) == []
    """

    def __init__(
        self,
        plugin: str | Path | Callable[[Any], Any],
        *,
        settings: Mapping[str, Any] | None = None,
        cwd: Path | None = None,
        llm: ModelAccess | None = None,
    ) -> None:
        self.hooks = Hooks()
        self.tools = ToolRegistry(builtin_tools())
        self.plugins = PluginSet(self.hooks)
        self.cwd = cwd or Path.cwd()
        #: What the plugin injected into the conversation, as (role, content).
        self.injected: list[tuple[str, str]] = []
        #: Answers what the plugin asks ``ctx.llm``: a ``FakeLlm`` or a ``RecordingLlm``.
        self.model_access = llm
        #: Masks secrets; a test may register some.
        self.redactor = Redactor()
        self._processes = ProcessTable()
        self._http = HttpClient()
        self.plugin = self._load(plugin, dict(settings or {}))

    def _load(self, plugin: str | Path | Callable[[Any], Any], settings: dict[str, Any]) -> LoadedPlugin:
        if not callable(plugin) and manifest_in(Path(plugin)) is None:
            raise PluginError(manifest_of(Path(plugin)).problem)
        record = self._load_record(plugin, settings)
        if record.status == "failed":
            self.close()
            raise PluginError(f"plugin {record.manifest.key!r} cannot be loaded: {record.error}")
        return record

    def _load_record(self, plugin: str | Path | Callable[[Any], Any], settings: dict[str, Any]) -> LoadedPlugin:
        manifest = PluginManifest("plugin", "plugin") if callable(plugin) else manifest_of(Path(plugin))
        record = LoadedPlugin(manifest)
        self.plugins.plugins[manifest.key] = record
        host = PluginHost(self.tools, self.hooks, self, self.plugins, {manifest.key: settings})
        load_one(record, host, plugin if callable(plugin) else None)
        return record

    # -- drive the plugin ---------------------------------------------------------------------------------------

    def fire(self, hook: str, **payload: Any) -> list[Any]:
        """Emit a hook and return the callbacks' answers; one that is always delivered later is waited for."""
        emitter: Emitter[Any] | None = getattr(self.hooks, hook)
        answers: list[Answer] = [] if emitter is None else emitter.invoke(**payload)
        if HOOKS[hook].is_queued:
            self.hooks.flush()
        return [answer.value for answer in answers]

    def rewrite(self, kind: str, payload: dict[str, Any], **context: Any) -> RequestOutcome:
        """Run ``llm_request`` or ``tool_request`` middleware."""
        chain: RequestChain | None = getattr(self.hooks, kind)
        return RequestOutcome(payload, payload, False, []) if chain is None else chain.run(payload, context)

    def execute(self, kind: str, payload: dict[str, Any], base: Callable[[Any], Any], **context: Any) -> Any:
        """Run ``base`` inside ``llm_execution`` or ``tool_execution`` middleware."""
        chain: ExecutionChain | None = getattr(self.hooks, kind)
        return base(payload) if chain is None else chain.run(payload, base, context)

    def call_tool(self, name: str, args: dict[str, Any], *, scope: Scope | None = None, user_task: str = "") -> str:
        """Run a tool, the plugin's or a built-in one, and return its result."""
        tool = self.tools.get(name)
        if tool is None:
            raise PluginError(f"there is no tool {name!r}{did_you_mean(name, sorted(self.tools.all()))}")
        scope = scope or Scope(session_id="test-session", task_id="test-task", turn_id="test-turn")
        token = current_scope.set(scope)
        try:
            return tool.run(args, ToolContext(scope, self.cwd, self._processes, FileGuard(), user_task=user_task))
        finally:
            current_scope.reset(token)

    def run_command(self, name: str, raw_args: str = "") -> Any:
        """Run one of the plugin's slash commands and return what it answers."""
        command = self.plugin.commands[name]
        answer = command.handler(raw_args)
        return self.hooks.loop.run(answer, f"command /{name}") if hasattr(answer, "__await__") else answer

    def close(self) -> None:
        """Unload the plugin, and end its threads and processes."""
        self.plugins.close()
        self.hooks.close()
        self._processes.close()
        self._http.close()

    def __enter__(self) -> PluginHarness:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    # -- what plugins may ask of a host -------------------------------------------------------------------------

    @property
    def profile_name(self) -> str:
        return "default"

    @property
    def http(self) -> PluginHttp:
        """Real requests, to loopback too: that is where the servers of a test are."""
        from hermes.plugins.http import PluginHttp

        return PluginHttp(self._http, allow_private=True)

    def dispatch_tool(self, name: str, args: dict[str, Any], **_kwargs: Any) -> str:
        return self.call_tool(name, args)

    def inject_message(self, content: str, role: str) -> bool:
        self.injected.append((role, content))
        return True

    def llm(self, plugin_id: str) -> ModelAccess:
        if self.model_access is None:
            raise PluginError(f"plugin {plugin_id!r} asked for ctx.llm; give the harness one: llm=FakeLlm('an answer')")
        return self.model_access


def manifest_of(folder: Path) -> PluginManifest:
    """The manifest in a plugin's folder; one that is missing comes back with its ``problem`` filled in."""
    file = manifest_in(folder)
    if file is not None:
        return read_manifest(file, "user")
    problem = f"{folder} is not a plugin: it has no {FILE_NAMES[0]}"
    return PluginManifest(folder.name, folder.name, path=folder, problem=problem)
