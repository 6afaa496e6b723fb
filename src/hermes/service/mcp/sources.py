"""Sources of a host's MCP servers: the configuration, the project's ``.mcp.json``, and what a surface brings along."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec

from hermes.base.errors import ConfigError, HermesError

if TYPE_CHECKING:
    from hermes.base.config.load import FreshConfig
    from hermes.base.config.schema.mcp import McpServerConfig
    from hermes.base.config.schema.sections import Config
    from hermes.service.mcp.servers import McpServers

log = logging.getLogger("hermes.mcp")

_MAX_BYTES = 1_000_000
#: What other programs call the transport.
_TYPES = {"stdio": "stdio", "http": "http", "streamable-http": "http", "sse": "sse"}


class McpSources:
    """Where the entries of servers come from. The servers are built with the first reload, and not before."""

    def __init__(
        self,
        build: Callable[[Config], McpServers],
        fresh_config: FreshConfig,
        *,
        home: Path,
        cwd: Path,
        uses_project: bool,
    ) -> None:
        """``build`` makes the servers of a host. ``uses_project``: the file of a trusted project counts."""
        self._build = build
        self._fresh_config = fresh_config
        self._home = home
        self._cwd = cwd
        self._uses_project = uses_project
        #: None until there is something to connect to.
        self.servers: McpServers | None = None
        #: The entries of the configuration as they were loaded last.
        self._configured: Mapping[str, McpServerConfig] = {}
        #: Those that a surface brought along.
        self._given: dict[str, McpServerConfig] = {}

    def load(self, config: Config) -> list[str]:
        """Use what the configuration and the project name, if anything; what is wrong with entries, one line each."""
        return self.reload(config) if config.mcp_servers or self._project_file() else []

    def reload(self, config: Config | None = None) -> list[str]:
        """Use the entries as they are now; what is wrong with them, one line each."""
        config = config or self._fresh_config.current()
        if self.servers is None:
            self.servers = self._build(config)
        self._configured = config.mcp_servers
        project, notices = project_servers(self._home, self._project_file())
        return [*notices, *self.servers.load({**project, **self._given, **config.mcp_servers})]

    def add(self, entries: Mapping[str, McpServerConfig]) -> list[str]:
        """Use further servers until the host is closed; one of the configuration with the same name wins."""
        self._given |= entries
        return self.reload()

    def settle(self, *, follows_config: bool) -> None:
        """Before a turn: follow the configuration, and wait a moment for servers that are not known yet."""
        assert self.servers is not None
        if follows_config:
            try:
                config = self._fresh_config.current()
                if config.mcp_servers != self._configured:
                    self.reload(config)
            except HermesError as error:
                log.warning("the MCP servers stay as they are: %s", error)
        self.servers.settle()

    def _project_file(self) -> Path | None:
        """The file in which the project names MCP servers, if there is one."""
        if not self._uses_project:
            return None
        from hermes.base.config.trust import project_root

        path = project_root(self._cwd) / ".mcp.json"
        return path if path.is_file() else None


def project_servers(home: Path, path: Path | None) -> tuple[dict[str, McpServerConfig], list[str]]:
    """The entries of a project's file, and notices about it. Without trust there are no entries, only a notice."""
    if path is None:
        return {}, []
    from hermes.base.config.load import load_document
    from hermes.base.config.trust import FolderTrust, how_to_trust

    root = path.parent
    if not FolderTrust(home).is_trusted(root):
        return {}, [f"{path} names MCP servers, which are not used: {how_to_trust(root)}"]
    try:
        if path.stat().st_size > _MAX_BYTES:
            return {}, [f"{path}: larger than {_MAX_BYTES // 1_000_000} MB; it is not used"]
        document: Any = msgspec.json.decode(path.read_bytes())
        servers = cast("dict[str, Any]", document).get("mcpServers") if isinstance(document, dict) else None
        if not isinstance(servers, dict):
            return {}, [f"{path}: found no mapping mcpServers; it is not used"]
        entries = {str(name): _renamed(entry) for name, entry in cast("dict[object, Any]", servers).items()}
        loaded = load_document({"mcp_servers": entries}, path, {})
    except (OSError, msgspec.MsgspecError, UnicodeError) as error:
        return {}, [f"{path}: cannot be read: {error}"]
    except ConfigError as error:
        return {}, [str(error)]
    return loaded.config.mcp_servers, loaded.warnings


def _renamed(entry: Any) -> Any:
    if not isinstance(entry, dict):
        return entry
    fields = dict(cast("dict[str, Any]", entry))
    kind = fields.pop("type", None)
    if isinstance(kind, str):
        fields.setdefault("transport", _TYPES.get(kind, kind))
    # A project cannot have its servers believed.
    return {name: value for name, value in fields.items() if name != "trust"}
