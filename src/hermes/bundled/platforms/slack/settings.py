"""Settings of the Slack platform."""

from __future__ import annotations

from dataclasses import dataclass

from hermes.surfaces.gateway.platforms.settings import (
    PlatformSettings,
    SettingsReader,
    choice,
    secret,
    token,
    url,
    whole_number,
)

DEFAULT_BASE_URL = "https://slack.com/api"


@dataclass(frozen=True)
class SlackSettings(PlatformSettings):
    """The app, and how its events arrive."""

    platform = "slack"

    bot_token: str = token()
    #: For Socket Mode.
    app_token: str = secret()
    #: For the Events API.
    signing_secret: str = secret()
    mode: str = choice("socket", "events")
    base_url: str = url(DEFAULT_BASE_URL)
    host: str = "127.0.0.1"
    port: int = whole_number(8645, 0, 65535)
    #: A mention in a channel is answered in a thread.
    reply_in_thread: bool = True

    @property
    def has_own_server(self) -> bool:
        """Whether the requests go to another server than Slack's, which may be on a private address."""
        return self.base_url != DEFAULT_BASE_URL

    def check(self, given: SettingsReader) -> None:
        by_mode = {"app_token": "xapp-"} if self.mode == "socket" else {"signing_secret": ""}
        for name, beginning in {"bot_token": "xoxb-", **by_mode}.items():
            value: str = getattr(self, name)
            if not value:
                raise given.error(name, f"is not set: hermes config set {given.variable(name)}")
            if not value.startswith(beginning):
                raise given.error(name, f"does not begin with {beginning}; it is another kind of token")
