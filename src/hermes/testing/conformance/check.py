"""Conformance check of a plugin: runs it against hostile orders of events and reports where it breaks the contract."""

from __future__ import annotations

import gc
import inspect
import logging
import os
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from hermes.base.errors import did_you_mean
from hermes.contract.hooks import HOOKS
from hermes.contract.middleware import MIDDLEWARE
from hermes.hooks.callback import accepted_names
from hermes.hooks.observers import Subscriber
from hermes.hooks.sinks import SinkCallback
from hermes.plugins.registry import LoadedPlugin
from hermes.testing.conformance.clock import Stopwatch
from hermes.testing.conformance.event_orders import EventOrderRunner
from hermes.testing.conformance.guarded_calls import CallGuard, ConformanceLimits, OutOfTime, PluginFunction
from hermes.testing.conformance.host import ConformanceHost, name_of, raised_at, source_line_of
from hermes.testing.conformance.payloads import SampleSession
from hermes.testing.conformance.rules import RULES, ConformanceFinding, ConformanceReport, FindingCollector, SourceLine
from hermes.testing.conformance.tools import check_cli_command, check_command, check_tool
from hermes.testing.harness import manifest_of

__all__ = ["RULES", "ConformanceFinding", "ConformanceLimits", "ConformanceReport", "check_plugin"]

#: Seconds in which a thread that was asked to stop has to end.
_ENDING = 1.0

Plugin = str | Path | Callable[[Any], Any]


def check_plugin(
    plugin: Plugin,
    *,
    settings: Mapping[str, Any] | None = None,
    cwd: Path | None = None,
    limits: ConformanceLimits | None = None,
    run_tools: bool = True,
    on_finding: Callable[[ConformanceFinding], None] | None = None,
    on_call: Callable[[PluginFunction, str], None] | None = None,
) -> ConformanceReport:
    """Check a plugin: its folder, or just a ``register`` function.

    The plugin's code really runs, its tools and commands included unless ``run_tools`` is false; tools work in
    ``cwd``, by default an empty folder. ``settings`` are what ``plugins.entries.<key>`` would hold. Code that hangs
    is left behind on a daemon thread; code that ends the process is for ``check_plugin_in_process``.
    """
    findings = FindingCollector(on_finding)
    guard = CallGuard(findings, limits or ConformanceLimits(), on_call)
    started = perf_counter()
    with TemporaryDirectory(prefix="hermes-conformance-", ignore_cleanup_errors=True) as folder:
        check = ConformanceCheck(plugin, dict(settings or {}), cwd or Path(folder), guard, run_tools)
        with guard.watching_coroutines():
            try:
                check.run()
            except OutOfTime:
                text = f"{guard.limits.budget:g} s were not enough to try everything; calls made: {guard.calls}"
                findings.add("unfinished", text)
            check.finish()
    return ConformanceReport(check.key, findings.list(), guard.calls, round(perf_counter() - started, 3))


