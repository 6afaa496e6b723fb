"""Values that fields of the contract may have, as data: a plugin may rely on there being no others."""

from __future__ import annotations

#: Where an approval is asked: ``surface`` of both approval hooks. ``smart`` is the auxiliary model.
APPROVAL_SURFACES = (
    "cli",
    "gateway",
    "smart",
    "mcp-elicitation",
    "a2a",
    "acp",
    "api",
    "api_server",
    "mcp",
    "web",
)

#: What an approval is answered with: ``choice`` of ``post_approval_response``.
APPROVAL_CHOICES = ("once", "session", "always", "deny", "timeout", "smart_approve", "smart_deny", "smart_unsure")

#: Why a session identity ends: ``reason`` of ``on_session_finalize`` and ``on_session_reset``.
SESSION_END_REASONS = ("shutdown", "session_boundary", "new_session", "session_expired", "cron_complete")


def one_of(values: tuple[str, ...]) -> str:
    """Values in words."""
    named = [f"`{value}`" for value in values]
    return f"{', '.join(named[:-1])} or {named[-1]}"
