"""``hermes mcp``, but for ``serve``: the entries of ``mcp_servers``, what the servers offer, and sign-ins at them."""

from __future__ import annotations

import argparse
import contextlib
import os
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import msgspec

from hermes.base.config import load_config
from hermes.base.config.edit import edit_config, edit_together, unset_config
from hermes.base.config.schema.mcp import McpServerConfig
from hermes.base.config.schema.sections import Config
from hermes.base.errors import HermesError
from hermes.base.log import setup_logging
from hermes.base.sanitize import Redactor, redact_text
from hermes.service.mcp.environment import ClientEnvironment
from hermes.service.mcp.errors import McpError
from hermes.service.mcp.manifest import Manifest, ManifestCache
from hermes.service.mcp.servers import McpServers
from hermes.service.mcp.settings import check_entry, entry_digest, find_entry
from hermes.service.mcp.tools.build import offered_names, unavailable_tools
from hermes.service.mcp.tools.names import toolset_name
from hermes.service.mcp.transport.suspicious import check_command
from hermes.service.mcp.transport.tokens import forget_tokens
from hermes.surfaces.cli import home_with_variables
from hermes.surfaces.cli.report import Report
from hermes.surfaces.cli.terminal import one_line, plain, short_duration, web_browser
from hermes.tools.registry import ToolRegistry
from hermes.tools.sandbox.confinement import Confinements
from hermes.tools.terminal.supervisor import ProcessSupervisor


def run_add(args: argparse.Namespace) -> None:
    """Add a server. It is started first, so that an entry which cannot work is not saved."""
    home, config = home_and_config()
    if args.name in config.mcp_servers:
        raise HermesError(
            f"there is an MCP server {args.name!r} already; change it with: hermes mcp configure {args.name}"
        )
    written = _written_entry(args)
    entry = msgspec.convert(written, McpServerConfig)
    check_entry(args.name, entry)
    check_command(args.name, [entry.command, *entry.args], cwd=Path.cwd(), hermes_home=home)
    if not args.no_test and not entry.auth:
        show_manifest(args.name, try_server(home, config, args.name, entry), entry)
    edit_config(home, f'mcp_servers."{args.name}"', written)
    print(f"Added {plain(args.name)}. Its tools are the toolset {plain(toolset_name(args.name))}.")
    if entry.auth:
        print(f"Sign in with: hermes mcp login {plain(args.name)}")


def _written_entry(args: argparse.Namespace) -> dict[str, Any]:
    command: list[str] = args.line or ([args.command, *args.args] if args.command else [])
    if args.line and (args.command or args.args):
        raise HermesError("the command is given twice; write it behind --, or with --command and --args")
    entry: dict[str, Any] = {"command": command[0] if command else "", "args": command[1:], "url": args.url}
    entry |= {"env": dict(map(_pair, args.env)), "headers": dict(map(_pair, args.header))}
    entry |= {name: getattr(args, name) for name in ("auth", "transport", "trust", "sandbox")}
    return {name: value for name, value in entry.items() if value}


