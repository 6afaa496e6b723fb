"""IRC as a chat platform: TLS, SASL, channels and direct messages. Needs nothing but the standard library."""

from hermes.surfaces.gateway.platforms.registration import platform_plugin

register = platform_plugin(
    __name__,
    name="irc",
    label="IRC",
    emoji="💬",
    allowed_users_env="IRC_ALLOWED_USERS",
    platform_hint="You are chatting on IRC. Answer in plain text without Markdown, in one or a few short lines: "
    "every line is a message of its own, and long answers take a while to send.",
)
