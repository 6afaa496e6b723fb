"""``hermes mcp``: add, list, test, configure and remove MCP servers, sign in at them, and serve this agent as one."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys

from hermes.base.config.schema.sections import PrincipalScope
from hermes.surfaces.cli import open_home
from hermes.surfaces.cli.arguments import (
    HOST,
    JSON,
    MODEL,
    VERBOSE,
    Action,
    Argument,
    CommandSpec,
    flag,
    port_number,
    repeatable,
)
from hermes.surfaces.cli.failures import serving_packages
from hermes.surfaces.cli.terminal import print_warnings

_EXAMPLES = """
examples:
  hermes mcp add time -- uvx mcp-server-time
  hermes mcp add docs --url https://mcp.example.org/mcp --auth oauth
  hermes mcp test time
  hermes mcp configure time --exclude 'convert_*'
"""


def _serve(args: argparse.Namespace) -> int:
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
    with (
        contextlib.redirect_stdout(sys.stderr),
        Host(home, loaded.config, options, redactor=redactor) as host,
        contextlib.closing(AgentService(host)) as service,
    ):
        print_warnings((*loaded.warnings, *host.notices), redactor.redact)
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


_NAME = Argument("name NAME", "name of the server")
_ADD_LINE = "The command that starts the server can be written behind --, as in: hermes mcp add NAME -- COMMAND"

COMMAND = CommandSpec(
    default="list",
    epilog=_EXAMPLES,
    actions=(
        Action(
            "add",
            "extend.mcp.entries:run_add",
            "add a server; it is started once, to see its tools",
            epilog=_ADD_LINE,
            defaults={"line": []},
        ).takes(
            _NAME,
            Argument("--url", "address of a server that runs already", default=""),
            Argument("--command PROGRAM", "program to start; or write the whole command behind --", default=""),
            Argument("--args ARG", "arguments of the program", nargs="*", default=[]),
            repeatable("--env NAME=VALUE", "a variable for the program (repeatable)"),
            repeatable("--header NAME=VALUE", "a header of requests (repeatable)"),
            Argument("--auth", "sign in at the server", choices=("oauth",), default=""),
            Argument("--transport", "the transport of old servers", choices=("sse",), default=""),
            flag("--trust", "believe what the server says about its tools"),
            flag("--sandbox", "run the program in the sandbox"),
            flag("--no-test", "save the entry without starting the server"),
        ),
        Action("remove", "extend.mcp.entries:run_remove", "remove a server, with its stored tools and sign-in").takes(
            _NAME
        ),
        Action(
            "list",
            "extend.mcp.entries:run_list",
            "list the servers and what is known of them; starts none (the default)",
        ).takes(JSON),
        Action(
            "configure",
            "extend.mcp.entries:run_configure",
            "show a server and its tools, or change what is offered of them",
        ).takes(
            _NAME,
            Argument("--include TOOL", "offer only this tool or pattern (repeatable)", action="append"),
            Argument("--exclude TOOL", "leave out this tool or pattern (repeatable)", action="append"),
            flag("--all", "offer all tools again"),
            flag("--enable", "use the server", dest="enabled", default=None),
            Argument("--disable", "keep the entry, but do not use it", dest="enabled", action="store_false"),
            flag("--trust", "believe what it says about its tools", default=None),
            Argument("--no-trust", "treat every tool as unsafe", dest="trust", action="store_false"),
            flag("--sandbox", "run its program in the sandbox", default=None),
            Argument("--no-sandbox", "run its program without the sandbox", dest="sandbox", action="store_false"),
            Argument("--timeout SECONDS", "seconds that one call may take", type=float),
        ),
        Action("login", "extend.mcp.entries:run_login", "sign in at a server, with a browser on this machine").takes(
            _NAME
        ),
        Action("logout", "extend.mcp.entries:run_logout", "forget the sign-in at a server").takes(_NAME),
        Action("serve", _serve, "serve this agent to editors and other agents, over stdio or HTTP").takes(
            flag("--http", "serve over HTTP instead of stdio; the first line on stdout is the address"),
            HOST,
            Argument("--port N", "port to listen on (default: any free one); implies --http", type=port_number),
            flag("--approve", "let the client answer approvals over stdio; otherwise the owner is asked"),
            *MODEL,
            VERBOSE,
        ),
        Action(
            "test",
            "extend.mcp.entries:run_test",
            "start a server, and show what it offers; exit code 1 when it does not work",
        ).takes(_NAME),
    ),
)
