"""Email as a chat platform: a mailbox over IMAP with IDLE, answers over SMTP. Needs nothing beyond Hermes itself."""

from hermes.surfaces.gateway.platforms.registration import platform_plugin

register = platform_plugin(
    __name__,
    name="email",
    label="Email",
    emoji="✉️",
    required_env=["EMAIL_PASSWORD"],
    allowed_users_env="EMAIL_ALLOWED_USERS",
    platform_hint="You are answering an email. Write a complete answer, since the reader may see it hours later; "
    "Markdown is shown formatted. Do not repeat the subject or quote the mail.",
)
