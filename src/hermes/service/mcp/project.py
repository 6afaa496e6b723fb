"""MCP servers of a project: its file ``.mcp.json``, which counts only in a folder that the user trusts."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import msgspec

from hermes.base.config.load import load_document
from hermes.base.config.schema.mcp import McpServerConfig
from hermes.base.config.trust import FolderTrust, how_to_trust
from hermes.base.errors import ConfigError

_MAX_BYTES = 1_000_000
#: What other programs call the transport.
_TYPES = {"stdio": "stdio", "http": "http", "streamable-http": "http", "sse": "sse"}


def project_servers(home: Path, path: Path) -> tuple[dict[str, McpServerConfig], list[str]]:
    """The entries of a project's file, and notices about it. Without trust there are no entries, only a notice."""
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
