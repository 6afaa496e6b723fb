"""Manifests of MCP servers: what a server offers, stored so that a run which calls none of it starts nothing."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import msgspec

from hermes.base.config.files import write_atomically
from hermes.base.errors import ConfigError
from hermes.service.mcp.tools.names import file_name

log = logging.getLogger("hermes.mcp")

_VERSION = 1
#: No list of tools is longer.
_MAX_BYTES = 8_000_000


class ManifestTool(msgspec.Struct, omit_defaults=True):
    """A tool as its server describes it."""

    name: str
    description: str = ""
    parameters: dict[str, Any] = {}
    read_only: bool = False
    idempotent: bool = False
    #: It can only run as a task of the protocol, which is not supported.
    needs_task: bool = False


class ManifestPrompt(msgspec.Struct, omit_defaults=True):
    """A prompt that a server offers, with the names of its arguments; those that may be left out end with ``?``."""

    name: str
    description: str = ""
    arguments: list[str] = []


class Manifest(msgspec.Struct, omit_defaults=True):
    """What a server offers, and the digest of the settings under which it said so."""

    digest: str
    version: int = _VERSION
    server: str = ""
    protocol: str = ""
    instructions: str = ""
    tools: list[ManifestTool] = []
    prompts: list[ManifestPrompt] = []
    has_resources: bool = False

    @property
    def has_prompts(self) -> bool:
        """Whether there is any prompt."""
        return bool(self.prompts)


class ManifestCache:
    """The stored manifests of a home, a file for each server."""

    def __init__(self, home: Path) -> None:
        self._folder = home / "cache" / "mcp"

    def path(self, server: str) -> Path:
        """The file of a server."""
        return self._folder / f"{file_name(server)}.json"

    def get(self, server: str, digest: str) -> Manifest | None:
        """The manifest of a server, if there is one for these settings. A file that cannot be read is none."""
        path = self.path(server)
        try:
            if path.stat().st_size > _MAX_BYTES:
                return None
            found = msgspec.json.decode(path.read_bytes(), type=Manifest)
        except (OSError, msgspec.MsgspecError, UnicodeError):
            return None
        return found if found.digest == digest and found.version == _VERSION else None

    def put(self, server: str, manifest: Manifest) -> None:
        """Store a manifest. Not to be able to costs a look at the server the next time."""
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_atomically(self.path(server), msgspec.json.encode(manifest).decode())
        except (OSError, ConfigError) as error:
            log.warning("the tools of the MCP server %s are not kept: %s", server, error)

    def remove(self, server: str) -> None:
        """Forget a server."""
        self.path(server).unlink(missing_ok=True)
