"""``hermes a2a``: the agent as a server for other agents, and calls to them."""

from __future__ import annotations

import argparse
import os
import sys

from hermes.cli import open_home
from hermes.cli.arguments import port_number
from hermes.cli.failures import serving_packages
from hermes.cli.terminal import print_warnings

_EXAMPLES = """
examples:
  hermes a2a serve                                   for programs on this machine
  hermes a2a serve --host 0.0.0.0 --port 8800 --public-url https://agent.example.org
  hermes a2a call http://127.0.0.1:8800 "What is in this folder?"
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the sub-commands."""
    from hermes.cli.serve.a2a import call as a2a_call

    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EXAMPLES
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    summary = "serve this agent until Ctrl-C; the first line on stdout is its address"
    serve = actions.add_parser("serve", help=summary, description=summary)
    add = serve.add_argument
    add("--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1); any other needs tokens")
    add("--port", type=port_number, default=0, metavar="N", help="port to listen on (default: any free one)")
    add("--grpc-port", type=port_number, metavar="N", help="serve gRPC too, on this port; 0 is any free one")
    add("--public-url", default="", metavar="URL", help="URL of this server for others, on its card")
    add("--provider", default="", help="provider to use instead of the configured one")
    add("-m", "--model", default="", help="model to use instead of the configured one")
    add("--plugin", metavar="KEY", action="append", default=[], help="load this plugin too (repeatable)")
    add("-v", "--verbose", action="store_true", help="show the log on stderr")
    serve.set_defaults(action=_serve)
    summary = "send a message to another agent and show its answer"
    call = actions.add_parser("call", help=summary, description=summary)
    a2a_call.configure(call)
    call.set_defaults(action=a2a_call.run)


def run(args: argparse.Namespace) -> int:
    """Run the sub-command."""
    return args.action(args)


def _serve(args: argparse.Namespace) -> int:
    # The SDK's own spans would duplicate those of the turn.
    os.environ.setdefault("OTEL_INSTRUMENTATION_A2A_SDK_ENABLED", "false")
    from hermes.http_server.listen_address import ListenAddress, check_listen_address
    from hermes.http_server.principals import read_principals

    home, redactor, loaded = open_home(verbose=args.verbose)
    principals = read_principals(loaded.config, os.environ, redactor)
    check_listen_address(ListenAddress(args.host, args.port, args.public_url), principals)
    with serving_packages("a2a"):
        # Large, and not needed to refuse an address.
        from hermes.a2a.server.process import A2AListenAddress, log_libraries, serve
    from hermes.dispatch.choose import check_provider, missing_workers, surface_config
    from hermes.host import Host, HostOptions

    log_libraries()
    options = HostOptions(
        provider=args.provider, model=args.model, plugins=args.plugin, platform="a2a", unattended=True, hide_memory=True
    )
    with Host(home, surface_config(loaded.config), options, redactor=redactor) as host:
        check_provider(host)
        print_warnings((*loaded.warnings, *host.notices, *missing_workers(host)), redactor.redact)
        serve(host, A2AListenAddress(args.host, args.port, args.public_url, args.grpc_port), principals, _announce)
    return 0


def _announce(url: str, grpc_address: str) -> None:
    print(url, flush=True)
    if grpc_address:
        print(f"gRPC at {grpc_address}", file=sys.stderr, flush=True)
