"""The lists of models that servers gave lately, so that a second look costs no request."""

from __future__ import annotations

import contextlib
import hashlib
import time
from pathlib import Path

import msgspec

from hermes.config.files import write_atomically
from hermes.errors import ConfigError
from hermes.models.endpoint import Endpoint

#: Seconds for which a list is believed.
LIFETIME = 600.0


class Listed(msgspec.Struct):
    """What one server listed, and when."""

    at: float
    models: list[str]


class ListedModels:
    """A file of lists by server and key. One that is damaged or cannot be written is as good as none."""

    def __init__(self, home: Path) -> None:
        self._path = home / "cache" / "models.json"

    def get(self, endpoint: Endpoint) -> list[str] | None:
        """The list of a server, if it is fresh."""
        found = self._fresh().get(_place(endpoint))
        return None if found is None else found.models

    def keep(self, endpoint: Endpoint, models: list[str]) -> None:
        """Remember a list. Those that are out of date go."""
        lists = self._fresh()
        lists[_place(endpoint)] = Listed(time.time(), models)
        with contextlib.suppress(OSError, ConfigError):
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_atomically(self._path, msgspec.json.encode(lists).decode())

    def _fresh(self) -> dict[str, Listed]:
        now = time.time()
        try:
            lists = msgspec.json.decode(self._path.read_bytes(), type=dict[str, Listed])
        except (OSError, msgspec.DecodeError, UnicodeDecodeError):
            return {}
        return {place: one for place, one in lists.items() if 0 <= now - one.at < LIFETIME}


def _place(endpoint: Endpoint) -> str:
    """Who is asked by whom, so that nothing can be read from it: accounts may see different models."""
    parts = (endpoint.base_url, endpoint.api_mode, endpoint.api_key, *sorted(endpoint.extra_headers.items()))
    return hashlib.blake2b(repr(parts).encode(), digest_size=16).hexdigest()
