"""``hermes a2a``: the agent as a server for other agents, and calls to them."""

from __future__ import annotations

import argparse
import os
import sys

from hermes.surfaces.cli import open_home
from hermes.surfaces.cli.arguments import (
    HOST,
    MODEL,
    PLUGIN,
    VERBOSE,
    Action,
    Argument,
    CommandSpec,
    OneOf,
    flag,
    port_number,
    seconds,
)
from hermes.surfaces.cli.failures import serving_packages
from hermes.surfaces.cli.terminal import print_warnings

_EXAMPLES = """
examples:
  hermes a2a serve                                   for programs on this machine
  hermes a2a serve --host 0.0.0.0 --port 8800 --public-url https://agent.example.org
  hermes a2a call http://127.0.0.1:8800 "What is in this folder?"
"""
_CALL_EXAMPLES = """
The answer goes to stdout, everything else to stderr. When the agent asks something, answer at the terminal; without
one the exit code is 3, and the same command with --task and the answer continues. Ctrl-C cancels the remote task.

Exit codes: 0 answered, 1 failed, 2 wrong usage, 3 waits for an answer, 130 interrupted, 143 terminated.

examples:
  hermes a2a call http://127.0.0.1:8800 'What is in this folder?'
  hermes a2a call https://agent.example.org 'Hello' --token-env AGENT_TOKEN
  hermes a2a call http://127.0.0.1:8800 --task 5f2c91d0 approve
"""


def _serve(args: argparse.Namespace) -> None:
    # The SDK's own spans would duplicate those of the turn.
    os.environ.setdefault("OTEL_INSTRUMENTATION_A2A_SDK_ENABLED", "false")
    from hermes.base.http_server.listen_address import ListenAddress, check_listen_address
    from hermes.base.http_server.principals import read_principals

    home, redactor, loaded = open_home(verbose=args.verbose)
    principals = read_principals(loaded.config, os.environ, redactor)
    check_listen_address(ListenAddress(args.host, args.port, args.public_url), principals)
    with serving_packages("a2a"):
        # Large, and not needed to refuse an address.
        from hermes.surfaces.a2a.server.process import A2AListenAddress, log_libraries, serve
    from hermes.host import Host, HostOptions
    from hermes.service.dispatch.choose import check_provider, missing_workers, surface_config

    log_libraries()
    options = HostOptions(
        provider=args.provider, model=args.model, plugins=args.plugin, platform="a2a", unattended=True, hide_memory=True
    )
    with Host(home, surface_config(loaded.config), options, redactor=redactor) as host:
        check_provider(host)
        print_warnings((*loaded.warnings, *host.notices, *missing_workers(host)), redactor.redact)
        serve(host, A2AListenAddress(args.host, args.port, args.public_url, args.grpc_port), principals, _announce)


def _announce(url: str, grpc_address: str) -> None:
    print(url, flush=True)
    if grpc_address:
        print(f"gRPC at {grpc_address}", file=sys.stderr, flush=True)


_AGENT = "URL of the agent, or its name under a2a.agents in config.yaml"
_MESSAGE = "message to send; with --task, the answer to its question, such as approve or deny"
_TIMEOUT = "how long the agent may be silent (a2a.call_timeout)"

COMMAND = CommandSpec(
    epilog=_EXAMPLES,
    actions=(
        Action("serve", _serve, "serve this agent until Ctrl-C; the first line on stdout is its address").takes(
            HOST,
            Argument("--port N", "port to listen on (default: any free one)", type=port_number, default=0),
            Argument("--grpc-port N", "serve gRPC too, on this port; 0 is any free one", type=port_number),
            Argument("--public-url URL", "URL of this server for others, on its card", default=""),
            *MODEL,
            PLUGIN,
            VERBOSE,
        ),
        Action(
            "call",
            "serve.a2a.call:run_call",
            "send a message to another agent and show its answer",
            epilog=_CALL_EXAMPLES,
        ).takes(
            Argument("agent URL", _AGENT),
            Argument("message", _MESSAGE),
            Argument("--token-env NAME", "environment variable that holds its token", default=""),
            Argument("--context ID", "continue that conversation", default=""),
            Argument("--task ID", "answer the question of that task", default=""),
            OneOf(
                flag("--approve", "approve everything the agent asks for during the call"),
                flag("--deny", "deny everything the agent asks for during the call"),
            ),
            flag("--json", "print one JSON document when done"),
            flag("--no-stream", "wait for the whole answer instead of streaming it"),
            Argument("--timeout SECONDS", _TIMEOUT, type=seconds),
        ),
    ),
)
