"""Webhooks as a platform: signed requests of other programs become turns. Needs the extra ``gateway``."""

from __future__ import annotations

from typing import Any

_HINT = (
    "The message was made from a webhook: another program sent it, and no person is there to answer questions. "
    "Do what the instructions say and end with a short report."
)


def register(ctx: Any) -> None:
    """Register the platform."""
    from hermes.surfaces.gateway.platforms.registration import register_platform

    register_platform(
        ctx,
        __name__,
        adapter="WebhookAdapter",
        settings="WebhookSettings",
        needs=("starlette", "uvicorn"),
        name="webhook",
        label="Webhook",
        required_env=[],
        platform_hint=_HINT,
        emoji="🪝",
    )
