"""``hermes acp``: the agent for editors that speak the Agent Client Protocol."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from hermes.surfaces.cli.arguments import PLUGIN, Argument, CommandSpec, flag

if TYPE_CHECKING:
    from hermes.host import Host

_EXAMPLES = """
Zed: put this into settings.json
  "agent_servers": {"Hermes": {"type": "custom", "command": "hermes", "args": ["acp"]}}
"""


def _serve(args: argparse.Namespace) -> int:
    """Serve the editor at the other end of standard input and output."""
    from hermes.surfaces.acp.server import AcpServer

    # Only the protocol may go to standard output. What anything else prints goes to standard error.
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    source = os.fdopen(os.dup(0), "rb")
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    try:
        AcpServer(source, out, lambda cwd: _host(args, cwd)).run()
    except KeyboardInterrupt:
        return 130
    finally:
        with contextlib.suppress(OSError):  # an editor that is gone does not read the rest
            out.close()
        source.close()
    return 0


def _host(args: argparse.Namespace, cwd: Path) -> Host:
    from hermes.host import Host, HostOptions
    from hermes.surfaces.cli import open_home
    from hermes.surfaces.cli.terminal import print_warnings

    home, redactor, loaded = open_home(verbose=args.verbose)
    toolsets = None if args.toolsets is None else [name.strip() for name in args.toolsets.split(",")]
    options = HostOptions(
        provider=args.provider, model=args.model, toolsets=toolsets, plugins=args.plugin, platform="acp"
    )
    host = Host(home, loaded.config, options, cwd=cwd, redactor=redactor)
    print_warnings((*loaded.warnings, *host.notices), redactor.redact)
    return host


COMMAND = CommandSpec(
    run=_serve,
    arguments=(
        Argument("-m, --model NAME", "model to use", default=""),
        Argument("--provider NAME", "provider to use", default=""),
        Argument("-t, --toolsets A,B", "toolsets to offer", default=None),
        PLUGIN,
        flag("-v, --verbose", "print the log on standard error"),
    ),
    epilog=_EXAMPLES,
)