def _pair(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign or not name.strip():
        raise HermesError(f"found {text!r}; allowed: NAME=VALUE")
    return name.strip(), value.strip()


def run_remove(args: argparse.Namespace) -> None:
    """Remove a server."""
    home, config = home_and_config()
    find_entry(config.mcp_servers, args.name)
    unset_config(home, f'mcp_servers."{args.name}"')
    ManifestCache(home).remove(args.name)
    forget_tokens(home, args.name)
    print(f"Removed {plain(args.name)}.")


def run_list(_args: argparse.Namespace) -> Report:
    """List the servers, without starting any."""
    home, config = home_and_config()
    cache = ManifestCache(home)
    rows: list[dict[str, Any]] = []
    for name, entry in sorted(config.mcp_servers.items()):
        manifest, problem = cache.get(name, entry_digest(entry)), ""
        try:
            check_entry(name, entry)
        except HermesError as error:
            problem = str(error)
        tools = None if manifest is None else len(offered_names(name, manifest, entry))
        where = entry.url or " ".join([entry.command, *entry.args])
        rows.append(
            {"name": name, "enabled": entry.enabled, "tools": tools, "where": redact_text(where), "problem": problem}
        )
    cells = [("  " + row["name"], _state(row), one_line(row["problem"] or row["where"], 100)) for row in rows]
    return Report(rows, rows=cells, empty="There are no MCP servers. Add one with: hermes mcp add NAME -- COMMAND")


def _state(row: dict[str, Any]) -> str:
    if row["problem"]:
        return "broken"
    if not row["enabled"]:
        return "off"
    return "not seen yet" if row["tools"] is None else f"{row['tools']} tools"


def run_configure(args: argparse.Namespace) -> None:
    """Show a server and its tools, or change what is offered of them."""
    home, config = home_and_config()
    entry = find_entry(config.mcp_servers, args.name)
    put = _changes(args)
    key = f'mcp_servers."{args.name}"'
    remove = [f"{key}.tools.include", f"{key}.tools.exclude"] if args.all else []
    if put or remove:
        known = [name for name in remove if getattr(entry.tools, name.rpartition(".")[2])]
        edit_together(home, {f"{key}.{name}": value for name, value in put.items()}, remove=known)
        entry = find_entry(home_and_config()[1].mcp_servers, args.name)
    manifest = ManifestCache(home).get(args.name, entry_digest(entry))
    print(f"{plain(args.name)}: {one_line(redact_text(entry.url or ' '.join([entry.command, *entry.args])), 200)}")
    flags = [name for name in ("trust", "sandbox") if getattr(entry, name)]
    print(", ".join(["enabled" if entry.enabled else "disabled", *flags, f"timeout {entry.timeout:g} s"]))
    if manifest is None:
        print(f"Its tools are not known yet; see them with: hermes mcp test {plain(args.name)}")
    else:
        show_manifest(args.name, manifest, entry)


def _changes(args: argparse.Namespace) -> dict[str, Any]:
    lists = {f"tools.{name}": getattr(args, name) or None for name in ("include", "exclude")}
    changes = {**lists, **{name: getattr(args, name) for name in ("enabled", "trust", "sandbox", "timeout")}}
    return {name: value for name, value in changes.items() if value is not None}


def run_login(args: argparse.Namespace) -> None:
    """Sign in with a browser, and show what the server offers then."""
    home, config = home_and_config()
    entry = find_entry(config.mcp_servers, args.name)
    if not entry.url:
        raise HermesError(f"{args.name} is a program of this machine; there is nothing to sign in at")
    forget_tokens(home, args.name)
    show_manifest(args.name, try_server(home, config, args.name, entry, show_address=_show_address), entry)
    print(f"Signed in at {plain(args.name)}.")


def run_logout(args: argparse.Namespace) -> None:
    """Forget the sign-in."""
    home, config = home_and_config()
    find_entry(config.mcp_servers, args.name)
    was_there = forget_tokens(home, args.name)
    print(f"Signed out of {plain(args.name)}." if was_there else f"There was no sign-in at {plain(args.name)}.")


def _show_address(address: str) -> None:
    print(f"Open this URL in a browser on this machine and sign in:\n\n  {plain(address)}\n\nWaiting ...", flush=True)
    browse = web_browser()
    if browse is not None and address.startswith(("http://", "https://")):
        browse(address)


def run_test(args: argparse.Namespace) -> None:
    """Start the server and show it."""
    home, config = home_and_config()
    entry = find_entry(config.mcp_servers, args.name)
    began = time.monotonic()
    manifest = try_server(home, config, args.name, entry)
    show_manifest(args.name, manifest, entry)
    print(f"It answered after {short_duration(time.monotonic() - began)}.")


def home_and_config() -> tuple[Path, Config]:
    """The home and its configuration, with the variables of ``.env`` in the environment."""
    home = home_with_variables()
    return home, load_config(home).config


def try_server(
    home: Path,
    config: Config,
    name: str,
    entry: McpServerConfig,
    *,
    show_address: Callable[[str], None] | None = None,
) -> Manifest:
    """Start a server and return what it offers, which is stored as well. ``McpError`` says why it does not work.

    ``show_address`` shows where to sign in, for a server that wants it.
    """
    used = msgspec.structs.replace(entry, enabled=True)
    if show_address is not None:
        used = msgspec.structs.replace(used, auth="oauth", connect_timeout=max(used.connect_timeout, 300))
    with _client(home, config, show_address) as servers:
        problems = servers.load({name: used})
        server = servers.get(name)
        if problems or server is None:
            raise McpError(problems[0] if problems else f"{name} cannot be used")
        server.start().result()
        assert server.manifest is not None
        return server.manifest


@contextlib.contextmanager
def _client(home: Path, config: Config, show_address: Callable[[str], None] | None = None) -> Generator[McpServers]:
    redactor, supervisor = Redactor(), ProcessSupervisor()
    setup_logging(home, redactor=redactor)
    confinements = Confinements(config.terminal, redactor, hermes_home=home)
    environment = ClientEnvironment(
        home=home,
        cwd=Path.cwd(),
        environ=os.environ,
        redactor=redactor,
        confinements=confinements,
        supervisor=supervisor,
        show_address=show_address,
    )
    servers = McpServers(environment, ToolRegistry(), discovery_timeout=config.mcp_discovery_timeout, fresh=True)
    try:
        yield servers
    finally:
        servers.close()
        supervisor.close()
        confinements.close()


def show_manifest(name: str, manifest: Manifest, entry: McpServerConfig) -> None:
    """Print what a server offers."""
    offered = offered_names(name, manifest, entry)
    print(f"{plain(manifest.server)}, protocol {plain(manifest.protocol)}")
    print(f"{len(offered)} of {len(manifest.tools)} tools are offered:")
    for tool in manifest.tools:
        mark = "+" if tool.name in offered else "-"
        print(f"  {mark} {plain(tool.name)}  {one_line(tool.description, 80)}")
    for tool in unavailable_tools(manifest):
        print(f"  {plain(tool)} runs only as a task of the protocol, which is not supported.")
    if manifest.prompts:
        print(f"prompts: {one_line(', '.join(prompt.name for prompt in manifest.prompts))}")
    if manifest.has_resources:
        print("It has resources.")
