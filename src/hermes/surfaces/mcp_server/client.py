"""The client of the MCP server: for whom a request works, and what it may do."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hermes.base.config.principals import default_workspace
from hermes.base.config.schema.sections import PrincipalScope

#: Answering approvals has to be granted: who asks for something does not approve it.
DEFAULT_SCOPES: frozenset[PrincipalScope] = frozenset(("send", "read", "cancel"))


@dataclass(frozen=True, slots=True)
class ServedClient:
    """A client. Over stdio it was started by the owner of the home and works as the owner."""

    #: The name of the principal; empty is the owner of the home.
    principal: str = ""
    scopes: frozenset[PrincipalScope] = DEFAULT_SCOPES
    workspace: str = ""

    @property
    def may_approve(self) -> bool:
        """Whether it may answer approvals."""
        return "approve" in self.scopes

    def folder(self, home: Path) -> Path | None:
        """The folder that its sessions work in; None is that of the server."""
        if not self.principal:
            return None
        folder = Path(self.workspace).expanduser() if self.workspace else default_workspace(home, self.principal)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return folder