class ConformanceCheck:
    """One plugin from loading to leaving."""

    def __init__(self, plugin: Plugin, settings: dict[str, Any], cwd: Path, guard: CallGuard, run_tools: bool) -> None:
        self._plugin = plugin
        self._settings = settings
        self._cwd = cwd
        self._guard = guard
        self._findings = guard.findings
        self._run_tools = run_tools
        self._threads = set(threading.enumerate())
        self._hosts: list[ConformanceHost] = []
        if callable(plugin):
            self.key, start = "plugin", source_line_of(plugin)
        else:
            self.key, start = manifest_of(Path(plugin)).key, SourceLine(str(Path(plugin) / "__init__.py"), 1)
        self._register = PluginFunction("register", plugin if callable(plugin) else _register_stand_in, start)

    def run(self) -> None:
        before = _process_state()
        host = self._load()
        for change in _changes_since(before):
            self._findings.add("global-state", f"loading the plugin changed {change}", self._register.source)
        if host is None:
            return
        registered = host.registered()
        self._check_record(host.plugin)
        self._check_registrations(host)
        subjects = [subject for site in (*HOOKS, *MIDDLEWARE) for subject in self._subjects_at(host, site)]
        for subject in subjects:
            self._check_signature(subject)
        orders = EventOrderRunner(host, subjects, self._guard)
        orders.run_all()
        record = host.plugin
        for name in list(record.tools):
            check_tool(host, self._guard, name, call=self._run_tools)
        for command in list(record.commands.values()):
            check_command(host, self._guard, command, call=self._run_tools)
        for command in list(record.cli_commands.values()):
            check_cli_command(host, self._guard, command)
        self._check_second_host(registered, orders)
        self._check_broken_register(host)

    def finish(self) -> None:
        """Close what was opened, then look at what the plugin leaves behind."""
        self._guard.wait_for_late_calls(self._threads)
        for host in self._hosts:
            self._close(host)
        gc.collect()
        self._guard.check_unawaited(self._register, "complete")
        for thread in set(threading.enumerate()) - self._threads:
            if not thread.daemon and not thread.name.startswith("hermes-") and not _ends(thread):
                text = f"thread {thread.name!r} is not a daemon thread and still runs: the process cannot end"
                self._findings.add("non-daemon-thread", text, self._register.source)

    def _close(self, host: ConformanceHost) -> None:
        """Close a host, on a thread because callbacks it waits for may hang."""
        closing = threading.Thread(target=host.close, name="hermes-conformance", daemon=True)
        closing.start()
        Stopwatch().join(closing, self._guard.limits.deadline)

    # -- loading ----------------------------------------------------------------------------------------------------

    def _load(self, fail_at: int = 0) -> ConformanceHost | None:
        """A host with the plugin in it, or ``None`` when the plugin cannot be loaded."""

        def load() -> ConformanceHost:
            return ConformanceHost(self._plugin, settings=self._settings, cwd=self._cwd, fail_at=fail_at)

        result = self._guard.call(self._register, "complete", load)
        if not result.finished:
            return None
        if result.error is not None:
            self._guard.failed(self._register, "complete", result.error, "it is not loaded")
            return None
        host: ConformanceHost = result.value
        self._hosts.append(host)
        if host.plugin.status == "failed":
            if not fail_at:
                self._findings.add("load", host.plugin.error, _source_of(host.plugin.failure, self._register.source))
            return None
        return host

    def _check_record(self, record: LoadedPlugin) -> None:
        manifest, source = record.manifest, self._register.source
        if manifest.path is not None:
            source = SourceLine(str(manifest.path / "plugin.yaml"), 1)
        promised = [f"hook {name!r}" for name in manifest.provides_hooks if name not in record.hooks]
        promised += [f"tool {name!r}" for name in manifest.provides_tools if name not in record.tools]
        remarks = [*manifest.remarks, *(f"it promises {what}, which is not registered" for what in promised)]
        for remark in remarks:
            self._findings.add("manifest", f"manifest: {remark}", source)
        for name in manifest.missing_env(os.environ):
            self._findings.add("environment", f"{name} is required and not set", source)
        for problem in record.problems:
            if not problem.startswith("there is no "):
                self._findings.add("refused", problem, self._register.source)

    def _check_registrations(self, host: ConformanceHost) -> None:
        for made in host.watched.registrations:
            if not made.known:
                hint = did_you_mean(str(made.name), (*HOOKS, *MIDDLEWARE), otherwise="")
                text = f"there is no hook or middleware kind {made.name!r}{hint}"
                self._findings.add("unknown-name", text, made.source, site=str(made.name))

    def _subjects_at(self, host: ConformanceHost, site: str) -> list[PluginFunction]:
        made_at = {id(made.function): made.source for made in host.watched.registrations}
        subjects: list[PluginFunction] = []
        for callback in host.watched.callbacks_at(site):
            function = callback.function
            source = source_line_of(function)
            behind = isinstance(callback, Subscriber) and callback.queue is not None
            subjects.append(
                PluginFunction(site, function, source if source.file else made_at[id(function)], callback, behind)
            )
        return subjects

    def _check_signature(self, subject: PluginFunction) -> None:
        """A function that asks for what it never gets fails on every event; one report of that is enough."""
        if isinstance(subject.function, SinkCallback):
            return  # not the plugin's: it names the fields of the event that the sink takes
        fields = (HOOKS.get(subject.site) or MIDDLEWARE[subject.site]).fields
        always = {field.name for field in fields if field.always}
        add = self._findings.add
        try:
            parameters = list(inspect.signature(subject.function, follow_wrapped=False).parameters.values())
        except Exception:
            return  # a callable without a signature is given everything
        for parameter in parameters:
            required = parameter.default is parameter.empty and parameter.kind not in (
                parameter.VAR_POSITIONAL,
                parameter.VAR_KEYWORD,
            )
            by_name = parameter.kind is not parameter.POSITIONAL_ONLY
            if required and not (by_name and parameter.name in always):
                why = f"{subject.site} does not always carry it" if by_name else "fields are passed by name"
                text = f"{subject.label} requires {parameter.name!r}, but {why}; accept **kwargs"
                add("impossible-signature", text, subject.source, site=subject.site)
                subject.given_up = True
                return
        if accepted_names(subject.function) is not None:
            text = f"{subject.label} takes no **kwargs: it works here, but fields added later never reach it"
            add("narrow-signature", text, subject.source, site=subject.site)

    # -- more than one host -----------------------------------------------------------------------------------------

    def _check_second_host(self, first: list[str], orders: EventOrderRunner) -> None:
        second = self._load()
        if second is None:
            self._findings.add("register-differs", "it loads once, but not a second time", self._register.source)
            return
        difference = Counter(first)
        difference.subtract(Counter(second.registered()))
        for what, surplus in sorted(difference.items()):
            if surplus > 0:
                text = f"a second host in the same process got no {what}; registrations must not depend on the first"
                self._findings.add("register-differs", text, self._register.source)
        self._close(second)
        orders.run("second host", SampleSession("s"))

    def _check_broken_register(self, host: ConformanceHost) -> None:
        """Register once more on a host that refuses the last registration: nothing may be left running."""
        count = len(host.watched.registrations)
        if count == 0:
            return
        before = set(threading.enumerate())
        self._load(fail_at=count)
        for thread in set(threading.enumerate()) - before:
            if not thread.name.startswith("hermes-") and not _ends(thread):
                text = f"thread {name_of(thread)} {thread.name!r} still runs after register() had failed"
                self._findings.add("register-residue", text, self._register.source, cause="thread")


