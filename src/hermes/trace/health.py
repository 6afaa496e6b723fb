"""Health of exporters: events in, events out, the last error; shown by ``hermes doctor`` and ``hermes plugins list``.

A plugin that sends data elsewhere makes one ``ExporterHealth`` for each place it sends to and counts there. Nothing
else is needed: when the host closes, after the sessions were finalised, it takes the counts and leaves them in the
journal beside the plugin's calls. What is counted later than that is lost, so an exporter flushes in
``on_session_finalize``.
"""

from __future__ import annotations

import threading

from hermes.base.sanitize import redact_text
from hermes.journal.usage.plugins import EXPORT_SITE, PluginCalls

_MAX_ERROR_CHARS = 300

_lock = threading.Lock()
_exporters: list[ExporterHealth] = []


class ExporterHealth:
    """The counters of one exporter. May be used from any thread.

    ``plugin`` is the plugin's key (``ctx.manifest.key``), ``target`` a few words on where it sends to, without
    credentials: ``atof``, ``http://localhost:4318``.
    """

    def __init__(self, plugin: str, target: str) -> None:
        self.plugin = plugin
        self.target = redact_text(target)
        self.last_error = ""
        self.events_in = self.events_out = self.events_failed = 0
        #: What was counted when it was last taken, and the error since.
        self._taken = (0, 0)
        self._new_error = ""
        with _lock:
            _exporters.append(self)

    def received(self, count: int = 1) -> None:
        """Events came in."""
        with _lock:
            self.events_in += count

    def sent(self, count: int = 1) -> None:
        """Events got out."""
        with _lock:
            self.events_out += count

    def failed(self, error: BaseException | str, count: int = 1) -> None:
        """Events were lost, or something else went wrong and none was. The error is kept as one line, redacted."""
        text = error if isinstance(error, str) else f"{type(error).__name__}: {error}"
        with _lock:
            self.events_failed += count
            self.last_error = self._new_error = redact_text(" ".join(text.split()))[:_MAX_ERROR_CHARS]

    def close(self) -> None:
        """Nothing more will be counted here, and what was counted is not shown."""
        with _lock:
            if self in _exporters:
                _exporters.remove(self)

    def _take(self) -> PluginCalls:
        received, failed = self.events_in - self._taken[0], self.events_failed - self._taken[1]
        self._taken = (self.events_in, self.events_failed)
        error, self._new_error = self._new_error, ""
        return PluginCalls(self.plugin, EXPORT_SITE + self.target, received, failed, 0.0, error)


def take() -> list[PluginCalls]:
    """What every exporter counted since this was last asked, for the journal."""
    counted: dict[tuple[str, str], PluginCalls] = {}
    with _lock:
        for exporter in _exporters:
            one = exporter._take()  # pyright: ignore[reportPrivateUsage]
            # The same plugin may send to the same place twice, in two hosts of one process.
            before = counted.get((one.plugin, one.site), PluginCalls(one.plugin, one.site))
            calls, failures = before.calls + one.calls, before.failures + one.failures
            error = one.last_error or before.last_error
            if calls or failures or error:
                counted[one.plugin, one.site] = PluginCalls(one.plugin, one.site, calls, failures, 0.0, error)
    return list(counted.values())
