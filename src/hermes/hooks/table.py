"""Hook table: one attribute per hook and middleware kind, ``None`` while it has no subscribers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from threading import RLock
from time import monotonic
from typing import Any

from hermes.base.errors import PluginError, did_you_mean
from hermes.contract import events
from hermes.contract.events import Event
from hermes.contract.hooks import HOOKS
from hermes.contract.middleware import MIDDLEWARE
from hermes.hooks.callback import Callback, CallbackStats
from hermes.hooks.execution_chain import ExecutionChain
from hermes.hooks.observers import Emitter, OnError, Subscriber, check_options
from hermes.hooks.queue import BackgroundQueue, Overflow
from hermes.hooks.request_chain import RequestChain
from hermes.hooks.sinks import DEFAULT_EVENTS, SINK_HOOKS, EventSink, SinkCallback
from hermes.hooks.threads.event_loop import AsyncLoop
from hermes.hooks.threads.runner import CallbackRunner, PluginLimits

log = logging.getLogger("hermes.hooks")

_SITES = (*HOOKS, *MIDDLEWARE)

Snapshot = dict[str, Any]


class Hooks:
    """The hooks and middleware of one host.

    A site without subscribers costs one attribute test::

        emit = hooks.pre_tool_call
        if emit is not None:
            answers = emit(ToolStarted(tool_name=name, args=args, ...))
    """

    __slots__ = (*_SITES, "_lock", "_queues", "loop", "runner")

    on_session_start: Emitter[events.SessionStarted] | None
    on_session_resume: Emitter[events.SessionResumed] | None
    on_session_end: Emitter[events.TurnEnded] | None
    on_session_finalize: Emitter[events.SessionFinalized] | None
    on_session_reset: Emitter[events.SessionReset] | None
    agent_loop_stopped: Emitter[events.LoopStopped] | None
    pre_llm_call: Emitter[events.TurnStarted] | None
    post_llm_call: Emitter[events.TurnAnswered] | None
    transform_llm_output: Emitter[events.AnswerTransform] | None
    pre_verify: Emitter[events.AnswerVerification] | None
    pre_api_request: Emitter[events.AttemptStarted] | None
    post_api_request: Emitter[events.AttemptAnswered] | None
    api_request_error: Emitter[events.AttemptFailed] | None
    transform_api_error_classification: Emitter[events.ErrorClassification] | None
    on_stream_start: Emitter[events.StreamStarted] | None
    on_stream_delta: Emitter[events.StreamDelta] | None
    on_stream_end: Emitter[events.StreamEnded] | None
    on_interim_message: Emitter[events.InterimMessage] | None
    pre_auxiliary_call: Emitter[events.AuxiliaryStarted] | None
    post_auxiliary_call: Emitter[events.AuxiliaryEnded] | None
    pre_tool_call: Emitter[events.ToolStarted] | None
    post_tool_call: Emitter[events.ToolEnded] | None
    transform_tool_result: Emitter[events.ToolEnded] | None
    transform_terminal_output: Emitter[events.TerminalOutputTransform] | None
    pre_approval_request: Emitter[events.ApprovalRequested] | None
    post_approval_response: Emitter[events.ApprovalAnswered] | None
    subagent_start: Emitter[events.ChildStarted] | None
    subagent_stop: Emitter[events.ChildEnded] | None
    pre_gateway_dispatch: Emitter[events.GatewayMessage] | None
    pre_command: Emitter[events.CommandStarted] | None

    llm_request: RequestChain | None
    tool_request: RequestChain | None
    llm_execution: ExecutionChain | None
    tool_execution: ExecutionChain | None

    #: The event loop for plugins' coroutines: async callbacks, tools and commands.
    loop: AsyncLoop
    #: Runs plugins' callbacks on threads of their own.
    runner: CallbackRunner

    def __init__(self, limits: PluginLimits | None = None) -> None:
        self.runner = CallbackRunner(limits)
        self.loop = self.runner.loop
        self._lock = RLock()
        self._queues: dict[str, BackgroundQueue] = {}
        for site in _SITES:
            setattr(self, site, None)

    def subscribe(
        self,
        hook: str,
        plugin: str,
        callback: Callable[..., Any],
        *,
        timeout: float | None = None,
        background: bool = False,
        on_error: OnError | None = None,
        overflow: Overflow = "drop",
        own_thread: bool = True,
    ) -> bool:
        """Add a callback to a hook. False, with a warning, when there is no hook of that name.

        ``timeout``: seconds after which a call is given up; without it, the limit of the configuration. ``background``:
        deliver through the plugin's background queue, in order; return values are then not used.
        ``overflow="block"``: while that queue is full the turn waits for room, instead of the event being dropped.
        ``on_error="deny"``: a ``pre_tool_call`` callback that fails blocks; ``"allow"``: one that is late does not.
        ``own_thread=False`` is for code of the runtime itself, which ends in time.
        """
        if not _known(hook, HOOKS, "hook", plugin):
            return False
        _check_callable(f"register_hook({hook!r}", callback)
        check_options(hook, timeout, background, on_error, overflow)
        runner = self.runner if own_thread else None
        with self._lock:
            queue = self.queue(plugin) if background or HOOKS[hook].is_queued else None
            added = Subscriber(plugin, hook, callback, runner, on_error, timeout, queue, overflow)
            self._set(hook, (*self._callbacks(hook), added))
        return True

    def subscribe_events(
        self,
        plugin: str,
        sink: EventSink,
        *,
        events: Collection[type[Event]] | None = None,
        leave_out: Collection[str] = (),
        **options: Any,
    ) -> list[str]:
        """Give typed events to a sink in place of keywords: those of these types, else all. The hooks it now observes.

        The events of an answer while it streams are for those who name them.

        ``leave_out``: fields that are not built or copied for it, and are empty. The options are ``subscribe``'s.
        """
        _check_callable("register_event_sink(", sink)
        kinds = DEFAULT_EVENTS if events is None else events
        unknown = [getattr(kind, "__name__", str(kind)) for kind in kinds if kind not in SINK_HOOKS]
        if unknown:
            raise PluginError(f"register_event_sink: no hook is emitted with {', '.join(unknown)}")
        for kind in kinds:
            # A sink only observes: it never decides about a call.
            self.subscribe(SINK_HOOKS[kind], plugin, SinkCallback(kind, sink, leave_out), on_error="allow", **options)
        return [SINK_HOOKS[kind] for kind in kinds]

    def add_middleware(self, kind: str, plugin: str, callback: Callable[..., Any]) -> bool:
        """Add a callback to a middleware kind. False, with a warning, when there is no such kind."""
        if not _known(kind, MIDDLEWARE, "middleware kind", plugin):
            return False
        _check_callable(f"register_middleware({kind!r}", callback)
        with self._lock:
            self._set(kind, (*self._callbacks(kind), Callback(plugin, kind, callback, self.runner)))
        return True

    def remove(self, plugin: str) -> None:
        """Take out everything a plugin subscribed to."""
        with self._lock:
            for site in _SITES:
                callbacks = self._callbacks(site)
                kept = tuple(callback for callback in callbacks if callback.plugin != plugin)
                if len(kept) != len(callbacks):
                    self._set(site, kept)
            queue = self._queues.pop(plugin, None)
        if queue is not None:
            queue.close()

    def has(self, name: str) -> bool:
        """Whether the hook or middleware kind has subscribers."""
        return name in _SITES and getattr(self, name) is not None

    def snapshot(self) -> Snapshot:
        """What is subscribed now, for ``restore``."""
        with self._lock:
            return {site: getattr(self, site) for site in _SITES}

    def restore(self, snapshot: Snapshot) -> None:
        """Forget every subscription made since the snapshot."""
        with self._lock:
            for site, value in snapshot.items():
                setattr(self, site, value)

    def stats(self) -> list[CallbackStats]:
        """The statistics of every registration, in the order of the contract."""
        return [callback.stats() for site in _SITES for callback in self._callbacks(site)]

    def queue(self, plugin: str, capacity: int | None = None) -> BackgroundQueue:
        """The background queue of a plugin. ``capacity`` sets how many items may wait in it."""
        with self._lock:
            queue = self._queues.setdefault(plugin, BackgroundQueue(plugin))
            if capacity is not None:
                queue.capacity = capacity
            return queue

    def flush(self, seconds: float = 5.0) -> list[str]:
        """Wait, at most so long in all, for events still queued; the plugins that did not finish."""
        deadline = monotonic() + seconds
        with self._lock:
            queues = list(self._queues.items())
        return [name for name, queue in queues if not queue.flush(max(deadline - monotonic(), 0))]

    def close(self, seconds: float = 5.0) -> None:
        """Deliver what is still queued, within ``seconds`` in all, and end the threads that serve callbacks."""
        deadline = monotonic() + seconds
        with self._lock:
            queues = list(self._queues.values())
            self._queues.clear()
        for queue in queues:  # all of them before the first is closed: one plugin's item may cause events for another
            if not queue.is_late:
                queue.flush(max(deadline - monotonic(), 0))
        for queue in queues:
            queue.close(max(deadline - monotonic(), 0))
        self.runner.close()

    def end_session(self, session_id: str) -> None:
        """End the threads that callbacks had for a session."""
        self.runner.threads.end_session(session_id)

    def _callbacks(self, site: str) -> tuple[Any, ...]:
        holder = getattr(self, site)
        if holder is None:
            return ()
        return holder.subscribers if site in HOOKS else holder.callbacks

    def _set(self, site: str, callbacks: tuple[Any, ...]) -> None:
        spec = MIDDLEWARE.get(site)
        if not callbacks:
            setattr(self, site, None)
        elif spec is None:
            setattr(self, site, _emitter(site, callbacks))
        elif spec.wraps:
            setattr(self, site, ExecutionChain(site, callbacks))
        else:
            setattr(self, site, RequestChain(site, callbacks))


def _emitter(hook: str, subscribers: tuple[Subscriber, ...]) -> Emitter[Any]:
    if not HOOKS[hook].joined:
        return Emitter(hook, subscribers)
    from hermes.hooks.joining import JoiningEmitter  # few plugins follow a stream

    return JoiningEmitter(hook, subscribers)


def _known(name: str, valid: dict[str, Any], noun: str, plugin: str) -> bool:
    if name in valid:
        return True
    hint = did_you_mean(str(name), valid, then="It is ignored")
    log.warning("plugin %r: there is no %s %r%s", plugin, noun, name, hint)
    return False


def _check_callable(call: str, callback: object) -> None:
    if not callable(callback):
        raise PluginError(f"{call}, ...) needs a function, got {type(callback).__name__}")
