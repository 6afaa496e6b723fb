"""``hermes mcp test``: starts one server outside of any conversation, and shows what it offers."""

from __future__ import annotations

import argparse
import contextlib
import os
import time
from collections.abc import Callable, Generator
from pathlib import Path

import msgspec

from hermes.base.config import load_config
from hermes.base.config.schema.mcp import McpServerConfig
from hermes.base.config.schema.sections import Config
from hermes.base.log import setup_logging
from hermes.base.sanitize import Redactor
from hermes.service.mcp.environment import ClientEnvironment
from hermes.service.mcp.errors import McpError
from hermes.service.mcp.manifest import Manifest
from hermes.service.mcp.servers import McpServers
from hermes.service.mcp.settings import find_entry
from hermes.service.mcp.tools.build import unavailable_tools
from hermes.surfaces.cli import home_with_variables
from hermes.surfaces.cli.terminal import one_line, plain, short_duration
from hermes.tools.registry import ToolRegistry
from hermes.tools.sandbox.confinement import Confinements
from hermes.tools.terminal.supervisor import ProcessSupervisor


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
    from hermes.service.mcp.tools.build import offered_names

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
