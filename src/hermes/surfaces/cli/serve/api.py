"""``hermes api``: this agent for programs that use OpenAI's API."""

from __future__ import annotations

import argparse
import os

from hermes.surfaces.cli import open_home
from hermes.surfaces.cli.arguments import PLUGIN, VERBOSE, Argument, CommandSpec, port_number
from hermes.surfaces.cli.failures import serving_packages
from hermes.surfaces.cli.terminal import print_note, print_warnings

_EXAMPLES = """\
examples:
  hermes api                                         for programs on this machine, at http://127.0.0.1:8642/v1
  API_SERVER_KEY=... hermes api --host 0.0.0.0       for other machines, which send the key
"""


def _serve(args: argparse.Namespace) -> None:
    """Serve until SIGTERM or Ctrl-C. The first line on stdout is the base URL for clients."""
    from hermes.base.http_server.listen_address import ListenAddress, check_listen_address
    from hermes.base.http_server.principals import API_KEY_VARIABLE, read_principals

    home, redactor, loaded = open_home(verbose=args.verbose)
    settings = loaded.config.gateway.api
    port = settings.port if args.port is None else args.port
    address = ListenAddress(args.host or settings.host, port)
    principals = read_principals(loaded.config, os.environ, redactor, API_KEY_VARIABLE)
    check_listen_address(address, principals, is_published=False)
    with serving_packages("gateway"):
        from hermes.base.http_server.server import LibraryLog, log_libraries
        from hermes.surfaces.openai_api.serve import serve
    from hermes.host import Host, HostOptions
    from hermes.service.dispatch.choose import check_provider, missing_workers, surface_config

    log_libraries(LibraryLog("hermes.api"))
    options = HostOptions(
        provider=args.provider,
        model=args.model,
        plugins=args.plugin,
        platform="api_server",
        unattended=True,
        hide_memory=True,
    )
    with Host(home, surface_config(loaded.config), options, redactor=redactor) as host:
        check_provider(host)
        print_warnings((*loaded.warnings, *host.notices, *missing_workers(host)), redactor.redact)
        serve(host, address, principals, lambda url: print(url, flush=True), print_note)


_HOST = "address to listen on; one that other machines can reach needs a key (default: 127.0.0.1)"
_PORT = "port to listen on; 0 is any free one (default: 8642)"

COMMAND = CommandSpec(
    run=_serve,
    arguments=(
        Argument("--host", _HOST),
        Argument("--port N", _PORT, type=port_number),
        Argument("--provider", "provider of the model", default=""),
        Argument("-m, --model", "model that answers", default=""),
        PLUGIN,
        VERBOSE,
    ),
    epilog=_EXAMPLES,
)
