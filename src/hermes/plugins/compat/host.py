"""What the compatibility modules read from the host that loaded a plugin."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hermes.config.sections import Config
    from hermes.plugins.context import Parts

Names = dict[str, Any]


def home_of(parts: Parts) -> Path:
    """The host's home; the process's own for a host that keeps none, such as one made for a test."""
    home: object = getattr(parts.services, "home", None)
    if isinstance(home, Path):
        return home
    from hermes.config.home import hermes_home

    return hermes_home()


def config_of(parts: Parts) -> Config | None:
    """The configuration the host was built from, when it has one."""
    from hermes.config.sections import Config

    config: object = getattr(parts.services, "config", None)
    return config if isinstance(config, Config) else None
