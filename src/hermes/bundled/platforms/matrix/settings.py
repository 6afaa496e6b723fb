"""Settings of the Matrix platform."""

from __future__ import annotations

from dataclasses import dataclass

from hermes.surfaces.gateway.platforms.settings import PlatformSettings, number, token, url


@dataclass(frozen=True)
class MatrixSettings(PlatformSettings):
    """The account, and how it behaves in rooms."""

    platform = "matrix"

    homeserver: str = url(missing="is not set; give its address, such as https://matrix.example.org")
    access_token: str = token(missing="is not set: hermes config set {variable}")
    #: Users whose invitations are accepted.
    invites_from: tuple[str, ...] = ()
    require_mention: bool = True
    poll_seconds: float = number(30, 0, 120)
