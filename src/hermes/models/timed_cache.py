"""A cache file of a home: what servers told, each answer believed for ten minutes."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from hermes.base.config.files import write_atomically
from hermes.base.errors import ConfigError

#: Seconds for which an answer is believed: a server may be started anew with other models.
LIFETIME = 600.0

T = TypeVar("T")


class TimedCache(Generic[T]):
    """Answers by key. A file that is damaged or cannot be written is as good as none."""

    def __init__(self, home: Path, name: str, kind: type[T]) -> None:
        self._path = home / "cache" / name
        self._decoder = msgspec.json.Decoder(dict[str, tuple[float, kind]])

    def get(self, key: str) -> T | None:
        """An answer that is still believed."""
        found = self._fresh().get(key)
        return None if found is None else found[1]

    def keep(self, key: str, answer: T) -> None:
        """Remember an answer. Those that are out of date go."""
        entries = {**self._fresh(), key: (time.time(), answer)}
        with contextlib.suppress(OSError, ConfigError):
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_atomically(self._path, msgspec.json.encode(entries).decode())

    def _fresh(self) -> dict[str, tuple[float, T]]:
        now = time.time()
        try:
            found = self._decoder.decode(self._path.read_bytes())
        except (OSError, msgspec.DecodeError, UnicodeDecodeError):
            return {}
        return {key: entry for key, entry in found.items() if 0 <= now - entry[0] < LIFETIME}
