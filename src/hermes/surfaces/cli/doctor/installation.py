"""The installation being checked: its settings as far as they can be read, and the secrets to redact."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar, cast

from hermes.base.config import Config, LoadedConfig, apply_env, load_config, load_env_file
from hermes.base.config.schema.sections import JournalConfig
from hermes.base.config.secrets import home_redactor
from hermes.base.errors import ConfigError
from hermes.base.sanitize import is_secret_key
from hermes.journal.store import schema
from hermes.journal.store.port import Store, open_store
from hermes.surfaces.cli.setup.db import schema_version

T = TypeVar("T")


class Installation:
    """Input of the checks. What cannot be read is kept as an error for the check that reports it."""

    def __init__(self, home: Path, cwd: Path, *, offline: bool = False, fix: bool = False, load: bool = False) -> None:
        self.home = home
        self.cwd = cwd
        self.offline = offline
        self.fix = fix
        self.load = load
        #: The environment as the shell gave it, without what ``.env`` adds.
        self.shell: Mapping[str, str] = dict(os.environ)
        self.env_file: dict[str, str] = {}
        self.env_error: ConfigError | None = None
        self.env_warnings: list[str] = []
        self.loaded: LoadedConfig | None = None
        self.config_error: ConfigError | None = None
        try:
            self.env_file = load_env_file(home, warnings=self.env_warnings)
        except ConfigError as error:
            self.env_error = error
        apply_env(self.env_file)
        try:
            self.loaded = load_config(home)
        except ConfigError as error:
            self.config_error = error
        self.redactor = home_redactor(home)

    @property
    def config(self) -> Config | None:
        """The configuration; ``None`` when it is invalid."""
        return self.loaded.config if self.loaded else None

    @property
    def database(self) -> Path:
        """The journal's file."""
        return self.home / "state.db"

    def settings(self) -> Config:
        """The configuration, for checks that need one. Raises ``InvalidConfig`` without one."""
        if self.loaded is None:
            raise InvalidConfig
        return self.loaded.config

    def key_values(self) -> list[str]:
        """The secrets written into ``config.yaml`` itself, rather than referenced as ``${NAME}``."""
        raw = self.loaded.raw if self.loaded else {}
        return [value for value in _secrets_in(raw) if "${" not in value]

    def journal_version(self) -> int | None:
        """The schema version of the journal, read without migrating it; ``None`` when there is no journal."""
        with closing(self.store()) as store:
            return schema_version(store)

    def from_journal(self, read: Callable[[Store], T], otherwise: T) -> T:
        """What a function reads from a journal with the current schema: reading an older one would migrate it."""
        if self.journal_version() != len(schema.MIGRATIONS):
            return otherwise
        with closing(self.store()) as store:
            return read(store)

    def store(self) -> Store:
        """The journal; the caller closes it."""
        return open_store(self.home, self._journal())

    @property
    def has_shared_journal(self) -> bool:
        """Whether the journal is in a database that several machines share, and not in the home."""
        return bool(self._journal().url)

    def _journal(self) -> JournalConfig:
        return self.config.journal if self.config else JournalConfig()


class InvalidConfig(Exception):
    """The configuration is invalid, so there is nothing to check."""


def _secrets_in(value: Any, is_secret: bool = False) -> Iterator[str]:
    if isinstance(value, dict):
        for name, item in cast("dict[object, Any]", value).items():
            yield from _secrets_in(item, is_secret or is_secret_key(str(name)))
    elif isinstance(value, list):
        for item in cast("list[Any]", value):
            yield from _secrets_in(item, is_secret)
    elif is_secret and isinstance(value, str | int) and not isinstance(value, bool) and value != "":
        yield str(value)
