"""Telegram as a chat platform: a bot that polls for its messages. Needs nothing beyond Hermes itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hermes.gateway.adapter import PlatformConfig

    from .adapter import TelegramAdapter
    from .settings import TelegramSettings

_HINT = "You are chatting on Telegram, mostly with people on a phone. Keep answers short; Markdown is shown formatted."


def _settings(config: PlatformConfig) -> TelegramSettings:
    from .settings import read_settings

    return read_settings(config.extra, config.token)


def _is_valid(config: PlatformConfig) -> bool:
    return bool(_settings(config))


def register(ctx: Any) -> None:
    """Register the platform."""

    def adapter(config: PlatformConfig) -> TelegramAdapter:
        from .adapter import TelegramAdapter

        return TelegramAdapter(config, _settings(config), ctx.http)

    ctx.register_platform(
        "telegram",
        "Telegram",
        adapter,
        check_fn=lambda: True,
        validate_config=_is_valid,
        required_env=["TELEGRAM_BOT_TOKEN"],
        allowed_users_env="TELEGRAM_ALLOWED_USERS",
        max_message_length=4096,
        platform_hint=_HINT,
        emoji="✈️",
    )
