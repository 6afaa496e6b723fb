"""IRC as a chat platform: TLS, SASL, channels and direct messages. Needs nothing but the standard library."""

from __future__ import annotations

from typing import Any

_HINT = (
    "You are chatting on IRC. Answer in plain text without Markdown, in one or a few short lines: "
    "every line is a message of its own, and long answers take a while to send."
)


def register(ctx: Any) -> None:
    """Register the platform."""
    from hermes.surfaces.gateway.platforms.registration import register_platform

    register_platform(
        ctx,
        __name__,
        adapter="IrcAdapter",
        settings="IrcSettings",
        name="irc",
        label="IRC",
        required_env=[],
        allowed_users_env="IRC_ALLOWED_USERS",
        platform_hint=_HINT,
        emoji="💬",
    )
