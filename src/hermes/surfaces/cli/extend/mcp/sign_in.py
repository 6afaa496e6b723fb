"""``hermes mcp login | logout``: the sign-in at an MCP server with a browser."""

from __future__ import annotations

import argparse

from hermes.base.errors import HermesError
from hermes.service.mcp.settings import find_entry
from hermes.service.mcp.transport.tokens import forget_tokens
from hermes.surfaces.cli.extend.mcp.trial import home_and_config, show_manifest, try_server
from hermes.surfaces.cli.terminal import plain, web_browser


def run_login(args: argparse.Namespace) -> None:
    """Sign in, and show what the server offers then."""
    home, config = home_and_config()
    entry = find_entry(config.mcp_servers, args.name)
    if not entry.url:
        raise HermesError(f"{args.name} is a program of this machine; there is nothing to sign in at")
    forget_tokens(home, args.name)
    show_manifest(args.name, try_server(home, config, args.name, entry, show_address=_show), entry)
    print(f"Signed in at {plain(args.name)}.")


def run_logout(args: argparse.Namespace) -> None:
    """Forget the sign-in."""
    home, config = home_and_config()
    find_entry(config.mcp_servers, args.name)
    was_there = forget_tokens(home, args.name)
    print(f"Signed out of {plain(args.name)}." if was_there else f"There was no sign-in at {plain(args.name)}.")


def _show(address: str) -> None:
    print(f"Open this URL in a browser on this machine and sign in:\n\n  {plain(address)}\n\nWaiting ...", flush=True)
    browse = web_browser()
    if browse is not None and address.startswith(("http://", "https://")):
        browse(address)
