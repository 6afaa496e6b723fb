"""The model providers that plugins bring, for commands that otherwise load no plugins."""

from __future__ import annotations

from pathlib import Path

from hermes.config import Config
from hermes.models.profiles import Profile
from hermes.sanitize import Redactor


def profiles_with_plugins(
    home: Path, config: Config, provider: str = "", redactor: Redactor | None = None
) -> dict[str, Profile]:
    """All providers once the plugins are loaded: the enabled ones, and one that brings a ``provider`` of that name."""
    from hermes.host import Host, HostOptions

    with Host(home, config, HostOptions(provider=provider), redactor=redactor) as host:
        return dict(host.models.profiles)
