"""Exporter of one host: brings events, middleware, the runtime and the trajectories together, and ends all in order."""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hermes.base.sanitize import Redactor
from hermes.contract import events
from hermes.trace.clean import Cleaner
from hermes.trace.collector import Collector
from hermes.trace.formats.atif import document, write_trajectory
from hermes.trace.health import ExporterHealth
from hermes.trace.records import SessionRecord, family
from hermes.trace.tracker import TRACKED

from .loop import RelayLoop
from .managed import ManagedCalls
from .relay import Relay
from .runtime_exporters import PATIENCE_SECONDS, RuntimeExporters
from .sessions import Clock
from .settings import AtifFiles, RelaySettings
from .sink import RelaySink

log = logging.getLogger("hermes.plugins.nemo_relay")

#: A trajectory is made anew each time; for so many times as long as that took, it is left as it is.
_REST = 20.0
#: How many events may wait.
CAPACITY = 10_000
#: Fields that nothing is made from: a whole conversation is long, and is not copied in vain.
_UNUSED = frozenset({"request", "response", "middleware_trace"})
#: Events that a session may be heard of for the first time by, and those that follow upon others.
_BEGINNING = (
    events.SessionStarted,
    events.TurnStarted,
    events.AttemptStarted,
    events.ToolStarted,
    events.ChildStarted,
    events.ApprovalAnswered,  # the first that is heard of a turn that another process left waiting
)
_FOLLOWING = tuple(kind for kind in (*TRACKED, events.SessionReset) if kind not in _BEGINNING)


class HostExporter:
    """Everything one host exports through the runtime."""

    def __init__(self, relay: Relay, settings: RelaySettings, cwd: Path, plugin: str, redactor: Redactor) -> None:
        self._relay = relay
        self._loop = RelayLoop()
        self._clock = Clock()
        self._exporters = RuntimeExporters(relay, settings, cwd, self._loop, plugin)
        self._sink = RelaySink(relay, self._exporters, self._clock, Cleaner(redactor))
        self._trajectories = Trajectories(self._exporters, plugin, self._clock.event_seconds, redactor)
        self._queue: Any = None
        self._lock = threading.Lock()
        #: Sessions that have begun and not ended: as long as there are any, everything stays open.
        self._live: set[str] = set()
        self._is_open = self._is_dead = self._collects = self._is_inline = False

    def join(self, ctx: Any) -> None:
        """Subscribe to what is needed, and to nothing else."""
        exporters = self._exporters
        self._collects = exporters.atif is not None
        if not (exporters.takes_events or self._collects):
            return
        unused = set(_UNUSED)
        unused |= set() if self._collects else {"conversation_history"}
        unused |= set() if exporters.takes_events else {"request_messages"}
        self._queue = ctx.background_queue(CAPACITY)
        # The conversation comes with each request; there is no need for two more copies of it.
        turns = (events.TurnStarted, events.TurnAnswered)
        # The middleware of managed calls has to find the span that a hook announced right before.
        self._is_inline = bool(exporters.managed_mode)
        how = {} if self._is_inline else {"background": True, "overflow": "block"}
        ctx.register_event_sink(self.take, events=turns, leave_out={*unused, "conversation_history"}, **how)
        others = [kind for kind in (*_BEGINNING, *_FOLLOWING) if kind not in (*turns, events.SessionFinalized)]
        ctx.register_event_sink(self.take, events=others, leave_out=unused, **how)
        # With the turn: a program that ends waits here until its files are written.
        ctx.register_event_sink(self.finalize, events=[events.SessionFinalized])
        if self._is_inline:
            calls = ManagedCalls(self._relay, exporters, self._sink, self._loop)
            ctx.register_middleware("llm_execution", calls.run_llm)
            ctx.register_middleware("tool_execution", calls.run_tool)
        disable = weakref.WeakMethod(self.disable)
        os.register_at_fork(after_in_child=lambda: (alive := disable()) and alive())

    # -- events -------------------------------------------------------------------------------------------------

    def take(self, event: events.Event) -> None:
        """Export an event as of the moment when it happened, behind the turn unless calls are managed."""
        session_id: str = getattr(event, "session_id", "")
        if self._is_dead or not session_id:
            return
        at = self._clock.take(None if self._is_inline else self._queue.item_time)
        if not self._is_live(event, session_id):
            return
        with self._clock.as_of(at):
            if self._collects:
                self._trajectories.collector.take(event)
            if self._exporters.takes_events:
                self._sink.take(event)
        if isinstance(event, events.TurnEnded):  # what there is so far survives whatever comes
            self._exporters.flush()
            self._trajectories.snapshot(session_id)

    def finalize(self, event: events.SessionFinalized) -> None:
        """A session is over: its files are written, after the events that are still waiting."""
        session_id = event.session_id
        if self._is_dead or not session_id:
            return
        if self._is_inline:
            self.take(event)
        else:
            self._put(lambda: self.take(event))
        self._put(lambda: self._forget(session_id))
        if self._trajectories.is_root(session_id):
            self._queue.flush(PATIENCE_SECONDS)

    def _put(self, work: Callable[[], None]) -> None:
        self._queue.put(work, overflow="block")

    def _is_live(self, event: events.Event, session_id: str) -> bool:
        """Whether the event is of a session that is open. Late ends of one that is over are ignored."""
        with self._lock:
            if isinstance(event, _FOLLOWING) and session_id not in self._live:
                return False
            self._live.add(session_id)
            if not self._is_open:
                self._is_open = True
                self._exporters.open()
                atexit.register(self.close)
        return True

    def _forget(self, session_id: str) -> None:
        """A session is over: its trajectory is written a last time."""
        self._trajectories.write(session_id)
        with self._lock:
            self._live.discard(session_id)
            if not self._live:
                self._stop()

    def _stop(self) -> None:
        """The last session is over. To be called with the lock held."""
        if self._is_open:
            self._is_open = False
            atexit.unregister(self.close)
            self._exporters.close()

    def close(self) -> None:
        """The process ends with sessions open: what there is of them is kept, within seconds. Never raises."""
        try:
            self._queue.flush(PATIENCE_SECONDS)
            self._is_dead = True
            for session_id in self._trajectories.collector.roots():
                self._trajectories.write(session_id)
            self._sink.close_all()
            with self._lock:
                self._stop()
        except Exception as error:
            log.warning("events may be missing: %s", error)

    def disable(self) -> None:
        """Stay silent in a process that was forked: files, threads and the runtime belong to its parent."""
        self._is_dead = True
        atexit.unregister(self.close)
        self._lock = threading.Lock()
        self._sink.forget()
        self._loop.forget()


