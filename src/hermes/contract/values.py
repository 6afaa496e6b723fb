"""Values that fields of the contract may have, as data: a plugin may rely on there being no others."""

from __future__ import annotations

#: The surfaces: what ``platform`` is for each. Under the gateway it is the name of the chat platform, or ``webhook``.
PLATFORMS = {
    "cli": "the terminal: `hermes` and `hermes chat`",
    "embedding": "a Python program: `hermes.Agent`",
    "api_server": "programs that speak OpenAI's API: `hermes api`",
    "a2a": "other agents: `hermes a2a serve`",
    "mcp": "clients of the MCP server: `hermes mcp serve`",
    "acp": "an editor: `hermes acp`",
    "web": "the page: `hermes web`",
    "cron": "schedules",
    "eval": "`hermes eval`",
}

#: Where an approval is asked: ``surface`` of both approval hooks. ``smart`` is the auxiliary model.
APPROVAL_SURFACES = (
    "cli",
    "gateway",
    "smart",
    "mcp-elicitation",
    "a2a",
    "acp",
    "embedding",
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
