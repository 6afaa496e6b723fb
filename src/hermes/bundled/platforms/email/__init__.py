"""Email as a chat platform: a mailbox over IMAP with IDLE, answers over SMTP. Needs nothing beyond Hermes itself."""

from __future__ import annotations

from typing import Any

_HINT = (
    "You are answering an email. Write a complete answer, since the reader may see it hours later; "
    "Markdown is shown formatted. Do not repeat the subject or quote the mail."
)


def register(ctx: Any) -> None:
    """Register the platform."""
    from hermes.surfaces.gateway.platforms.registration import register_platform

    register_platform(
        ctx,
        __name__,
        adapter="EmailAdapter",
        settings="EmailSettings",
        name="email",
        label="Email",
        required_env=["EMAIL_PASSWORD"],
        allowed_users_env="EMAIL_ALLOWED_USERS",
        platform_hint=_HINT,
        emoji="✉️",
    )
