"""Settings of the Telegram platform."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hermes.gateway.platforms.settings import PlatformSettings

DEFAULT_BASE_URL = "https://api.telegram.org"


@dataclass(frozen=True)
class TelegramSettings:
    """The bot, and how it behaves in groups."""

    token: str = field(repr=False)
    base_url: str = DEFAULT_BASE_URL
    #: In groups only what mentions the bot or answers it is a message for us.
    require_mention: bool = True
    poll_seconds: float = 30.0

    @property
    def has_own_server(self) -> bool:
        """Whether the user runs a Bot API server, which may be on a private address."""
        return self.base_url != DEFAULT_BASE_URL


def read_settings(
    block: Mapping[str, Any] | None, token: str | None = None, env: Mapping[str, str] | None = None
) -> TelegramSettings:
    """The settings, checked. ``token`` is that of the configuration. Raises ``ConfigError``."""
    given = PlatformSettings("telegram", block, env)
    settings = TelegramSettings(
        token=given.secret("bot_token") or (token or "").strip(),
        base_url=given.url("base_url", DEFAULT_BASE_URL),
        require_mention=given.flag("require_mention", True),
        poll_seconds=given.number("poll_seconds", 30, 0, 50),
    )
    if not settings.token:
        raise given.error(
            "bot_token", f"is not set; get one from @BotFather: hermes config set {given.variable('bot_token')}"
        )
    if not re.fullmatch(r"\d+:[\w-]+", settings.token):
        raise given.error("bot_token", "does not look like a token of @BotFather (digits, a colon, letters)")
    return settings