class Trajectories:
    """The documents of a host's sessions. Children are in the document of the session a user talks to."""

    def __init__(
        self, exporters: RuntimeExporters, plugin: str, clock: Callable[[], float], redactor: Redactor
    ) -> None:
        self.collector = Collector(redactor, clock)
        self._exporters = exporters
        self._health = ExporterHealth(plugin, "atif")
        self._has_warned = False
        #: When the document of each session may be written again before its end.
        self._not_before: dict[str, float] = {}

    def is_root(self, session_id: str) -> bool:
        """Whether a user talks to the session."""
        return self.collector.root_of(session_id) == session_id

    def write(self, session_id: str) -> None:
        """Write what a session has come to, once and for all, and forget it. Never raises."""
        if self.is_root(session_id):
            self._write(session_id)
            self.collector.forget(session_id)
            self._not_before.pop(session_id, None)

    def snapshot(self, session_id: str) -> None:
        """Write what a session has come to so far, unless that would take up much of the time. Never raises."""
        started = time.monotonic()
        if self.is_root(session_id) and started >= self._not_before.get(session_id, 0.0):
            self._write(session_id)
            now = time.monotonic()
            self._not_before[session_id] = now + _REST * (now - started)

    def _write(self, session_id: str) -> None:
        files, record = self._exporters.atif, self.collector.session(session_id)
        if files is None or record is None or not record.turns:
            return
        self._health.received()
        try:
            files.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            for one in family(record) if files.children_too else (record,):
                self._write_one(one, files)
        except (OSError, ValueError) as error:
            self._health.failed(error)
            if not self._has_warned:
                log.warning("trajectories are not written to %s: %s", files.folder, error)
            self._has_warned = True
        else:
            self._health.sent()

    def _write_one(self, record: SessionRecord, files: AtifFiles) -> None:
        version = {"agent_version": files.agent_version} if files.agent_version else {}
        made = document(record, agent_name=files.agent_name, model_name=files.model_name, **version)
        write_trajectory(files.folder, files.template, made)
