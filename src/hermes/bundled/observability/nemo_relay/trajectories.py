"""Writes the trajectory of each session, at the end of every turn and when the session ends."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from hermes.base.sanitize import Redactor
from hermes.trace.collector import Collector
from hermes.trace.formats.atif import document, write_trajectory
from hermes.trace.health import ExporterHealth
from hermes.trace.records import SessionRecord, family

from .runtime_exporters import RuntimeExporters
from .settings import AtifFiles

#: A document is made anew each time; for so many times as long as that took, it is left as it is.
_REST = 20.0

log = logging.getLogger("hermes.plugins.nemo_relay")


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
