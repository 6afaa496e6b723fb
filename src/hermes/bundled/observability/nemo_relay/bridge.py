"""The plugin at work: brings hooks, middleware, the runtime and the files together, and ends all of it in order."""

from __future__ import annotations

import atexit
import inspect
import logging
import os
import threading
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from hermes.contract.hooks import HOOKS
from hermes.trace.clean import Cleaner, knowing

from .exporters import PATIENCE_SECONDS, Exporters
from .loop import RelayLoop
from .middleware import ManagedCalls
from .observer import Fields, Observer
from .relay import Relay
from .sessions import Clock
from .settings import Settings
from .trajectories import Trajectories
from .worker import Worker

log = logging.getLogger("hermes.plugins.nemo_relay")

#: Fields that would be made or copied in vain: what is in them is known from others, and a whole conversation is long.
_LEFT_OUT = {
    "pre_llm_call": ("conversation_history",),
    "post_llm_call": ("conversation_history", "user_message"),
    "pre_api_request": ("request", "middleware_trace"),
    "post_api_request": ("request", "response", "middleware_trace"),
    "api_request_error": ("request", "middleware_trace"),
    "pre_tool_call": ("middleware_trace",),
    "post_tool_call": ("middleware_trace",),
}


class Bridge:
    """Everything one host exports through the runtime."""

    def __init__(self, relay: Relay, settings: Settings, cwd: Path, plugin: str) -> None:
        self._relay = relay
        self._loop = RelayLoop()
        self._clock = Clock()
        self._exporters = Exporters(relay, settings, cwd, self._loop, plugin)
        redactor = knowing(os.environ)
        self._clean = Cleaner(redactor)
        self._observer = Observer(relay, self._exporters, self._clock, self._clean)
        self._trajectories = Trajectories(plugin, self._clock.event_seconds, redactor)
        self._worker = Worker()
        self._lock = threading.Lock()
        #: Sessions that have begun and not ended: as long as there are any, everything stays open.
        self._live: set[str] = set()
        self._is_open = self._is_dead = self._collects = self._is_inline = False

    def join(self, ctx: Any) -> None:
        """Subscribe to what is needed, and to nothing else."""
        exporters = self._exporters
        self._collects = exporters.atif is not None
        unused = [] if self._collects else ["conversation_history"]
        unused += [] if exporters.takes_events else ["request_messages"]
        if not (exporters.takes_events or self._collects):
            return
        for hook in sorted(BEGINNING | FOLLOWING):
            ctx.register_hook(hook, _Callback(hook, self, unused))
        if exporters.managed_mode:
            # The middleware has to find the span that a hook announced right before.
            self._is_inline = True
            calls = ManagedCalls(self._relay, exporters, self._observer, self._loop, self._clean)
            ctx.register_middleware("llm_execution", calls.run_llm)
            ctx.register_middleware("tool_execution", calls.run_tool)
        this: Callable[[], Bridge | None] = weakref.ref(self)
        os.register_at_fork(after_in_child=lambda: _disable(this))

    # -- hooks --------------------------------------------------------------------------------------------------

    def observe(self, hook: str, fields: Fields) -> None:
        """Take in an event. It is exported behind the turn, unless calls are managed."""
        session_id: str = fields.get("session_id") or ""
        if self._is_dead or not session_id:
            return
        at = self._clock.take()
        if self._is_inline:
            self._export(hook, session_id, fields, at)
        else:
            self._worker.put(lambda: self._export(hook, session_id, fields, at))
        if hook == "on_session_end":
            self._worker.put(lambda: self._save(session_id))
        elif hook == "on_session_finalize":
            self._finalize(session_id)

    def _export(self, hook: str, session_id: str, fields: Fields, at: int) -> None:
        """Tell the collector and the runtime of an event, as of the moment when it happened."""
        if not self._is_live(hook, session_id):
            return
        with self._clock.as_of(at):
            if self._collects:
                self._trajectories.collector.handle(hook, fields)
            if self._exporters.takes_events:
                getattr(self._observer, hook)(fields)

    def _is_live(self, hook: str, session_id: str) -> bool:
        """Whether the event is of a session that is under way. Late ends of one that is over say nothing more."""
        with self._lock:
            if hook in FOLLOWING and session_id not in self._live:
                return False
            self._live.add(session_id)
            if not self._is_open:
                self._is_open = True
                self._exporters.open()
                atexit.register(self.close)
        return True

    def _save(self, session_id: str) -> None:
        """A turn is over: what there is so far survives whatever comes."""
        self._exporters.flush()
        files = self._exporters.atif
        if files is not None and self._is_root(session_id):
            self._trajectories.snapshot(session_id, files)

    def _finalize(self, session_id: str) -> None:
        self._worker.put(lambda: self._forget(session_id))
        if self._is_root(session_id):
            self._worker.wait(PATIENCE_SECONDS)
        if not self._live:
            self._worker.finish(PATIENCE_SECONDS)

    def _forget(self, session_id: str) -> None:
        """A session is over: its trajectory is written a last time."""
        self._write(session_id)
        with self._lock:
            self._live.discard(session_id)
            if not self._live:
                self._stop()

    def _write(self, session_id: str) -> None:
        files = self._exporters.atif
        if self._is_root(session_id):
            if files is not None:
                self._trajectories.write(session_id, files)
            else:
                self._trajectories.collector.forget(session_id)

    def _is_root(self, session_id: str) -> bool:
        """Whether a user talks to the session; the documents of others are in one of those."""
        return self._trajectories.collector.root_of(session_id) == session_id

    def _stop(self) -> None:
        """The last session is over. To be called with the lock held."""
        if self._is_open:
            self._is_open = False
            atexit.unregister(self.close)
            self._exporters.close()

    def close(self) -> None:
        """The process ends with sessions open: what there is of them is kept, within seconds. Never raises."""
        self._is_dead = True
        try:
            self._worker.finish(PATIENCE_SECONDS)
            for session_id in self._trajectories.collector.roots():
                self._write(session_id)
            self._observer.close_all()
            with self._lock:
                self._stop()
        except Exception as error:
            log.warning("events may be missing: %s", error)

    def disable(self) -> None:
        """Stay silent in a process that was forked: files, threads and the runtime belong to its parent."""
        self._is_dead = True
        atexit.unregister(self.close)
        self._lock = threading.Lock()
        self._observer.forget()
        self._worker.forget()
        self._loop.forget()


class _Callback:
    """The callback of one hook, which takes its fields but for those that would be copied in vain."""

    def __init__(self, hook: str, owner: Bridge, unused: Sequence[str]) -> None:
        self.owner = owner
        self._hook = hook
        left_out = {*_LEFT_OUT.get(hook, ()), *unused}
        names = [field.name for field in HOOKS[hook].fields if field.name not in left_out]
        self.__signature__ = inspect.Signature(
            [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in names]
        )

    def __call__(self, **fields: Any) -> None:
        self.owner.observe(self._hook, fields)


def _disable(this: Callable[[], Bridge | None]) -> None:
    bridge = this()
    if bridge is not None:
        bridge.disable()


#: Hooks that a session may be heard of for the first time by, and those that follow upon others.
BEGINNING = frozenset({"on_session_start", "pre_llm_call", "pre_api_request", "pre_tool_call", "subagent_start"})
FOLLOWING = frozenset(
    {
        *("on_session_end", "on_session_finalize", "on_session_reset", "post_llm_call", "post_api_request"),
        *("api_request_error", "post_tool_call", "pre_approval_request", "post_approval_response", "subagent_stop"),
    }
)
