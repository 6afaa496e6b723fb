"""Webhooks as a platform: signed requests of other programs become turns. Needs the extra ``gateway``."""

from hermes.surfaces.gateway.platforms.registration import platform_plugin

register = platform_plugin(
    __name__,
    name="webhook",
    label="Webhook",
    emoji="🪝",
    needs=("starlette", "uvicorn"),
    platform_hint="The message was made from a webhook: another program sent it, and no person is there to answer "
    "questions. Do what the instructions say and end with a short report.",
)
