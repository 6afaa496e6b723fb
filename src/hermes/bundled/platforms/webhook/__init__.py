"""Webhooks as a platform: signed requests of other programs become turns. Needs the extra ``gateway``."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hermes.gateway.adapter import PlatformConfig

    from .adapter import WebhookAdapter

_HINT = (
    "The message was made from a webhook: another program sent it, and no person is there to answer questions. "
    "Do what the instructions say and end with a short report."
)


def _adapter(config: PlatformConfig) -> WebhookAdapter:
    from .adapter import WebhookAdapter
    from .routes import read_settings

    return WebhookAdapter(config, read_settings(config.extra))


def _is_valid(config: PlatformConfig) -> bool:
    from .routes import read_settings

    return bool(read_settings(config.extra))


def register(ctx: Any) -> None:
    """Register the platform."""
    ctx.register_platform(
        "webhook",
        "Webhook",
        _adapter,
        check_fn=lambda: find_spec("uvicorn") is not None and find_spec("starlette") is not None,
        validate_config=_is_valid,
        required_env=[],
        install_hint="hermes install gateway",
        platform_hint=_HINT,
        emoji="🪝",
    )
