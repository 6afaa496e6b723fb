"""Settings of an exporter: variables of the environment under each of their names first, then the configuration."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

log = logging.getLogger(__name__)

_TRUE = frozenset({"1", "true", "yes", "on"})
_FALSE = frozenset({"0", "false", "no", "off"})


class ExporterVariables:
    """Finds the settings of one exporter. What cannot be read is a warning, and the default is used."""

    def __init__(self, env: Mapping[str, str], prefixes: tuple[str, ...], entries: Mapping[str, Any] | None = None):
        """``prefixes`` of the variables, the most important first; ``entries`` are those of the configuration."""
        self._env = env
        self._prefixes = prefixes
        self._entries = entries or {}

    def value(self, *names: str) -> Any:
        """A setting in whatever form it has, by the first of its names that is set; ``None`` when none is."""
        for prefix in self._prefixes:
            for name in names:
                if found := self._env.get(f"{prefix}{name.upper()}", "").strip():
                    return found
        return next((self._entries[name] for name in names if self._entries.get(name) is not None), None)

    def text(self, *names: str) -> str:
        """A text; empty when it is not set."""
        value = self.value(*names)
        return "" if value is None else str(value).strip()

    def switch(self, name: str, *, default: bool = False) -> bool:
        """On or off."""
        word = self.text(name).lower()
        if word in _TRUE or word in _FALSE:
            return word in _TRUE
        if word:
            log.warning("%s is %r; allowed: true, false. Using %s", self._shown(name), word, default)
        return default

    def number(self, name: str, default: float, most: float = float("inf")) -> float:
        """A number that is not negative."""
        word = self.text(name)
        try:
            number = float(word) if word else default
        except ValueError:
            number = -1.0
        if 0 <= number <= most:
            return number
        bounds = "from 0 on" if most == float("inf") else f"from 0 to {most:g}"
        log.warning("%s is %r; a number %s is expected. Using %g", self._shown(name), word, bounds, default)
        return default

    def choice(self, name: str, *allowed: str) -> str:
        """One of some words; the first is the default."""
        word = self.text(name).lower()
        if word and word not in allowed:
            log.warning("%s is %r; allowed: %s. Using %s", self._shown(name), word, ", ".join(allowed), allowed[0])
        return word if word in allowed else allowed[0]

    def _shown(self, name: str) -> str:
        return f"{self._prefixes[0]}{name.upper()}"


def public_address(url: str) -> str:
    """The server of an address for people to read, without credentials; empty when it is no http address."""
    try:
        parts = urlsplit(url)
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return ""
    is_address = parts.scheme in ("http", "https") and parts.hostname
    return f"{parts.scheme}://{parts.hostname}{port}" if is_address else ""