# -- the process while a plugin is loaded ------------------------------------------------------------------------------


def _source_of(error: BaseException | None, start: SourceLine) -> SourceLine:
    """The line that kept a plugin from loading; ``start`` where none is known."""
    if isinstance(error, SyntaxError) and error.filename:
        return SourceLine(error.filename, error.lineno or 1)
    found = SourceLine() if error is None else raised_at(error)
    return found if found.file else start


def _process_state() -> dict[str, Any]:
    """What a plugin shares with everything else in the process, by name."""
    return {
        "the working directory": os.getcwd(),  # noqa: PTH109  (compared, never used as a path)
        "the environment": dict(os.environ),
        "sys.path": list(sys.path),
        "sys.stdout or sys.stderr": (sys.stdout, sys.stderr),
        "sys.excepthook or threading.excepthook": (sys.excepthook, threading.excepthook),
        "the handlers of the root logger": list(logging.getLogger().handlers),
    }


def _changes_since(before: dict[str, Any]) -> Iterator[str]:
    """The differences to now, as text."""
    for what, now in _process_state().items():
        if what == "the environment" and now != before[what]:
            variables = {name for name, _ in now.items() ^ before[what].items()}
            yield f"{what} ({', '.join(sorted(variables))})"
        elif now != before[what]:
            yield what


def _ends(thread: threading.Thread) -> bool:
    """Whether a thread is about to end, as one that was asked to stop is."""
    return Stopwatch().join(thread, _ENDING)


def _register_stand_in() -> None:
    """Named in findings about the loading of a folder."""


_register_stand_in.__qualname__ = "register"
