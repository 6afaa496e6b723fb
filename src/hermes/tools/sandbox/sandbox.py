"""The sandbox of one principal in one workspace: starts commands in it, and looks at what they left behind.

Its private temporary folder is locked by this process, so that a later one finds what was left.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TypeVar

from hermes.tools.sandbox.backend import SandboxBackend
from hermes.tools.sandbox.bubblewrap import COVERED, TEMPORARY
from hermes.tools.sandbox.launch import Launch
from hermes.tools.sandbox.network import AskConnect, Reach, SandboxNetwork
from hermes.tools.sandbox.owner.caches import cache_variables
from hermes.tools.sandbox.owner.refusals import FailedCommand, Refusals
from hermes.tools.sandbox.owner.services import SERVICE_VARIABLES
from hermes.tools.sandbox.profile import SandboxProfile, is_inside
from hermes.tools.sandbox.proxy import ProxyNetwork, proxy_variables
from hermes.tools.sandbox.watch import AutoRunWatch
from hermes.tools.sandbox.workspace.tree import WorkspaceTree
from hermes.tools.sandbox.workspace.undone import UndoneChange

T = TypeVar("T")

#: What programs print when there was no network, or the proxy refused.
_NETWORK_REFUSED = re.compile(
    r"network is unreachable|could not resolve|couldn't resolve|name resolution|name or service not known"
    r"|no address associated|getaddrinfo|ENOTFOUND|EAI_AGAIN|ENETUNREACH|failed to connect|connection refused"
    r"|cannot assign requested address|could not connect|\bproxy\b.*\b403\b|\b403\b.*\bproxy\b|permission denied",
    re.IGNORECASE,
)

#: A folder has this name only while, or after, a process held the lock on it.
FOLDER_PREFIX = "hermes-sandbox."


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
        network: SandboxNetwork | None = None,
        tree: WorkspaceTree | None = None,
    ) -> None:
        """``temporary`` is the private folder of the principal; ``passed`` are variables that the owner passed on.

        ``tree`` is that of the workspace, where it is known already.
        """
        self.backend = backend
        self.profile = profile
        self._temporary = temporary
        self._passed = passed
        self._proxy = proxy
        self._network = network or SandboxNetwork()
        undone = os.path.join(temporary, "undone")
        self._watch = AutoRunWatch(profile, undone, tree) if profile.mode == "workspace" else None

    @property
    def _inner_temporary(self) -> str:
        """The temporary folder as a command sees it."""
        return TEMPORARY if self.backend.name == "bubblewrap" else self._temporary

    def reach(self, ask: AskConnect | None = None) -> Reach | None:
        """What one command in it can connect to, where that is some hosts. ``ask`` decides about others."""
        return None if self._proxy is None else self._network.reach(ask)

    def outer_path(self, path: str) -> str:
        """A path that a command uses, as it is called outside of the sandbox."""
        if self._is_visible(path) or not is_inside(path, TEMPORARY):
            return path
        return self._temporary + path.removeprefix(TEMPORARY)

    def _is_visible(self, path: str) -> bool:
        """Whether a path leads to the same file as outside, as far as that depends on the folders of services."""
        if self.backend.name == "landlock" or not any(is_inside(path, folder) for folder in COVERED):
            return True
        visible = (*self.profile.roots(), self.profile.workspace, *self.profile.shown)
        return any(is_inside(path, folder) for folder in visible)

    @property
    def is_preparable(self) -> bool:
        """Whether a process can be started in it before its command is known."""
        return self.backend.name == "bubblewrap"

    def launch(
        self, command: Sequence[str], cwd: str, environment: Mapping[str, str], reach: Reach | None = None
    ) -> Launch:
        """How a process would be started in it now, which reaches only some hosts with ``reach``."""
        profile = self.profile.as_of_now()
        variables = self._environment(environment)
        if reach is not None:
            variables |= proxy_variables(reach, self._inner_temporary, environment)
        return Launch(
            backend=self.backend,
            profile=profile,
            temporary=self._temporary,
            inner_temporary=self._inner_temporary,
            command=tuple(command),
            cwd=cwd,
            environment=variables,
            identities=profile.identities() if self.is_preparable else (),
            proxy=self._proxy,
            reach=reach,
        )

    def start(
        self,
        command: Sequence[str],
        cwd: str,
        environment: Mapping[str, str],
        start: Callable[[Sequence[str], str, Mapping[str, str]], T],
        reach: Reach | None = None,
    ) -> T:
        """Start a process in it. Each start needs one ``ended``."""
        launch = self.launch(command, cwd, environment, reach)
        self.begin()
        try:
            return launch.start(start)
        except BaseException:
            self.ended()
            raise

    def begin(self) -> None:
        """To be called before a command runs in it: remembers the files that run code by themselves."""
        if self._watch is not None:
            self._watch.command_starts()

    def ended(self) -> Sequence[UndoneChange]:
        """Undo what a command did to files that run code by themselves."""
        return () if self._watch is None else self._watch.command_ended()

    def accept(self, change: UndoneChange) -> None:
        """A change that was undone was approved and made after all."""
        if self._watch is not None:
            self._watch.accept(change)

    def _environment(self, environment: Mapping[str, str]) -> dict[str, str]:
        temporary = self._inner_temporary
        dropped = set(SERVICE_VARIABLES).difference(self._passed)
        variables = {name: value for name, value in environment.items() if name not in dropped}
        caches = next(iter(self.profile.caches), f"{temporary}/.cache")
        variables.update(cache_variables(caches, temporary, variables))
        return {**variables, "TMPDIR": temporary, "TMP": temporary, "TEMP": temporary}

    def note(self, failure: FailedCommand | None, reach: Reach | None = None) -> str:
        """One sentence when the sandbox may be why a command failed, or refused a connection; else empty."""
        profile = self.profile
        limits: list[str] = []
        if failure is not None:
            limits = Refusals(profile, self._passed, lambda path: not self._is_visible(path)).limits(failure)
        is_cut_off = failure is not None and not profile.network and _NETWORK_REFUSED.search(failure.output) is not None
        if reach is not None:
            limits += filter(None, [reach.note(failed=is_cut_off)])
        elif is_cut_off:
            limits.append(self._network.offline)
        if not limits:
            return ""
        where = f"This ran in the sandbox (terminal.sandbox: {profile.mode})"
        return f"{where}{', which may be why it failed' if failure else ''}: {'; '.join(limits)}"


class PrivateFolder:
    """A new folder that no other user can read. It is locked until it is removed or the process ends."""

    def __init__(self) -> None:
        made = os.path.realpath(tempfile.mkdtemp(prefix=".hermes-sandbox-"))
        self._lock = os.open(made, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        # Renamed only now: a folder without a lock must not have the name of one that is to be locked.
        self.path = os.path.join(os.path.dirname(made), f"{FOLDER_PREFIX}{os.urandom(8).hex()}")
        os.rename(made, self.path)

    def remove(self) -> None:
        """Remove it, once."""
        lock, self._lock = self._lock, -1
        if lock >= 0:
            remove_folder(self.path)
            os.close(lock)


def remove_abandoned() -> None:
    """Remove the folders of this user whose process has ended without doing so."""
    parent = os.path.realpath(tempfile.gettempdir())
    with suppress(OSError):
        for name in os.listdir(parent):
            if name.startswith(FOLDER_PREFIX):
                with suppress(OSError):
                    _remove_if_abandoned(os.path.join(parent, name))


def _remove_if_abandoned(path: str) -> None:
    lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if os.fstat(lock).st_uid == os.geteuid():
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # OSError while its process lives
            remove_folder(path)
    finally:
        os.close(lock)


def remove_folder(folder: str) -> None:
    """Remove a folder. Some caches are read-only (Go's modules), so folders are made writable on the way."""
    for path, folders, _ in os.walk(folder):
        for name in folders:
            inner = os.path.join(path, name)
            if not os.path.islink(inner) and not os.access(inner, os.W_OK | os.X_OK):
                with suppress(OSError):
                    os.chmod(inner, stat.S_IRWXU)
    shutil.rmtree(folder, ignore_errors=True)
