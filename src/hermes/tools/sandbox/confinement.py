"""Confinement: the environment and the sandbox of a child process, by the one it works for."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar

import msgspec

from hermes.base.config.schema.sections import TerminalConfig
from hermes.base.programs import note_changeable
from hermes.base.sanitize import Redactor
from hermes.base.scope import Scope
from hermes.tools.sandbox.owner.program import SandboxUnavailable, find_bubblewrap, probe_file
from hermes.tools.terminal.environment import child_environment

if TYPE_CHECKING:
    from hermes.tools.sandbox.backend import SandboxBackend, SandboxProbe
    from hermes.tools.sandbox.network import AskConnect, Reach, SandboxNetwork
    from hermes.tools.sandbox.profile import SandboxMode
    from hermes.tools.sandbox.proxy import ProxyNetwork
    from hermes.tools.sandbox.sandbox import PrivateFolder, Sandbox
    from hermes.tools.sandbox.workspace.remotes import RemoteHosts
    from hermes.tools.sandbox.workspace.repositories import HooksFolders
    from hermes.tools.sandbox.workspace.tree import WorkspaceTree
    from hermes.tools.sandbox.workspace.undone import UndoneChange

# The parts of the sandbox are imported where they are used: a prompt is ready before its first command needs them.

T = TypeVar("T")

#: What runs in a sandbox: a command, a script of the model, or a program of the owner, also in the work of a caller.
_Use = Literal["command", "script", "hook"]


class _Wanted(NamedTuple):
    """What a sandbox is for. There is one for each."""

    mode: SandboxMode
    principal: str
    workspace: str
    shown: tuple[str, ...] = ()
    use: _Use = "command"
    writable: tuple[str, ...] = ()  #: More folders that may be changed.


class Confinement(msgspec.Struct, frozen=True):
    """How one child process is started."""

    environment: Mapping[str, str]
    #: Variables of this process that hold a secret, which the child does not get.
    withheld: frozenset[str] = frozenset()
    sandbox: Sandbox | None = None
    #: The only hosts that the child can connect to; None where the sandbox has all of the network, or none.
    reach: Reach | None = None

    def start(
        self, arguments: Sequence[str], cwd: str, start: Callable[[Sequence[str], str, Mapping[str, str]], T]
    ) -> T:
        """Start a process: ``start`` takes the command line, the working directory and the environment to use.

        Each start needs one ``ended``.
        """
        if self.sandbox is None:
            return start(arguments, cwd, self.environment)
        return self.sandbox.start(arguments, cwd, self.environment, start, self.reach)

    def ended(self) -> Sequence[UndoneChange]:
        """To be called when the process has ended: what it did that was undone."""
        if self.reach is not None:
            self.reach.end()
        return () if self.sandbox is None else self.sandbox.ended()

    def waited(self) -> float:
        """For how many seconds the process has waited for a person to answer."""
        return 0.0 if self.reach is None else self.reach.waited()

    def outer_path(self, path: str) -> str:
        """A path as the child process uses it, as it is called outside of its sandbox."""
        return path if self.sandbox is None else self.sandbox.outer_path(path)

    def note(self, output: str, *, failed: bool, command: str = "", cwd: str = "") -> str:
        """One sentence when the sandbox may be why a command ``failed``, or refused a connection; else empty."""
        if self.sandbox is None:
            return ""
        from hermes.tools.sandbox.owner.refusals import FailedCommand

        return self.sandbox.note(FailedCommand(command, output, cwd) if failed else None, self.reach)


class Confinements:
    """Decides how the child processes of a host are confined. Thread-safe; close it at the end."""

    def __init__(
        self,
        settings: TerminalConfig | None = None,
        redactor: Redactor | None = None,
        *,
        hermes_home: Path | None = None,
        is_attended: bool = True,
        hides_memory: bool = False,
    ) -> None:
        """``is_attended``: a person of this run can be asked, and let a command run outside.

        ``hides_memory``: the first child process finds the memory of this process unreadable.
        """
        self.redactor = redactor or Redactor()
        self._settings = settings or TerminalConfig()
        self._hermes_home = hermes_home
        self._cache = None if hermes_home is None else probe_file(hermes_home)
        self._told = None if self._cache is None else self._cache.with_name("sandbox-told")
        self._is_attended = is_attended
        self._hides_memory = hides_memory
        self.notify: Callable[[str], None] | None = None
        self._lock = threading.RLock()
        self._probed: SandboxProbe | None = None
        self._sandboxes: dict[_Wanted, Sandbox] = {}
        #: One for each workspace: who looks at it knows what all commands changed.
        self._trees: dict[str, WorkspaceTree] = {}
        self._hooks: HooksFolders | None = None
        self._folders: dict[str, PrivateFolder] = {}
        self._proxy: ProxyNetwork | None = None
        self._remotes: RemoteHosts | None = None

    # -- confinements -------------------------------------------------------------------------------------------

    def of_command(
        self,
        scope: Scope,
        workspace: Path,
        *,
        outside: bool = False,
        only_reads: bool = False,
        writable: str = "",
        ask: AskConnect | None = None,
    ) -> Confinement:
        """The confinement of a command that a tool runs. ``outside``: it was approved to run without a sandbox.

        ``only_reads``: it was let through because it reads; a machine with a sandbox holds it to that. ``writable`` is
        one more folder that it may change. ``ask`` decides about hosts that it does not reach.
        ``SandboxUnavailable`` when there has to be a sandbox and this machine has none.
        """
        self._hide_memory()
        note_changeable([str(workspace)])
        is_caller = scope.principal != ""
        built = child_environment(os.environ, self.redactor, self._settings.env_passthrough, minimal=is_caller)
        folders = (writable,) if writable and not is_caller else ()
        sandbox = None if outside else self._sandbox(scope, workspace, only_reads=only_reads, writable=folders)
        # The names of the owner's variables are no business of a caller.
        withheld = frozenset[str]() if is_caller else built.withheld
        return Confinement(built.variables, withheld, sandbox, sandbox and sandbox.reach(ask))

    def of_hook_command(self, scope: Scope, workspace: Path, files: Sequence[str] | None = None) -> Confinement:
        """The confinement of a hook command. It is the owner's program, also when the work of a caller runs it.

        ``files`` are what it needs of the home of Hermes, its script for example. None runs it without a sandbox.
        """
        self._hide_memory()
        if self._settings.sandbox == "auto" and self._is_attended and not scope.principal:
            files = None
        built = child_environment(os.environ, self.redactor, self._settings.env_passthrough)
        sandbox = None if files is None else self._sandbox(scope, workspace, tuple(files), "hook")
        return Confinement(built.variables, built.withheld, sandbox, sandbox and sandbox.reach())

    def keep(self, change: UndoneChange) -> str:
        """Make a change after all that was undone; one sentence about it."""
        report = change.redo()
        with self._lock:
            for sandbox in self._sandboxes.values():
                sandbox.accept(change)
        return report

    def is_hook(self, path: str) -> bool:
        """Whether git runs a file as a hook, in a folder that a setting or a link names."""
        from hermes.tools.sandbox.workspace.repositories import HooksFolders

        with self._lock:
            self._hooks = self._hooks or HooksFolders()
            return self._hooks.has(path)

    def of_script(self, scope: Scope, workspace: Path) -> Confinement:
        """The confinement of a script of the model: it reads, and changes files and reaches the network only by tools.

        It has a sandbox whenever the machine has one, unless ``terminal.sandbox`` is off.
        """
        self._hide_memory()
        built = child_environment(os.environ, self.redactor, minimal=True)
        if not self.confines_scripts():
            return Confinement(built.variables)
        backend = self.probe().backend
        assert backend is not None
        # The interpreter and our part of the script may lie below /tmp, of which the sandbox has its own.
        shown = (sys.prefix, str(Path(__file__).parents[1] / "code"))
        wanted = _Wanted("read-only", scope.principal, str(workspace), shown, "script")
        return Confinement(built.variables, sandbox=self._kept(backend, wanted))

    def confines_scripts(self) -> bool:
        """Whether scripts of the model run in a sandbox."""
        return self._settings.sandbox != "off" and self.probe().backend is not None

    def of_mcp_server(
        self, workspace: Path, added: Mapping[str, str], *, sandboxed: bool, environ: Mapping[str, str]
    ) -> Confinement:
        """The confinement of an MCP server: a minimal environment and what its entry adds to it.

        ``SandboxUnavailable`` when it has to be ``sandboxed`` and this machine has no sandbox.
        """
        self._hide_memory()
        built = child_environment(environ, self.redactor, minimal=True)
        sandbox = None
        if sandboxed:
            backend = self.probe().backend
            if backend is None:
                raise SandboxUnavailable(
                    f"its entry asks for a sandbox, and this machine has none: {self.probe().summary}"
                )
            with self._lock:
                sandbox = self._make(backend, _Wanted("workspace", "", str(workspace), use="hook"))
        return Confinement({**built.variables, **added}, built.withheld, sandbox, sandbox and sandbox.reach())

    def _hide_memory(self) -> None:
        if self._hides_memory:
            from hermes.tools.terminal.process_memory import hide_process_memory

            self._hides_memory = False
            hide_process_memory()

    def mode(self) -> SandboxMode | None:
        """The sandbox that the settings want."""
        wanted = self._settings.sandbox
        return None if wanted == "off" else "workspace" if wanted == "auto" else wanted

    def is_sandboxed(self) -> bool:
        """Whether commands run in a sandbox."""
        return self.mode() is not None and self.probe().backend is not None

    def can_leave(self, scope: Scope) -> bool:
        """Whether a person may be asked to let a command run outside: the owner, about the owner's own work."""
        return self._is_attended and not scope.principal and self.mode() is not None

    def _sandbox(
        self,
        scope: Scope,
        workspace: Path,
        shown: tuple[str, ...] = (),
        use: _Use = "command",
        *,
        only_reads: bool = False,
        writable: tuple[str, ...] = (),
    ) -> Sandbox | None:
        mode = "read-only" if only_reads and self._settings.sandbox != "off" else self.mode()
        if mode is None:
            return None
        backend = self.probe().backend
        self._notify_once()
        if backend is None:
            if self._settings.sandbox == "auto":
                return None  # the notice said so
            raise SandboxUnavailable(
                f"terminal.sandbox is {mode}, and this machine has no sandbox: {self.probe().summary}. "
                f"Without one: hermes config set terminal.sandbox off"
            )
        return self._kept(backend, _Wanted(mode, scope.principal, str(workspace), shown, use, writable))

    def _kept(self, backend: SandboxBackend, wanted: _Wanted) -> Sandbox:
        """The sandbox for this use, made once."""
        with self._lock:
            if wanted not in self._sandboxes:
                self._sandboxes[wanted] = self._make(backend, wanted)
            return self._sandboxes[wanted]

    def _make(self, backend: SandboxBackend, wanted: _Wanted) -> Sandbox:
        from hermes.tools.sandbox.owner.caches import workspace_caches
        from hermes.tools.sandbox.owner.services import closed_sockets, passed_sockets
        from hermes.tools.sandbox.profile import is_inside, make_profile, programs_in
        from hermes.tools.sandbox.sandbox import Sandbox
        from hermes.tools.sandbox.workspace.tree import workspace_tree

        settings, principal, use = self._settings, wanted.principal, wanted.use
        tree = self._trees.setdefault(wanted.workspace, workspace_tree(wanted.workspace))
        network = self._network(backend, wanted, tree)
        home = os.path.expanduser("~")
        secrets = [str(self._hermes_home)] if self._hermes_home else []
        given = () if principal else settings.env_passthrough
        secrets += closed_sockets(given, os.environ)
        seen = [*wanted.shown, *passed_sockets(given, os.environ, home)]
        caches = ""
        if wanted.mode == "workspace" and not principal and self._hermes_home:
            caches = workspace_caches(str(self._hermes_home), wanted.workspace, use, home)
        is_above_home = is_inside(os.path.realpath(home), os.path.realpath(wanted.workspace))
        if principal and use != "hook" and not is_above_home:
            # The files of the owner are no business of a caller; the programs among them are.
            secrets.append(home)
            programs = programs_in(os.path.realpath(home), os.environ.get("PATH", ""))
            seen += [path for path in programs if not any(is_inside(os.path.realpath(one), path) for one in secrets)]
        profile = make_profile(
            wanted.mode,
            wanted.workspace,
            home=home,
            secrets=secrets,
            writable=[*wanted.writable, *map(os.path.expanduser, settings.sandbox_write)],
            caches=(caches,) if caches else (),
            shown=seen,
            network=network.is_on,
            tree=tree,
            environ=os.environ,
            passed=given,
        )
        folder = self._private_folder(principal)
        note_changeable([*profile.roots(), folder], profile.protected)
        proxy = None if network.hosts is None else self._proxy_network()
        passed = settings.env_passthrough
        return Sandbox(backend, profile, folder, passed=passed, network=network, proxy=proxy, tree=tree)

    def _network(self, backend: SandboxBackend, wanted: _Wanted, tree: WorkspaceTree) -> SandboxNetwork:
        from hermes.tools.sandbox.network import network_of

        network = network_of(
            "off" if wanted.use == "script" else self._settings.network,
            lambda: self._remote_hosts().of(tree),
            principal=wanted.principal,
            is_attended=self._is_attended,
            is_program=wanted.use != "command",
            has_proxy=not backend.is_reduced,
        )
        if network.hosts is not None and backend.is_reduced:
            raise SandboxUnavailable(
                f"terminal.network is a list of hosts, which needs bubblewrap; found {self.probe().summary}. "
                f"Install bubblewrap, or: hermes config set terminal.network off"
            )
        return network

    def _remote_hosts(self) -> RemoteHosts:
        from hermes.tools.sandbox.workspace.remotes import RemoteHosts

        file = None if self._hermes_home is None else self._hermes_home / "cache" / "remotes.json"
        self._remotes = self._remotes or RemoteHosts(file)
        return self._remotes

    def _proxy_network(self) -> ProxyNetwork:
        from hermes.tools.sandbox.proxy import ProxyNetwork

        self._proxy = self._proxy or ProxyNetwork()
        return self._proxy

    def _private_folder(self, principal: str) -> str:
        import weakref

        from hermes.tools.sandbox.sandbox import PrivateFolder, remove_abandoned

        if not self._folders:
            remove_abandoned()
        if principal not in self._folders:
            folder = self._folders[principal] = PrivateFolder()
            weakref.finalize(self, folder.remove)  # for a program that ends without closing its host
        return self._folders[principal].path

    # -- the machine --------------------------------------------------------------------------------------------

    def probe(self) -> SandboxProbe:
        """What this machine can do. It is tried out once, and known afterwards."""
        from hermes.tools.sandbox.backend import cached_probe

        with self._lock:
            if self._probed is None:
                self._probed = cached_probe(self._cache)
            return self._probed

    def start_line(self) -> str:
        """For the start of a server: what the machine lacks for the sandbox of its callers; empty when nothing."""
        from hermes.tools.sandbox.owner.notice import shortcoming

        return "" if self._settings.sandbox == "off" else shortcoming(self.probe(), self._settings.sandbox)

    def first_notice(self) -> str:
        """The same for a run of the owner, once per home. An installed bubblewrap is not tried out before a command."""
        is_quiet = self._settings.sandbox == "off" or self._told is None or self._told.exists()
        return "" if is_quiet or find_bubblewrap() is not None else self._new_notice()

    def _new_notice(self) -> str:
        from hermes.tools.sandbox.owner.notice import is_new

        sentence = self.start_line()
        return sentence if sentence and self._told is not None and is_new(sentence, self._told) else ""

    def _notify_once(self) -> None:
        notify, self.notify = self.notify, None
        if notify is not None and (sentence := self._new_notice()):
            notify(sentence)

    def close(self) -> None:
        """Remove the private folders and stop the proxy."""
        with self._lock:
            folders, self._folders = list(self._folders.values()), {}
            self._sandboxes.clear()
            self._trees.clear()
            proxy, self._proxy = self._proxy, None
            remotes, self._remotes = self._remotes, None
        if remotes is not None:
            remotes.close()
        if proxy is not None:
            proxy.close()
        for folder in folders:
            folder.remove()
