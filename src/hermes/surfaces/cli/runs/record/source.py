"""Shared by the commands on recorded runs: a run is a session of the home, or a bundle."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

from hermes.base.config import Config, hermes_home
from hermes.base.config.load import load_config
from hermes.base.errors import HermesError, SessionNotFound
from hermes.journal.store.port import Store
from hermes.record.bundle import is_bundle, open_bundle
from hermes.record.recording import Recording, load_recording
from hermes.record.replay.replay import recorded_config
from hermes.surfaces.cli.runs.trace.session_argument import open_store, session_named


@dataclass(frozen=True, slots=True)
class RunSource:
    """A recorded run: its journal, its id, and whether it comes from a bundle."""

    store: Store
    session_id: str
    is_bundle: bool

    def recording(self) -> Recording:
        """The run as data."""
        return load_recording(self.store, self.session_id)


@contextlib.contextmanager
def open_run(name: str | None) -> Generator[RunSource]:
    """The run with that name: a bundle file, or a session's id or its beginning; without one, the last session."""
    path = Path(name).expanduser() if name else None
    if path is not None and path.is_file() and (is_bundle(path) or path.suffix):
        with open_bundle(path) as (store, session_id):
            yield RunSource(store, session_id, True)
        return
    with open_store() as store:
        yield RunSource(store, session_or_file(store, name, "hermes sessions export ID --bundle FILE"), False)


def session_or_file(store: Store, name: str | None, maker: str) -> str:
    """The full id of a session, by its id or its beginning, where a file would do as well.

    Raises ``HermesError`` about the file when the name is that of one: it has a folder or an ending, which the ids
    that Hermes makes have not. ``maker`` is the command that writes such a file.
    """
    try:
        return session_named(store, name)
    except SessionNotFound:
        path = Path(name or "").expanduser()
        if len(path.parts) < 2 and not path.suffix and not path.exists():
            raise
        problem = "is a folder" if path.is_dir() else "is not such a file" if path.exists() else "does not exist"
        raise HermesError(f"the file {path} {problem}; '{maker}' writes one") from None


def config_for(source: RunSource) -> Config:
    """The settings for a replay: those of a bundle are the ones it was recorded with, those of a session today's."""
    recorded = recorded_config(source.recording()) if source.is_bundle else None
    return recorded or load_config(hermes_home()).config
