"""Email as a chat platform: a mailbox over IMAP with IDLE, answers over SMTP. Needs nothing beyond Hermes itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hermes.gateway.adapter import PlatformConfig

    from .adapter import EmailAdapter

_HINT = (
    "You are answering an email. Write a complete answer, since the reader may see it hours later; "
    "Markdown is shown formatted. Do not repeat the subject or quote the mail."
)


def _adapter(config: PlatformConfig) -> EmailAdapter:
    from .adapter import EmailAdapter
    from .settings import read_settings

    return EmailAdapter(config, read_settings(config.extra))


def _is_valid(config: PlatformConfig) -> bool:
    from .settings import read_settings

    read_settings(config.extra)
    return True


def register(ctx: Any) -> None:
    """Register the platform."""
    ctx.register_platform(
        "email",
        "Email",
        _adapter,
        check_fn=lambda: True,
        validate_config=_is_valid,
        required_env=["EMAIL_PASSWORD"],
        allowed_users_env="EMAIL_ALLOWED_USERS",
        platform_hint=_HINT,
        emoji="✉️",
    )
