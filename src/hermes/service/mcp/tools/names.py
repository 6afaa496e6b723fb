"""Names of MCP tools and toolsets: ``mcp__server__tool`` in the registry, ``mcp-server`` as toolset."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

#: Providers accept no longer names.
MAX_NAME = 64
_OTHER = re.compile(r"[^A-Za-z0-9_]")
_HASH_CHARS = 8


def toolset_name(server: str) -> str:
    """The toolset that holds the tools of a server."""
    return f"mcp-{server}"


def registry_names(server: str, tools: Iterable[str]) -> dict[str, str]:
    """The name in the registry for each tool of a server.

    A name that would be too long, or the same as that of another tool, ends with a hash of the original.
    """
    found: dict[str, str] = {}
    # A name that needs no change keeps it, whatever the others become.
    for tool in sorted(set(tools), key=lambda name: (_clean(name) != name, name)):
        stem = _clean(tool)
        name = f"mcp__{_clean(server)}__{stem}"
        if len(name) > MAX_NAME or name in found.values() or not stem.strip("_"):
            name = f"mcp__{_clean(server)}__{stem.strip('_') or 'tool'}"[: MAX_NAME - _HASH_CHARS - 1]
            name = f"{name}_{_digest(server, tool)}"
        found[tool] = name
    return found


def file_name(server: str) -> str:
    """A file name for a server: readable, and different for different servers."""
    clean = _clean(server)[:40]
    return clean if clean == server else f"{clean}-{_digest(server)}"


def _clean(name: str) -> str:
    return _OTHER.sub("_", name)


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()[:_HASH_CHARS]
