"""The configuration as its file has it now, for rules that must count from the moment they are written."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from hermes.config.home import config_path
from hermes.config.load import load_config
from hermes.config.sections import Config

_Stamp = tuple[int, int, int, int]


class FreshConfig:
    """Reads the file again when it has changed since the process read it; asking costs one look at the file."""

    def __init__(self, home: Path, config: Config, env: Mapping[str, str], *, follow: bool = True) -> None:
        """``config`` is what the process began with. Without ``follow``, it stays at that: the file is not used."""
        self._home = home
        self._config = config
        self._env = env
        self._follow = follow
        self._seen = _stamp(home)

    def current(self) -> Config:
        """The configuration. Raises ``ConfigError``, until it is repaired, when the file cannot be used."""
        stamp = _stamp(self._home) if self._follow else self._seen
        if stamp != self._seen:
            self._config = load_config(self._home, environ=self._env).config
            # Taken before the file was read: what was written meanwhile is seen the next time.
            self._seen = stamp
        return self._config


def _stamp(home: Path) -> _Stamp | None:
    """What changes whenever the file does."""
    try:
        found = config_path(home).stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino
