"""Host for a plugin that is checked: the real hooks and tools, with a record of every registration."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import CodeType, FunctionType, MethodType
from typing import Any, NamedTuple

from hermes.contract.hooks import HOOKS
from hermes.contract.llm import PluginLlmCompleteResult, PluginLlmStructuredResult
from hermes.contract.middleware import MIDDLEWARE
from hermes.hooks.callback import Callback
from hermes.hooks.table import Hooks
from hermes.plugins.registry import LoadedPlugin, PluginSet
from hermes.testing.conformance.rules import SourceLine
from hermes.testing.harness import PluginHarness

_RUNTIME = str(Path(__file__).parents[2])


class Registration(NamedTuple):
    """One call of ``register_hook`` or ``register_middleware``."""

    name: str
    function: object
    #: Where the plugin made the call.
    source: SourceLine
    known: bool


class WatchedHooks(Hooks):
    """Hooks that remember who registered what from which line, and can fail at a chosen registration."""

    __slots__ = ("fail_at", "registrations")

    def __init__(self, fail_at: int = 0) -> None:
        super().__init__()
        self.registrations: list[Registration] = []
        #: The ordinal of the registration that raises; 0 for none.
        self.fail_at = fail_at

    def subscribe(self, hook: str, plugin: str, callback: Callable[..., Any], **options: Any) -> bool:
        self._note(hook, callback, hook in HOOKS)
        return super().subscribe(hook, plugin, callback, **options)

    def add_middleware(self, kind: str, plugin: str, callback: Callable[..., Any]) -> bool:
        self._note(kind, callback, kind in MIDDLEWARE)
        return super().add_middleware(kind, plugin, callback)

    def callbacks_at(self, site: str) -> tuple[Callback, ...]:
        """Everything registered at one hook or kind."""
        holder = getattr(self, site)
        if holder is None:
            return ()
        return holder.subscribers if site in HOOKS else holder.callbacks

    def _note(self, name: str, callback: object, known: bool) -> None:
        self.registrations.append(Registration(name, callback, _caller(), known))
        if len(self.registrations) == self.fail_at:
            raise RuntimeError("the host refuses this registration, to see what register() leaves behind")


class ConformanceHost(PluginHarness):
    """A harness with watched hooks. A plugin that cannot be loaded is no error here: ``plugin`` says why."""

    watched: WatchedHooks

    def __init__(
        self,
        plugin: str | Path | Callable[[Any], Any],
        *,
        settings: dict[str, Any] | None = None,
        cwd: Path | None = None,
        fail_at: int = 0,
    ) -> None:
        self._fail_at = fail_at
        super().__init__(plugin, settings=settings, cwd=cwd)

    def _load(self, plugin: str | Path | Callable[[Any], Any], settings: dict[str, Any]) -> LoadedPlugin:
        self.hooks = self.watched = WatchedHooks(self._fail_at)
        self.plugins = PluginSet(self.hooks)
        self.model_access = CannedModel()
        return self._load_record(plugin, settings)

    def registered(self) -> list[str]:
        """Everything the plugin has registered, sorted."""
        sites = [f"{site} callback" for site in (*HOOKS, *MIDDLEWARE) for _ in self.watched.callbacks_at(site)]
        record = self.plugin
        tools = [f"tool {name}" for name in record.tools]
        commands = [f"command /{name}" for name in record.commands]
        cli = [f"command hermes {name}" for name in record.cli_commands]
        return sorted([*sites, *tools, *commands, *cli])


class CannedModel:
    """Model access that always gives the same answer, so that plugins which ask a model can be exercised."""

    def complete(self, messages: Any = None, **_options: Any) -> PluginLlmCompleteResult:
        """A text answer."""
        return PluginLlmCompleteResult("ok", "custom", "scripted", "default")

    def complete_structured(self, **_options: Any) -> PluginLlmStructuredResult:
        """An answer that is an empty JSON object."""
        return PluginLlmStructuredResult("{}", "custom", "scripted", "default", parsed={}, content_type="json")

    async def acomplete(self, messages: Any = None, **_options: Any) -> PluginLlmCompleteResult:
        """A text answer."""
        return self.complete(messages)

    async def acomplete_structured(self, **_options: Any) -> PluginLlmStructuredResult:
        """An answer that is an empty JSON object."""
        return self.complete_structured()


def source_line_of(function: object) -> SourceLine:
    """The source line of a callable; an empty one when it is not known."""
    code = _code_of(function)
    return SourceLine() if code is None else SourceLine(code.co_filename, code.co_firstlineno)


def name_of(function: object) -> str:
    """A callable's name, for people."""
    while isinstance(function, partial):
        function = function.func
    try:
        name = str(getattr(function, "__qualname__", None) or type(function).__qualname__)
    except Exception:  # an object of the plugin's that does not like to be looked at
        name = type(function).__qualname__
    return name.rpartition("<locals>.")[2]


def plugin_function(function: object) -> object:
    """The plugin's own function behind one of the runtime's wrappers, or the function itself."""
    code = _code_of(function)
    if not isinstance(function, FunctionType) or code is None or not code.co_filename.startswith(_RUNTIME):
        return function
    for cell in function.__closure__ or ():
        inner = cell.cell_contents
        inner_code = _code_of(inner)
        if callable(inner) and inner_code is not None and not inner_code.co_filename.startswith(_RUNTIME):
            return inner
    return function


def raised_at(error: BaseException) -> SourceLine:
    """The line of the plugin that raised, or the line that called what raised."""
    source, traceback = SourceLine(), error.__traceback__
    while traceback is not None:
        file = traceback.tb_frame.f_code.co_filename
        if not file.startswith((_RUNTIME, "<frozen")) and "/lib/python" not in file:
            source = SourceLine(file, traceback.tb_lineno)
        traceback = traceback.tb_next
    return source


def _code_of(function: object) -> CodeType | None:
    while isinstance(function, partial):
        function = function.func
    if isinstance(function, MethodType):
        function = function.__func__
    if not isinstance(function, FunctionType):
        function = getattr(type(function), "__call__", None)  # noqa: B004  (its code is wanted)
    return function.__code__ if isinstance(function, FunctionType) else None


def _caller() -> SourceLine:
    """The nearest line outside the runtime."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_code.co_filename.startswith(_RUNTIME):
        frame = frame.f_back
    return SourceLine() if frame is None else SourceLine(frame.f_code.co_filename, frame.f_lineno)
