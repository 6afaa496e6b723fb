"""Telegram as a chat platform: a bot that polls for its messages. Needs nothing beyond Hermes itself."""

from hermes.surfaces.gateway.platforms.registration import platform_plugin

register = platform_plugin(
    __name__,
    name="telegram",
    label="Telegram",
    emoji="✈️",
    required_env=["TELEGRAM_BOT_TOKEN"],
    allowed_users_env="TELEGRAM_ALLOWED_USERS",
    max_message_length=4096,
    platform_hint="You are chatting on Telegram, mostly with people on a phone. Keep answers short; Markdown is shown "
    "formatted.",
)
