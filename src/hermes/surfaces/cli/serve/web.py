"""``hermes web``: sessions, timelines, approvals, costs and a chat in a browser."""

from __future__ import annotations

import argparse
import os
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING

from hermes.surfaces.cli import open_home
from hermes.surfaces.cli.arguments import VERBOSE, Argument, CommandSpec, flag, port_number
from hermes.surfaces.cli.failures import serving_packages
from hermes.surfaces.cli.terminal import print_warnings

if TYPE_CHECKING:
    from hermes.base.config import Config
    from hermes.base.sanitize import Redactor
    from hermes.surfaces.web.service import PageService

_EXAMPLES = """
The address that is printed has a token in it: open it once, and this browser is signed in. HERMES_WEB_TOKEN in .env
sets a token that stays the same.

examples:
  hermes web                              for a browser on this machine
  hermes web --open                       and open it
  hermes web --no-chat                    look and answer approvals, but run no turns here
  hermes web --host 0.0.0.0 --public-url https://agent.example.org
"""


def _serve(args: argparse.Namespace) -> None:
    """Serve the page until Ctrl-C."""
    with serving_packages("gateway"):
        from hermes.base.http_server.server import LibraryLog, log_libraries, run_until_signal
        from hermes.surfaces.web.server.access import TOKEN_VARIABLE
        from hermes.surfaces.web.server.process import page_access, serve_page

    home, redactor, loaded = open_home(verbose=args.verbose)
    access = page_access(args.host, os.environ.get(TOKEN_VARIABLE, ""), args.public_url)
    redactor.add_secrets({TOKEN_VARIABLE: access.token})
    log_libraries(LibraryLog("hermes.web"))
    with ExitStack() as stack:
        warnings = list(loaded.warnings)
        service = _service(stack, home, loaded.config, redactor, warnings, has_chat=not args.no_chat)
        print_warnings(warnings, redactor.redact)

        def announce(url: str) -> None:
            print(url, flush=True)
            if args.open:
                import webbrowser

                webbrowser.open(url)

        run_until_signal(
            lambda stop: serve_page(service, access, args.host, args.port, stop, announce, args.public_url)
        )


def _service(
    stack: ExitStack, home: Path, config: Config, redactor: Redactor, warnings: list[str], *, has_chat: bool
) -> PageService:
    """The page over the journal of the home, with a host for the chat unless there is none."""
    from hermes.surfaces.web.service import PageService

    if has_chat:
        from hermes.host import Host, HostOptions
        from hermes.service.dispatch.choose import make_dispatcher, missing_workers, surface_config
        from hermes.surfaces.web.chat import PLATFORM, PageChat, page_entry

        options = HostOptions(platform=PLATFORM, hide_memory=True)
        host = stack.enter_context(Host(home, surface_config(config), options, redactor=redactor))
        warnings += [*host.notices, *missing_workers(host)]
        dispatcher = make_dispatcher(host, entries={PLATFORM: page_entry(host)}, platforms=[PLATFORM])
        return PageService(host.store, host.runner, home, redactor, PageChat(host, dispatcher))
    from hermes.base.config.secrets import home_secrets
    from hermes.journal.store.port import home_store

    redactor.add_secrets(home_secrets(home, config, os.environ))
    store = stack.enter_context(closing(home_store(home)))
    runner = stack.enter_context(closing(store.new_runner()))
    return PageService(store, runner, home, redactor)


_HOST = "address to listen on (default: 127.0.0.1); any other needs HERMES_WEB_TOKEN"
_PORT = "port to listen on (default: 8643, or a free one when that is taken)"

COMMAND = CommandSpec(
    run=_serve,
    arguments=(
        Argument("--host", _HOST, default="127.0.0.1"),
        Argument("--port N", _PORT, type=port_number),
        Argument("--public-url URL", "URL of the page for other machines, behind a proxy", default=""),
        flag("--open", "open the page in the browser"),
        flag("--no-chat", "run no turns in this process"),
        VERBOSE,
    ),
    epilog=_EXAMPLES,
)
