"""IRC as a chat platform: TLS, SASL, channels and direct messages. Needs nothing but the standard library."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hermes.gateway.adapter import PlatformConfig

    from .adapter import IrcAdapter

_HINT = (
    "You are chatting on IRC. Answer in plain text without Markdown, in one or a few short lines: "
    "every line is a message of its own, and long answers take a while to send."
)


def _adapter(config: PlatformConfig) -> IrcAdapter:
    from .adapter import IrcAdapter
    from .settings import read_settings

    return IrcAdapter(config, read_settings(config.extra))


def _is_valid(config: PlatformConfig) -> bool:
    from .settings import read_settings

    read_settings(config.extra)
    return True


def register(ctx: Any) -> None:
    """Register the platform."""
    ctx.register_platform(
        "irc",
        "IRC",
        _adapter,
        check_fn=lambda: True,
        validate_config=_is_valid,
        required_env=[],
        allowed_users_env="IRC_ALLOWED_USERS",
        platform_hint=_HINT,
        emoji="💬",
    )
