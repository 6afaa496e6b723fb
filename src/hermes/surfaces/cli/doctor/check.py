"""Framework of the doctor's checks: the installation, a check of it, its results, and a runner with a deadline."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar, cast

from msgspec import Struct
from msgspec.structs import replace

from hermes.base.config import Config, LoadedConfig, apply_env, load_config, load_env_file
from hermes.base.config.schema.sections import JournalConfig
from hermes.base.config.secrets import home_redactor
from hermes.base.errors import ConfigError, HermesError
from hermes.base.sanitize import is_secret_key
from hermes.hooks.callback import describe
from hermes.hooks.threads.event_loop import run_with_deadline
from hermes.journal.store import schema
from hermes.journal.store.port import Store, open_store
from hermes.surfaces.cli.setup.db import schema_version
from hermes.surfaces.cli.setup.model.problems import split_advice
from hermes.surfaces.cli.terminal import one_line

T = TypeVar("T")
Status = Literal["ok", "warning", "broken", "skipped"]

#: Time limit of one check, and of all of them together.
CHECK_SECONDS = 10.0
TOTAL_SECONDS = 90.0

_LONGEST_TEXTS = {"what": 60, "detail": 400, "fix": 400, "command": 1000}


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


class CheckResult(Struct, frozen=True):
    """One line of the report."""

    status: Status
    #: What was checked, in a word or two.
    what: str
    detail: str
    #: How to fix it, in a sentence; empty when there is nothing to do or ``command`` says it.
    fix: str = ""
    #: The command that fixes it or shows more.
    command: str = ""
    #: Whether ``--fix`` has just repaired it.
    fixed: bool = False
    #: Whether ``--fix`` would repair it.
    fixable: bool = False


class Check(NamedTuple):
    """One check, with its time limit."""

    what: str
    run: Callable[[Installation], Iterable[CheckResult]]
    seconds: float = CHECK_SECONDS


#: No problem.
ok = partial(CheckResult, "ok")
#: Something that works but needs attention.
warning = partial(CheckResult, "warning")
#: Something that does not work.
broken = partial(CheckResult, "broken")
#: Something that was not checked, and why.
skipped = partial(CheckResult, "skipped")


def size(count: float) -> str:
    """A number of bytes in a readable unit."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            break
        count /= 1000
    return f"{count:.0f} {unit}" if count >= 10 or unit == "bytes" else f"{count:.1f} {unit}"


def run_check(check: Check, installation: Installation, until: float) -> list[CheckResult]:
    """The results of one check, redacted. A check that fails or times out is a result too."""
    results: list[CheckResult] = []
    seconds = min(check.seconds, until - time.monotonic())
    try:
        if seconds > 0:
            run_with_deadline(lambda: results.extend(check.run(installation)), seconds, check.what)
        else:
            results.append(broken(check.what, f"skipped: the checks before took {TOTAL_SECONDS:g} s"))
    except InvalidConfig:
        results.append(skipped(check.what, "skipped: invalid configuration"))
    except TimeoutError:
        results.append(broken(check.what, f"the check did not finish within {seconds:g} s"))
    except HermesError as error:
        results.append(broken(check.what, *split_advice(error)))
    except (Exception, SystemExit) as error:
        advice = "this is a bug in hermes; please report it"
        results.append(broken(check.what, f"the check failed: {describe(error)}", advice))
    # A copy: a check that timed out may still be adding results.
    return [_printable(result, installation) for result in list(results)]


def _printable(result: CheckResult, installation: Installation) -> CheckResult:
    """The result without secrets, line breaks and control characters."""
    texts = {
        name: one_line(installation.redactor.redact(getattr(result, name)), limit)
        for name, limit in _LONGEST_TEXTS.items()
    }
    return replace(result, **texts)
