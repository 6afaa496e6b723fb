"""Settings of the Matrix platform."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hermes.gateway.platforms.settings import PlatformSettings


@dataclass(frozen=True)
class MatrixSettings:
    """The account, and how it behaves in rooms."""

    homeserver: str
    access_token: str = field(repr=False)
    #: Users whose invitations are accepted.
    invites_from: tuple[str, ...] = ()
    require_mention: bool = True
    poll_seconds: float = 30.0


def read_settings(
    block: Mapping[str, Any] | None, token: str | None = None, env: Mapping[str, str] | None = None
) -> MatrixSettings:
    """The settings, checked. ``token`` is that of the configuration. Raises ``ConfigError``."""
    given = PlatformSettings("matrix", block, env)
    settings = MatrixSettings(
        homeserver=given.url("homeserver"),
        access_token=given.secret("access_token") or (token or "").strip(),
        invites_from=given.names("invites_from"),
        require_mention=given.flag("require_mention", True),
        poll_seconds=given.number("poll_seconds", 30, 0, 120),
    )
    if not settings.homeserver:
        raise given.error("homeserver", "is not set; give its address, such as https://matrix.example.org")
    if not settings.access_token:
        raise given.error("access_token", "is not set: hermes config set MATRIX_ACCESS_TOKEN")
    return settings
