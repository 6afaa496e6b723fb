"""Matrix as a chat platform: an account that polls for its messages, in rooms without encryption."""

from __future__ import annotations

from typing import Any

_HINT = "You are chatting on Matrix. Markdown is shown formatted."


def register(ctx: Any) -> None:
    """Register the platform."""
    from hermes.surfaces.gateway.platforms.registration import register_platform

    register_platform(
        ctx,
        __name__,
        adapter="MatrixAdapter",
        settings="MatrixSettings",
        name="matrix",
        label="Matrix",
        required_env=["MATRIX_ACCESS_TOKEN"],
        allowed_users_env="MATRIX_ALLOWED_USERS",
        max_message_length=16_000,
        platform_hint=_HINT,
        emoji="🔷",
    )
