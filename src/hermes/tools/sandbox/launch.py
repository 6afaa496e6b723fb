"""The start of a process in a sandbox, as a value: two that are equal give the same sandbox."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from hermes.tools.sandbox.backend import SandboxBackend
from hermes.tools.sandbox.network import Reach
from hermes.tools.sandbox.profile import SandboxProfile
from hermes.tools.sandbox.proxy import ProxyNetwork

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Launch:
    """The start of one process. Equal ones give the same sandbox as long as nothing else is mounted on the machine."""

    backend: SandboxBackend
    #: As it was looked up for this start.
    profile: SandboxProfile
    #: The private temporary folder, as it is called outside and inside.
    temporary: str
    inner_temporary: str
    command: tuple[str, ...]
    #: The directory that the command starts in, as it sees it.
    cwd: str
    environment: dict[str, str]
    #: The files behind the names of the profile. One that is replaced loses its mount in sandboxes that are there.
    identities: tuple[tuple[int, int], ...] = ()
    proxy: ProxyNetwork | None = None
    #: The hosts that it can connect to, when that is by the proxy.
    reach: Reach | None = field(default=None, compare=False)

    def start(self, start: Callable[[Sequence[str], str, Mapping[str, str]], T]) -> T:
        """Start the process: ``start`` takes the command line, the working directory and the environment to use."""
        opener: Sequence[str] = ()
        if self.proxy is not None and self.reach is not None:
            opener = self.proxy.opener(self.temporary, self.inner_temporary, self.reach)
        line = self.backend.command_line(self.profile, self.temporary, self.command, self.cwd, opener)
        folder = self.profile.workspace if self.backend.name == "bubblewrap" else self.cwd
        return self.backend.limited(self.profile, self.temporary, lambda: start(line, folder, self.environment))

    def in_advance(self) -> Launch:
        """The same for a command that is not known yet: until then it can connect to nothing."""
        return self if self.reach is None else replace(self, reach=Reach(()))
