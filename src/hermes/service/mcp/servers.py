"""The MCP servers of a host: their tools in the registry, from stored manifests or from the servers themselves."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from hermes.service.mcp.errors import McpError
from hermes.service.mcp.manifest import Manifest, ManifestCache
from hermes.service.mcp.server import McpServer
from hermes.service.mcp.tools.build import build_tools
from hermes.service.mcp.tools.names import toolset_name

if TYPE_CHECKING:
    from concurrent.futures import Future

    from hermes.base.config.schema.mcp import McpServerConfig
    from hermes.service.mcp.environment import ClientEnvironment
    from hermes.tools.registry import ToolRegistry

log = logging.getLogger("hermes.mcp")

#: Seconds that the import of the SDK may take before the first turn no longer waits for it.
_IMPORT_SECONDS = 10.0
_CLOSE_SECONDS = 2.0


class ServerStatus(msgspec.Struct, frozen=True):
    """The state of one server, for people."""

    name: str
    #: ``off``, ``broken`` (its entry), ``idle``, ``connecting``, ``ready`` or ``failed``.
    state: str
    #: How many tools the model is offered; None when that is not known yet.
    tools: int | None = None
    error: str = ""
    pid: int | None = None
    server: str = ""
    protocol: str = ""


class McpServers:
    """The servers of a host by name. Thread-safe; close it at the end."""

    def __init__(
        self,
        environment: ClientEnvironment,
        registry: ToolRegistry,
        *,
        discovery_timeout: float,
        on_change: Callable[[], None] = lambda: None,
        fresh: bool = False,
    ) -> None:
        """``on_change`` is called, on any thread, after tools were added to the registry or removed from it.

        ``fresh`` does not use stored manifests.
        """
        self._fresh = fresh
        self._environment = environment
        self._registry = registry
        self._timeout = discovery_timeout
        self._on_change = on_change
        self._cache = ManifestCache(environment.home)
        self._lock = threading.RLock()
        self._servers: dict[str, McpServer] = {}
        self._entries: dict[str, McpServerConfig] = {}
        self._broken: dict[str, str] = {}
        self._discovering: list[Future[Any]] = []
        self._discovery_began = 0.0

    # -- configuration ------------------------------------------------------------------------------------------

    def load(self, entries: Mapping[str, McpServerConfig]) -> list[str]:
        """Use these entries from now on: register what is known of them, and look at the others in the background.

        Servers whose settings did not change keep running. Returns what is wrong with entries, one line each.
        """
        with self._lock:
            for name, server in list(self._servers.items()):
                entry = entries.get(name)
                if entry is None or not entry.enabled or entry != server.entry:
                    self._drop(name)
            self._entries, self._broken = dict(entries), {}
            for name, entry in entries.items():
                if entry.enabled and name not in self._servers:
                    self._add(name, entry)
            return list(self._broken.values())

    def _add(self, name: str, entry: McpServerConfig) -> None:
        server = McpServer(name, entry, self._environment, self._publish)
        try:
            server.settings()
        except McpError as error:
            self._broken[name] = str(error)
            return
        self._servers[name] = server
        self._registry.declare_toolset(toolset_name(name), alias=name)
        manifest = None if self._fresh else self._cache.get(name, server.digest)
        if manifest is not None:
            self._register(server, manifest)
        else:
            self._discovery_began = self._discovery_began or time.monotonic()
            self._discovering.append(server.start())

    def _drop(self, name: str) -> None:
        server = self._servers.pop(name)
        if server.was_used:
            with contextlib.suppress(Exception):
                self._environment.loop.submit(server.connection.close())
        self._registry.replace_toolset(toolset_name(name), ())
        self._registry.forget_toolset(toolset_name(name))
        self._on_change()

    # -- manifests ----------------------------------------------------------------------------------------------

    def _publish(self, server: McpServer, manifest: Manifest) -> None:
        """A server said what it offers: keep it, and bring the registry up to date."""
        with self._lock:
            if self._servers.get(server.name) is not server or manifest == server.manifest:
                return
            self._cache.put(server.name, manifest)
            self._register(server, manifest)

    def _register(self, server: McpServer, manifest: Manifest) -> None:
        server.manifest = manifest
        toolset = toolset_name(server.name)
        tools = build_tools(server, manifest)
        for name in self._registry.replace_toolset(toolset, tools):
            log.warning("the tool %s of the MCP server %s is left out: the name is taken", name, server.name)
        self._on_change()

    def settle(self) -> None:
        """Wait for servers that are looked at for the first time, at most for the discovery timeout after their start.

        What comes later joins at the next turn.
        """
        waiting = [future for future in self._discovering if not future.done()]
        if not waiting:
            self._discovering = []
            return
        from concurrent.futures import wait

        while not self._environment.sdk_loaded_at and time.monotonic() - self._discovery_began < _IMPORT_SECONDS:
            if not wait(waiting, timeout=0.02).not_done:
                return
        began = max(self._environment.sdk_loaded_at, self._discovery_began)
        wait(waiting, timeout=max(began + self._timeout - time.monotonic(), 0))
        late = [future for future in waiting if not future.done()]
        if late:
            log.warning("%d MCP servers did not answer within %g s; their tools join later", len(late), self._timeout)
        self._discovering = []

    # -- for people ---------------------------------------------------------------------------------------------

    def get(self, name: str) -> McpServer | None:
        """The server of that name, if it is in use."""
        return self._servers.get(name)

    def status(self) -> list[ServerStatus]:
        """The state of every entry, sorted by name."""
        with self._lock:
            return [self._status(name, entry) for name, entry in sorted(self._entries.items())]

    def _status(self, name: str, entry: McpServerConfig) -> ServerStatus:
        server = self._servers.get(name)
        if server is None:
            return ServerStatus(name, "broken" if entry.enabled else "off", error=self._broken.get(name, ""))
        connection, manifest = server.connection if server.was_used else None, server.manifest
        toolset = toolset_name(name)
        state, error = ("idle", "") if connection is None else (connection.state, connection.error)
        return ServerStatus(
            name,
            state,
            None if manifest is None else sum(tool.toolset == toolset for tool in self._registry.all().values()),
            self._environment.redactor.redact(error) if state == "failed" else "",
            None if connection is None else connection.pid,
            manifest.server if manifest else "",
            manifest.protocol if manifest else "",
        )

    def close(self) -> None:
        """End every connection, all at the same time."""
        with self._lock:
            servers, self._servers = list(self._servers.values()), {}
        if not self._environment.has_loop:
            return
        from concurrent.futures import wait

        if "sampling" in self._environment.__dict__ and self._environment.sampling is not None:
            self._environment.sampling.close()
        loop = self._environment.loop
        wait([loop.submit(server.connection.close()) for server in servers if server.was_used], timeout=_CLOSE_SECONDS)
        loop.close()
