"""Matrix as a chat platform: an account that polls for its messages, in rooms without encryption."""

from hermes.surfaces.gateway.platforms.registration import platform_plugin

register = platform_plugin(
    __name__,
    name="matrix",
    label="Matrix",
    emoji="🔷",
    required_env=["MATRIX_ACCESS_TOKEN"],
    allowed_users_env="MATRIX_ALLOWED_USERS",
    max_message_length=16_000,
    platform_hint="You are chatting on Matrix. Markdown is shown formatted.",
)
