"""Callback runner: makes calls of plugins' code on threads of their own, within the time limits of plugins."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from contextvars import copy_context
from threading import get_ident
from typing import Any, cast

from hermes.base.config.schema.sections import PluginsConfig
from hermes.base.errors import Interrupted, TurnSuspended
from hermes.base.scope import current_scope
from hermes.hooks.threads.callback_threads import CallbackThread, CallbackThreads
from hermes.hooks.threads.event_loop import AsyncLoop, late_text
from hermes.hooks.threads.load_call import LoadCall
from hermes.hooks.threads.timed_call import TimedCall, current_call

log = logging.getLogger("hermes.hooks")

#: Exceptions of the runtime's own, which pass through plugins' code. Every other one is the plugin's failure.
OWN_SIGNALS = (Interrupted, TurnSuspended)

#: A value, or the exception in place of it.
CallOutcome = tuple[Any, BaseException | None]


class PluginLimits:
    """The limits of ``plugins`` and, for single plugins, of ``plugins.entries.<key>``. 0 means no limit."""

    def __init__(self, config: PluginsConfig | None = None) -> None:
        self._config = config or PluginsConfig()

    def hook_seconds(self, plugin: str) -> float:
        """How long one call of a callback may take."""
        return self._seconds(plugin, "hook_timeout", self._config.hook_timeout)

    def load_seconds(self, plugin: str) -> float:
        """How long the import of a plugin, and its ``register``, may compute or do nothing."""
        return self._seconds(plugin, "load_timeout", self._config.load_timeout)

    def _seconds(self, plugin: str, name: str, default: float) -> float:
        entry: Any = self._config.entries.get(plugin)
        found: Any = cast("dict[str, Any]", entry).get(name) if isinstance(entry, dict) else None
        if found is not None and (isinstance(found, bool) or not isinstance(found, int | float) or found < 0):
            log.warning(
                "plugins.entries.%s.%s is %r; it must be seconds, or 0 for no limit. Using %g",
                plugin,
                name,
                found,
                default,
            )
            found = None
        return float(default if found is None else found) or float("inf")


class CallLate(TimeoutError):
    """The call took longer than its limit and was given up."""


class CallbackRunner:
    """Runs the callbacks of one host. Thread-safe."""

    __slots__ = ("limits", "loop", "threads")

    def __init__(self, limits: PluginLimits | None = None) -> None:
        self.limits = limits or PluginLimits()
        self.loop = AsyncLoop()
        self.threads = CallbackThreads()

    def run(self, function: Callable[..., Any], given: dict[str, Any], call: TimedCall, session: str) -> CallOutcome:
        """Make a call on the plugin's thread of the session, or here when this is its thread already.

        Raises only what happens to the caller, such as ``Interrupted`` when its turn is cancelled.
        """
        outer = current_call.get()
        if outer is not None and outer.runs_here(call.plugin):
            with outer.own_work():
                return run_here(function, given)
        try:
            thread = self.threads.take(call.plugin, session)
        except RuntimeError:  # the interpreter is shutting down, or the system has no more threads
            return run_here(function, given)
        scope = current_scope.get()
        if not thread.run(function, given, call, copy_context(), None if scope is None else scope.interrupt):
            return None, CallLate(late_text(call.limit))
        value, error = thread.value, thread.error
        thread.value = thread.error = None
        self.threads.give_back(call.plugin, session, thread)
        return value, error

    def wait_for(self, awaitable: Any, call: TimedCall, label: str) -> CallOutcome:
        """Await what a callback returned, on the shared event loop and within what is left of its time."""
        context = copy_context()
        context.run(current_call.set, call)
        value, error = context.run(self.loop.outcome, awaitable, label, call)
        return value, CallLate(str(error)) if call.given_up and isinstance(error, TimeoutError) else error

    def call(
        self, function: Callable[..., Any], given: dict[str, Any], plugin: str, seconds: float, label: str
    ) -> CallOutcome:
        """Make one call of a plugin's code that is no callback, and await what it returns."""
        call = TimedCall(plugin, seconds)
        value, error = self.run(function, given, call, "")
        if error is None and isinstance(value, Awaitable):
            return self.wait_for(value, call, f"{label} of plugin {plugin!r}")
        return value, error

    def load(self, work: Callable[[], Any], plugin: str) -> CallOutcome:
        """Run a step of loading a plugin within its limit, on a thread of its own."""
        call = LoadCall(plugin, self.limits.load_seconds(plugin))
        thread = CallbackThread(f"hermes-load {plugin}")
        scope = current_scope.get()
        if not thread.run(work, {}, call, copy_context(), None if scope is None else scope.interrupt):
            return None, CallLate(call.reason)
        value, error = thread.value, thread.error
        thread.end()
        return value, error

    def close(self) -> None:
        """End the threads that are idle."""
        self.threads.close()
        self.loop.close()


def run_here(function: Callable[..., Any], given: dict[str, Any]) -> CallOutcome:
    """Make a call in this thread."""
    try:
        return function(**given), None
    except KeyboardInterrupt as error:
        call = current_call.get()
        if call is None or call.thread != get_ident():
            raise  # in the main thread it may be the user's
        return None, error
    except BaseException as error:
        return None, error
