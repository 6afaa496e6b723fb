"""Slack as a chat platform: Socket Mode, or the Events API. Needs the extra ``gateway``."""

from hermes.surfaces.gateway.platforms.registration import platform_plugin

register = platform_plugin(
    __name__,
    name="slack",
    label="Slack",
    emoji="💼",
    needs=("starlette", "uvicorn", "wsproto"),
    required_env=["SLACK_BOT_TOKEN"],
    allowed_users_env="SLACK_ALLOWED_USERS",
    max_message_length=12_000,
    platform_hint="You are chatting on Slack. Markdown is shown formatted. Slash commands are typed with an "
    "exclamation mark there, such as !stop.",
)
