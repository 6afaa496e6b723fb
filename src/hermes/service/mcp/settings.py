"""Settings of one MCP server: an entry of ``mcp_servers``, checked, with its references filled in."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import msgspec

from hermes.base.config.schema.mcp import McpServerConfig
from hermes.base.errors import did_you_mean
from hermes.service.mcp.errors import McpError

_REFERENCE = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)\}")

Transport = Literal["stdio", "http", "sse"]

#: The settings that decide which server answers. The other ones may change without another look at its tools.
_IDENTITY = ("command", "args", "env", "cwd", "url", "headers", "transport", "auth", "sandbox")


class McpSettings(msgspec.Struct, frozen=True):
    """What is needed to reach one server. Holds secrets: it is never shown."""

    name: str
    transport: Transport
    entry: McpServerConfig
    command: tuple[str, ...] = ()
    env: dict[str, str] = {}
    url: str = ""
    headers: dict[str, str] = {}
    client_secret: str = ""

    def secrets(self) -> dict[str, str]:
        """Values that no output may show, by name."""
        named = {
            **{f"env.{key}": value for key, value in self.env.items()},
            **self.headers,
            "oauth": self.client_secret,
        }
        return {f"mcp.{self.name}.{key}": value for key, value in named.items() if len(value) >= 8}


def check_entry(name: str, entry: McpServerConfig) -> Transport:
    """The transport of an entry. ``McpError`` says what is wrong with one that cannot be used."""
    where = f"mcp_servers.{name}"
    if not name.strip() or "\0" in name or "/" in name:
        raise McpError(f"{where}: a name of a server has no slash and is not empty; rename the entry")
    if entry.command and entry.url:
        raise McpError(f"{where}: found command and url; allowed: one of them. Remove the other")
    if not entry.command and not entry.url:
        raise McpError(f"{where}: found neither command nor url; allowed: a program to start, or an address")
    wanted = entry.transport
    if entry.command:
        if wanted not in ("", "stdio"):
            raise McpError(f"{where}.transport: found {wanted} beside a command; allowed: stdio, or a url instead")
        return "stdio"
    if wanted == "stdio":
        raise McpError(f"{where}.transport: found stdio beside a url; allowed: http, sse, or a command instead")
    if not entry.url.startswith(("http://", "https://", "${")):
        raise McpError(f"{where}.url: found no address; allowed: http:// or https:// and a host")
    if entry.client_key and not entry.client_cert:
        raise McpError(f"{where}.client_key: found a key without its certificate; set client_cert too")
    return "sse" if wanted == "sse" else "http"


def resolve_entry(name: str, entry: McpServerConfig, environ: Mapping[str, str]) -> McpSettings:
    """The settings with ``${NAME}`` and ``${env:NAME}`` filled in. ``McpError`` names what is missing."""
    transport = check_entry(name, entry)
    missing: dict[str, str] = {}

    def expand(text: str, key: str) -> str:
        for variable in _REFERENCE.findall(text):
            if variable not in environ:
                missing.setdefault(variable, key)
        return _REFERENCE.sub(lambda found: environ.get(found[1], ""), text)

    command = tuple(expand(text, "args" if at else "command") for at, text in enumerate([entry.command, *entry.args]))
    settings = McpSettings(
        name,
        transport,
        entry,
        (_program(command[0]), *command[1:]) if command[0] else (),
        {key: expand(value, f"env.{key}") for key, value in entry.env.items()},
        expand(entry.url, "url"),
        {key: expand(value, f"headers.{key}") for key, value in entry.headers.items()},
        expand(entry.oauth.client_secret, "oauth.client_secret") if entry.oauth else "",
    )
    if missing:
        found = ", ".join(f"{key} refers to ${{{variable}}}" for variable, key in missing.items())
        verb = "is" if len(missing) == 1 else "are"
        raise McpError(f"mcp_servers.{name}: {found}, which {verb} not set in the environment or in .env")
    return settings


def _program(text: str) -> str:
    return str(Path(text).expanduser()) if text.startswith("~") else text


def entry_digest(entry: McpServerConfig) -> str:
    """A digest of what decides which server answers; a stored manifest is valid for one digest."""
    identity = {name: getattr(entry, name) for name in _IDENTITY}
    return hashlib.sha256(msgspec.json.encode(identity, order="deterministic")).hexdigest()


def find_entry(servers: Mapping[str, McpServerConfig], name: str) -> McpServerConfig:
    """The entry of that name. ``McpError`` when there is none."""
    entry = servers.get(name)
    if entry is None:
        hint = did_you_mean(name, sorted(servers), otherwise=None if servers else "add one with: hermes mcp add")
        raise McpError(f"there is no MCP server {name!r}{hint}")
    return entry
