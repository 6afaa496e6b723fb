"""``hermes mcp serve``: the agent as an MCP server, for editors and other agents."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys

from hermes.base.config.schema.sections import PrincipalScope
from hermes.surfaces.cli import open_home
from hermes.surfaces.cli.failures import serving_packages
from hermes.surfaces.cli.terminal import print_warnings


def run_serve(args: argparse.Namespace) -> int:
    """Serve until the input ends, or over HTTP until a signal comes. Standard output has the protocol only."""
    home, redactor, loaded = open_home(verbose=args.verbose)
    with serving_packages("mcp"):
        from hermes.base.http_server.principals import DEFAULT_SCOPES, Principal
        from hermes.surfaces.mcp_server.server import serve_stdio
        from hermes.surfaces.mcp_server.service import AgentService
    from hermes.host import Host, HostOptions

    is_http = args.http or args.port is not None
    if is_http:
        from hermes.base.http_server.listen_address import ListenAddress, check_listen_address
        from hermes.base.http_server.principals import read_principals

        principals = read_principals(loaded.config, os.environ, redactor)
        check_listen_address(ListenAddress(args.host, args.port or 0), principals, is_published=False)
    options = HostOptions(provider=args.provider, model=args.model, platform="mcp", unattended=True, hide_memory=True)
    with contextlib.redirect_stdout(sys.stderr), Host(home, loaded.config, options, redactor=redactor) as host:
        print_warnings((*loaded.warnings, *host.notices), redactor.redact)
        service = AgentService(host)
        if is_http:
            from hermes.surfaces.mcp_server.http import serve_http

            serve_http(service, principals, args.host, args.port or 0, _announce)  # pyright: ignore[reportPossiblyUnboundVariable]
        else:
            granted: frozenset[PrincipalScope] = frozenset(("approve",)) if args.approve else frozenset()
            with contextlib.redirect_stdout(sys.__stdout__):
                serve_stdio(service, Principal("", DEFAULT_SCOPES | granted))
    return 0


def _announce(address: str) -> None:
    print(address, file=sys.__stdout__, flush=True)
