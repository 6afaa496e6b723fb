"""Matrix as a chat platform: an account that polls for its messages, in rooms without encryption."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hermes.gateway.adapter import PlatformConfig

    from .adapter import MatrixAdapter
    from .settings import MatrixSettings

_HINT = "You are chatting on Matrix. Markdown is shown formatted."


def _settings(config: PlatformConfig) -> MatrixSettings:
    from .settings import read_settings

    return read_settings(config.extra, config.token)


def _is_valid(config: PlatformConfig) -> bool:
    return bool(_settings(config))


def register(ctx: Any) -> None:
    """Register the platform."""

    def adapter(config: PlatformConfig) -> MatrixAdapter:
        from .adapter import MatrixAdapter

        return MatrixAdapter(config, _settings(config), ctx.http)

    ctx.register_platform(
        "matrix",
        "Matrix",
        adapter,
        check_fn=lambda: True,
        validate_config=_is_valid,
        required_env=["MATRIX_ACCESS_TOKEN"],
        allowed_users_env="MATRIX_ALLOWED_USERS",
        max_message_length=16_000,
        platform_hint=_HINT,
        emoji="🔷",
    )
