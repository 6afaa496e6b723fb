"""Files of the sign-ins at MCP servers. Needs no SDK."""

from __future__ import annotations

from pathlib import Path

from hermes.service.mcp.tools.names import file_name


def token_file(home: Path, server: str) -> Path:
    """The file with the tokens of a server."""
    return home / "mcp-tokens" / f"{file_name(server)}.json"


def forget_tokens(home: Path, server: str) -> bool:
    """Remove the sign-in at a server. False when there was none."""
    path = token_file(home, server)
    path.with_suffix(".lock").unlink(missing_ok=True)
    if not path.exists():
        return False
    path.unlink()
    return True
