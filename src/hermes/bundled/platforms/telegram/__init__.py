"""Telegram as a chat platform: a bot that polls for its messages. Needs nothing beyond Hermes itself."""

from __future__ import annotations

from typing import Any

_HINT = "You are chatting on Telegram, mostly with people on a phone. Keep answers short; Markdown is shown formatted."


def register(ctx: Any) -> None:
    """Register the platform."""
    from hermes.surfaces.gateway.platforms.registration import register_platform

    register_platform(
        ctx,
        __name__,
        adapter="TelegramAdapter",
        settings="TelegramSettings",
        name="telegram",
        label="Telegram",
        required_env=["TELEGRAM_BOT_TOKEN"],
        allowed_users_env="TELEGRAM_ALLOWED_USERS",
        max_message_length=4096,
        platform_hint=_HINT,
        emoji="✈️",
    )
