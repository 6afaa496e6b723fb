"""The environment of the MCP client: what its servers use of the host."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hermes.agent.approvals.responder import Responders
    from hermes.base.sanitize import Redactor
    from hermes.service.mcp.callbacks.sampling import SamplingModels
    from hermes.service.mcp.loop import McpLoop
    from hermes.tools.sandbox.confinement import Confinements
    from hermes.tools.terminal.supervisor import ProcessSupervisor


@dataclass(kw_only=True)
class ClientEnvironment:
    """The parts of a host that all servers share."""

    home: Path
    cwd: Path
    environ: Mapping[str, str]
    redactor: Redactor
    confinements: Confinements
    supervisor: ProcessSupervisor
    #: Users that can be asked, by session; None where there are no sessions.
    responders: Responders | None = None
    #: Makes the answers of models for servers; None where there are no models.
    make_sampling: Callable[[], SamplingModels] | None = None
    #: Shows the address to sign in at; None where no one can sign in.
    show_address: Callable[[str], None] | None = None
    #: When the SDK had been imported, by the monotonic clock; 0 before that.
    sdk_loaded_at: float = 0.0

    @cached_property
    def loop(self) -> McpLoop:
        """The loop of all connections. Made when the first server is started."""
        from hermes.service.mcp.loop import McpLoop

        return McpLoop()

    @cached_property
    def sampling(self) -> SamplingModels | None:
        """The answers of models for servers."""
        return None if self.make_sampling is None else self.make_sampling()

    @property
    def has_loop(self) -> bool:
        """Whether any server was started."""
        return "loop" in self.__dict__
