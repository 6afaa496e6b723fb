"""Settings of the Telegram platform."""

from __future__ import annotations

import re
from dataclasses import dataclass

from hermes.surfaces.gateway.platforms.settings import PlatformSettings, SettingsReader, number, token, url

DEFAULT_BASE_URL = "https://api.telegram.org"


@dataclass(frozen=True)
class TelegramSettings(PlatformSettings):
    """The bot, and how it behaves in groups."""

    platform = "telegram"

    bot_token: str = token(missing="is not set; get one from @BotFather: hermes config set {variable}")
    base_url: str = url(DEFAULT_BASE_URL)
    #: In groups only what mentions the bot or answers it is a message for us.
    require_mention: bool = True
    poll_seconds: float = number(30, 0, 50)

    @property
    def has_own_server(self) -> bool:
        """Whether the user runs a Bot API server, which may be on a private address."""
        return self.base_url != DEFAULT_BASE_URL

    def check(self, given: SettingsReader) -> None:
        if not re.fullmatch(r"\d+:[\w-]+", self.bot_token):
            raise given.error("bot_token", "does not look like a token of @BotFather (digits, a colon, letters)")
