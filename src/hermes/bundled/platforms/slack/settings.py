"""Settings of the Slack platform."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hermes.gateway.platforms.settings import PlatformSettings

DEFAULT_BASE_URL = "https://slack.com/api"


@dataclass(frozen=True)
class SlackSettings:
    """The app, and how its events arrive."""

    bot_token: str = field(repr=False)
    #: For Socket Mode.
    app_token: str = field(default="", repr=False)
    #: For the Events API.
    signing_secret: str = field(default="", repr=False)
    mode: str = "socket"
    base_url: str = DEFAULT_BASE_URL
    host: str = "127.0.0.1"
    port: int = 8645
    #: A mention in a channel is answered in a thread.
    reply_in_thread: bool = True

    @property
    def has_own_server(self) -> bool:
        """Whether the requests go to another server than Slack's, which may be on a private address."""
        return self.base_url != DEFAULT_BASE_URL


def read_settings(
    block: Mapping[str, Any] | None, token: str | None = None, env: Mapping[str, str] | None = None
) -> SlackSettings:
    """The settings, checked. ``token`` is that of the configuration. Raises ``ConfigError``."""
    given = PlatformSettings("slack", block, env)
    settings = SlackSettings(
        bot_token=given.secret("bot_token") or (token or "").strip(),
        app_token=given.secret("app_token"),
        signing_secret=given.secret("signing_secret"),
        mode=given.choice("mode", "socket", "events"),
        base_url=given.url("base_url", DEFAULT_BASE_URL),
        host=given.text("host", "127.0.0.1"),
        port=int(given.number("port", 8645, 0, 65535)),
        reply_in_thread=given.flag("reply_in_thread", True),
    )
    needed = {"bot_token": "xoxb-", **({"app_token": "xapp-"} if settings.mode == "socket" else {"signing_secret": ""})}
    for name, beginning in needed.items():
        value: str = getattr(settings, name)
        if not value:
            raise given.error(name, f"is not set: hermes config set {given.variable(name)}")
        if not value.startswith(beginning):
            raise given.error(name, f"does not begin with {beginning}; it is another kind of token")
    return settings
