"""Slack as a chat platform: Socket Mode, or the Events API. Needs the extra ``gateway``."""

from __future__ import annotations

from typing import Any

_HINT = (
    "You are chatting on Slack. Markdown is shown formatted. Slash commands are typed with an exclamation mark "
    "there, such as !stop."
)


def register(ctx: Any) -> None:
    """Register the platform."""
    from hermes.surfaces.gateway.platforms.registration import register_platform

    register_platform(
        ctx,
        __name__,
        adapter="SlackAdapter",
        settings="SlackSettings",
        needs=("starlette", "uvicorn", "wsproto"),
        name="slack",
        label="Slack",
        required_env=["SLACK_BOT_TOKEN"],
        allowed_users_env="SLACK_ALLOWED_USERS",
        max_message_length=12_000,
        platform_hint=_HINT,
        emoji="💼",
    )
