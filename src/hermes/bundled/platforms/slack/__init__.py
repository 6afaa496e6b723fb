"""Slack as a chat platform: Socket Mode, or the Events API. Needs the extra ``gateway``."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hermes.gateway.adapter import PlatformConfig

    from .adapter import SlackAdapter
    from .settings import SlackSettings

_HINT = (
    "You are chatting on Slack. Markdown is shown formatted. Slash commands are typed with an exclamation mark "
    "there, such as !stop."
)


def _settings(config: PlatformConfig) -> SlackSettings:
    from .settings import read_settings

    return read_settings(config.extra, config.token)


def _is_valid(config: PlatformConfig) -> bool:
    return bool(_settings(config))


def register(ctx: Any) -> None:
    """Register the platform."""

    def adapter(config: PlatformConfig) -> SlackAdapter:
        from .adapter import SlackAdapter

        return SlackAdapter(config, _settings(config), ctx.http)

    ctx.register_platform(
        "slack",
        "Slack",
        adapter,
        check_fn=lambda: all(find_spec(name) is not None for name in ("starlette", "uvicorn", "wsproto")),
        validate_config=_is_valid,
        required_env=["SLACK_BOT_TOKEN"],
        install_hint="hermes install gateway",
        allowed_users_env="SLACK_ALLOWED_USERS",
        max_message_length=12_000,
        platform_hint=_HINT,
        emoji="💼",
    )
