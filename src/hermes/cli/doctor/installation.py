"""The installation being checked: its settings as far as they can be read, and the secrets to redact."""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qsl, unquote, urlsplit

from hermes.config import Config, LoadedConfig, apply_env, config_path, env_path, load_config, load_env_file
from hermes.errors import ConfigError
from hermes.journal import database, schema
from hermes.journal.store import Store
from hermes.sanitize import Redactor, is_secret_key

#: A line of a configuration that may not parse as a whole.
_PAIR = re.compile(r"""^[\s\-]*["']?([\w.-]+)["']?\s*[:=]\s*(.+)$""", re.MULTILINE)


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
        self.redactor = Redactor()
        self._read_environment()
        self._read_config()
        self._learn_secrets()

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
        if not self.database.exists():
            return None
        try:
            connection = database.open_reader(self.database)
            try:
                return connection.execute("PRAGMA user_version").fetchone()[0]
            finally:
                connection.close()
        except (sqlite3.Error, OSError) as error:
            raise database.explain(error, self.database) from error

    def has_current_journal(self) -> bool:
        """Whether there is a journal with the current schema: reading an older one would migrate it."""
        return self.journal_version() == len(schema.MIGRATIONS)

    def store(self) -> Store:
        """The journal; the caller closes it."""
        return Store(self.database)

    # -- reading ------------------------------------------------------------------------------------------------

    def _read_environment(self) -> None:
        try:
            self.env_file = load_env_file(self.home, warnings=self.env_warnings)
        except ConfigError as error:
            self.env_error = error
        apply_env(self.env_file)

    def _read_config(self) -> None:
        try:
            self.loaded = load_config(self.home)
        except ConfigError as error:
            self.config_error = error

    def _learn_secrets(self) -> None:
        document = self.loaded.raw if self.loaded else {}
        named = set(_key_variables(document))
        for name, value in os.environ.items():
            if name in named or is_secret_key(name) or name.lower().endswith("key"):
                self._hide(value)
            self._hide(*_secrets_of_address(f"http://{value}" if name.lower().endswith("_proxy") else value))
        self._hide(*_secrets_in(document), *self._written_secrets())

    def _written_secrets(self) -> Iterator[str]:
        """Values that look like secrets in the files, even where these cannot be parsed."""
        for path in (config_path(self.home), env_path(self.home)):
            try:
                text = path.read_bytes()[:1_000_000].decode("utf-8", "replace")
            except OSError:
                continue
            for name, value in _PAIR.findall(text):
                value = value.strip().strip("'\"*&")
                if is_secret_key(name):
                    yield value
                    yield value.partition(" #")[0].rstrip().strip("'\"")
                yield from _secrets_of_address(value)

    def _hide(self, *values: str) -> None:
        for value in values:
            if "${" not in value:  # the name of a variable may be shown
                self.redactor.add_secret(value)
                # In a header such as "Bearer x" the last word alone is secret too.
                self.redactor.add_secret(value.rpartition(" ")[2])


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


def _key_variables(value: Any) -> Iterator[str]:
    """The variables named by ``key_env`` anywhere in the configuration."""
    if isinstance(value, dict):
        for name, item in cast("dict[object, Any]", value).items():
            if name == "key_env" and isinstance(item, str):
                yield item
            else:
                yield from _key_variables(item)
    elif isinstance(value, list):
        for item in cast("list[Any]", value):
            yield from _key_variables(item)


def _secrets_of_address(address: str) -> Iterator[str]:
    """The password and the query values of a URL."""
    if "://" not in address:
        return
    try:
        parts = urlsplit(address)
        password = parts.password or ""
        values = [value for _, value in parse_qsl(parts.query)]
    except ValueError:
        return
    yield from (password, unquote(password), *values)
