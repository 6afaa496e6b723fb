"""Exporters of the runtime while sessions are open: a file, or the components of a plugins.toml."""

from __future__ import annotations

import itertools
import logging
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from hermes.trace.claims import claim, give_back
from hermes.trace.health import ExporterHealth

from .loop import RelayLoop, bounded
from .plugins_toml import PluginsToml, PluginsTomlError, read_plugins_toml, translated, with_files
from .relay import Relay
from .settings import AtifFiles, AtofFile, RelaySettings
from .tool_ends import ToolEnds

log = logging.getLogger("hermes.plugins.nemo_relay")

#: How long anything that waits for the runtime may take.
PATIENCE_SECONDS = 5.0

#: Names of exporters are the process's, not the host's.
_numbers = itertools.count(1)


class RuntimeExporters:
    """Opens with the first session and closes with the last; whatever opens again continues where it was.

    A plugins.toml that the runtime takes owns the events. Its trajectories, and those of the environment otherwise,
    are written by the plugin itself; ``atif`` says where to.
    """

    def __init__(self, relay: Relay, settings: RelaySettings, cwd: Path, loop: RelayLoop, plugin: str) -> None:
        self._relay = relay
        self._settings = settings
        self._loop = loop
        self._plugin = plugin
        #: The file as the runtime accepts it; ``None`` when there is none that it does.
        self._toml = self._read_toml(cwd)
        self._activation: Any = None
        self._file: Any = None
        self._file_name = f"hermes-{os.getpid()}-{next(_numbers)}"
        self.tool_ends = ToolEnds(relay, self._file_name)
        #: Files that no other process writes to meanwhile.
        self._claimed: list[Path] = []
        self._was_open = False
        self._health: ExporterHealth | None = None
        self._has_warned = False
        #: Why nothing takes the events.
        self._obstacle: Exception | None = None
        #: Events handed over since the last flush.
        self._under_way = 0

    @property
    def atif(self) -> AtifFiles | None:
        """Where trajectories go."""
        return (self._toml.atif if self._toml is not None else None) or self._settings.atif

    @property
    def managed_mode(self) -> str:
        """How calls are run through the runtime; empty when they are not."""
        return self._toml.adaptive_mode if self._toml is not None and self._relay.can_manage else ""

    @property
    def shows_full_requests(self) -> bool:
        """A span that is looked at by itself has to show the whole conversation."""
        return self._settings.full_requests or (self._toml is not None and self._toml.has_endpoints)

    @property
    def takes_events(self) -> bool:
        """Whether anything wants the runtime's events."""
        return self._toml is not None or self._settings.atof is not None

    # -- life ---------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Start to export. What cannot be started is left out, with one line in the log."""
        if self._toml is not None:
            self._initialize(self._toml.document)
        if self.managed_mode:
            self.tool_ends.open()
        if self._toml is None and self._settings.atof is not None:
            self._open_file(self._settings.atof)
        self._was_open = True

    def count(self) -> None:
        """An event was handed to the runtime."""
        self._under_way += 1

    def flush(self) -> None:
        """Wait until what was emitted so far is out. Never raises."""
        count, self._under_way = self._under_way, 0
        if self._health is None:
            return
        self._health.received(count)
        try:
            bounded(self._flush, PATIENCE_SECONDS)
        except Exception as error:
            self._health.failed(error, count)
            if not self._has_warned:
                log.warning("events may be missing: %s", error)
            self._has_warned = True
        else:
            self._health.sent(count)

    def _flush(self) -> None:
        if self._obstacle is not None:
            raise self._obstacle.with_traceback(None)
        self._relay.flush()
        if self._file is not None:
            self._file.force_flush()

    def close(self) -> None:
        """Stop to export. Never raises."""
        self.flush()
        self.tool_ends.close()
        file, self._file = self._file, None
        if file is not None:
            self._attempt("the event file", lambda: self._close_file(file))
        activation, self._activation = self._activation, None
        if activation is not None:
            self._attempt("plugins.toml", lambda: self._deactivate(activation))
        self._give_back()
        self._loop.close()

    def _attempt(self, what: str, close: Any) -> None:
        try:
            bounded(close, PATIENCE_SECONDS)
        except Exception as error:
            log.warning("%s did not close well: %s", what, error)
            if self._health is not None:
                self._health.failed(error, 0)  # what was lost with it was counted by the flush

    # -- files --------------------------------------------------------------------------------------------------

    def _claim(self, folder: Path, filename: str) -> str:
        """The name to write to in a folder; ``OSError`` when that cannot be."""
        if not filename:  # one that the runtime chooses
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            return ""
        path = claim(folder, filename)
        self._claimed.append(path)
        if path.name != filename:
            log.warning("another process writes to %s; events go to %s", folder / filename, path.name)
        return path.name

    def _give_back(self) -> None:
        while self._claimed:
            give_back(self._claimed.pop())

    # -- the file of the environment ----------------------------------------------------------------------------

    def _open_file(self, atof: AtofFile) -> None:
        self._health = self._health or ExporterHealth(self._plugin, "atof")
        self._obstacle = None
        try:
            name = self._claim(atof.folder, atof.filename)
            file = self._relay.atof_exporter(atof.folder, name, overwrite=atof.overwrite and not self._was_open)
            file.register(self._file_name)
        except Exception as error:
            log.warning("no events are written to %s: %s", atof.folder / atof.filename, error)
            self._has_warned, self._obstacle = True, error
            self._give_back()
            return
        self._file = file

    def _close_file(self, file: Any) -> None:
        file.deregister(self._file_name)
        file.shutdown()

    # -- plugins.toml -------------------------------------------------------------------------------------------

    def _read_toml(self, cwd: Path) -> PluginsToml | None:
        path = self._settings.plugins_toml
        if path is None:
            return None
        try:
            toml = read_plugins_toml(path, cwd)
        except PluginsTomlError as error:
            log.warning("%s; the other HERMES_NEMO_RELAY_ settings apply", error)
            return None
        for remark in toml.remarks:
            log.warning("%s", remark)
        return None if self._finds_foreign_file() else self._accepted(toml)

    def _accepted(self, toml: PluginsToml) -> PluginsToml | None:
        """The file with a document that the runtime accepts: as it is written, or else translated."""
        relay, written, errors = self._relay, toml.document, list[str]()
        for document in (written, translated(written, relay.schema)):
            try:
                problems = relay.diagnostics(document)
            except Exception as error:
                problems = [{"level": "error", "message": str(error)}]
            errors = [one["message"] for one in problems if one["level"] == "error"]
            if not errors:
                for one in problems:
                    log.warning("%s: %s", self._settings.plugins_toml, one["message"])
                return replace(toml, document=document)
        self._reject("; ".join(errors))
        return None

    def _finds_foreign_file(self) -> bool:
        """Some releases mix in whatever file lies around where the process runs; a checkout must not decide that."""
        if not self._relay.reads_project_files:
            return False
        here = Path.cwd()
        found = [folder / ".nemo-relay" / "plugins.toml" for folder in (here, *here.parents)]
        foreign = next((path for path in found if path.exists()), None)
        if foreign is not None:
            self._reject(f"nemo-relay {self._relay.version} would also load {foreign}; use 0.8 or later")
        return foreign is not None

    def _initialize(self, document: dict[str, Any]) -> None:
        self._health = self._health or ExporterHealth(self._plugin, "plugins.toml")
        try:
            chosen = with_files(document, self._claim, again=self._was_open)
            self._activation = self._loop.run(self._relay.initialize(chosen), PATIENCE_SECONDS)
        except Exception as error:
            self._give_back()
            self._health.failed(error, 0)
            self._health = self._toml = None
            self._reject(str(error))

    def _deactivate(self, activation: Any) -> None:
        if self._relay.closes_on_loop:
            self._loop.run(self._relay.close_on_loop(activation), PATIENCE_SECONDS)
        else:
            self._relay.clear()

    def _reject(self, reason: str) -> None:
        path = self._settings.plugins_toml
        log.warning("%s is not used: %s; the other HERMES_NEMO_RELAY_ settings apply", path, reason)
