"""The sandbox of one principal in one workspace: starts commands in it, and looks at what they left behind."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from hermes.tools.sandbox.backend import SandboxBackend
from hermes.tools.sandbox.bubblewrap import TEMPORARY
from hermes.tools.sandbox.profile import SandboxProfile, is_inside
from hermes.tools.sandbox.proxy import ProxyNetwork
from hermes.tools.sandbox.undone import UndoneChange
from hermes.tools.sandbox.watch import AutoRunWatch

T = TypeVar("T")

#: Where programs put their caches, relative to the private temporary folder.
_CACHES = {
    "XDG_CACHE_HOME": ".cache",
    "npm_config_cache": ".cache/npm",
    "CARGO_HOME": ".cache/cargo",
    "GOMODCACHE": ".cache/go-mod",
    "GRADLE_USER_HOME": ".cache/gradle",
}
#: Ways to services that would act outside of the sandbox. Named in ``terminal.env_passthrough``, they stay.
_SERVICES = ("SSH_AUTH_SOCK", "SSH_AGENT_PID", "DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR", "DOCKER_HOST")

#: What programs print when the file system refused something.
_FILES_REFUSED = re.compile(
    r"read-only file system|permission denied|operation not permitted|\bEROFS\b|\bEACCES\b|\bEPERM\b"
    r"|device or resource busy|can't chdir",
    re.IGNORECASE,
)
#: ... and when there was no network, or the proxy refused.
_NETWORK_REFUSED = re.compile(
    r"network is unreachable|could not resolve|couldn't resolve|name resolution|name or service not known"
    r"|no address associated|getaddrinfo|ENOTFOUND|EAI_AGAIN|ENETUNREACH|failed to connect|connection refused"
    r"|cannot assign requested address|could not connect|\bproxy\b.*\b403\b|\b403\b.*\bproxy\b|permission denied",
    re.IGNORECASE,
)


class Sandbox:
    """Starts commands confined to a profile. Thread-safe."""

    def __init__(
        self,
        backend: SandboxBackend,
        profile: SandboxProfile,
        temporary: str,
        *,
        passed: Sequence[str] = (),
        proxy: ProxyNetwork | None = None,
    ) -> None:
        """``temporary`` is the private folder of the principal; ``passed`` are variables that the owner passed on."""
        self.backend = backend
        self.profile = profile
        self._temporary = temporary
        self._passed = passed
        self._proxy = proxy
        self._watch = AutoRunWatch(profile, os.path.join(temporary, "undone")) if profile.mode == "workspace" else None

    @property
    def _inner_temporary(self) -> str:
        """The temporary folder as a command sees it."""
        return TEMPORARY if self.backend.name == "bubblewrap" else self._temporary

    def outer_path(self, path: str) -> str:
        """A path that a command uses, as it is called outside of the sandbox."""
        visible = (*self.profile.roots(), self.profile.workspace, *self.profile.shown)
        if self.backend.name == "landlock" or not is_inside(path, TEMPORARY):
            return path
        if any(is_inside(path, folder) for folder in visible):
            return path
        return self._temporary + path.removeprefix(TEMPORARY)

    def start(
        self,
        arguments: Sequence[str],
        cwd: str,
        environment: Mapping[str, str],
        start: Callable[[Sequence[str], str, Mapping[str, str]], T],
    ) -> T:
        """Start a process in it. Each start needs one ``ended``."""
        variables = self._environment(environment)
        outer = self.profile.workspace if self.backend.name == "bubblewrap" else cwd
        if self._proxy is not None:
            arguments = self._proxy.wrap(arguments, self._temporary, self._inner_temporary)
        if self._watch is not None:
            self._watch.command_starts()
        try:
            return self.backend.start(
                self.profile, self._temporary, arguments, lambda line: start(line, outer, variables), cwd
            )
        except BaseException:
            self.ended()
            raise

    def ended(self) -> Sequence[UndoneChange]:
        """Undo what a command did to files that run code by themselves."""
        return () if self._watch is None else self._watch.command_ended()

    def accept(self, change: UndoneChange) -> None:
        """A change that was undone was approved and made after all."""
        if self._watch is not None:
            self._watch.accept(change)

    def _environment(self, environment: Mapping[str, str]) -> dict[str, str]:
        temporary = self._inner_temporary
        dropped = set(_SERVICES).difference(self._passed)
        variables = {name: value for name, value in environment.items() if name not in dropped}
        variables.update({name: f"{temporary}/{folder}" for name, folder in _CACHES.items()})
        return {**variables, "TMPDIR": temporary, "TMP": temporary, "TEMP": temporary}

    def note(self, output: str) -> str:
        """For a command that failed: one sentence when the sandbox may be the reason; else empty."""
        profile = self.profile
        limits: list[str] = []
        if _FILES_REFUSED.search(output):
            folders = ", ".join(dict.fromkeys(profile.roots()))
            limits.append(f"only {folders} and TMPDIR can be changed" if folders else "only TMPDIR can be changed")
            limits.append("credentials and files that run code by themselves cannot")
        if not profile.network and _NETWORK_REFUSED.search(output):
            hosts = "the network is off" if self._proxy is None else f"only {self._proxy.described()} can be reached"
            limits.append(f"{hosts} (terminal.network)")
        if not limits:
            return ""
        where = f"This ran in the sandbox (terminal.sandbox: {profile.mode}), which may be why it failed"
        return f"{where}: {'; '.join(limits)}"
