"""``hermes mcp``: add, list, test, configure and remove MCP servers, sign in at them, and serve this agent as one."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from importlib import import_module
from typing import Any

from hermes.cli.arguments import CommandParser, port_number

_EXAMPLES = """
examples:
  hermes mcp add time -- uvx mcp-server-time
  hermes mcp add docs --url https://mcp.example.org/mcp --auth oauth
  hermes mcp test time
  hermes mcp configure time --exclude 'convert_*'
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the sub-commands."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EXAMPLES
    parser.set_defaults(action=_lazily("entries", "list"), json=False)
    actions = parser.add_subparsers(metavar="ACTION", parser_class=_LineParser)
    for name, module, options, summary in _ACTIONS:
        made = actions.add_parser(name, help=summary, description=summary)
        made.set_defaults(action=_lazily(module, name))
        options(made)


def run(args: argparse.Namespace) -> int:
    """Run the sub-command."""
    return args.action(args)


def _lazily(module: str, name: str) -> Callable[[argparse.Namespace], int]:
    return lambda args: getattr(import_module(f"hermes.cli.extend.mcp.{module}"), f"run_{name}")(args)


class _LineParser(CommandParser):
    """A parser for options that a command line may follow, behind ``--``."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The options, and the words behind ``--`` as ``line``."""
        words: list[str] = list(args or ())
        at = words.index("--") if "--" in words and self.get_default("line") is not None else len(words)
        found, unknown = super().parse_known_args(words[:at], namespace)
        if words[at + 1 :]:
            found.line = words[at + 1 :]
        return found, unknown


def _name(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="name of the server")


def _add(parser: argparse.ArgumentParser) -> None:
    _name(parser)
    add = parser.add_argument
    add("--url", default="", help="address of a server that runs already")
    add("--command", default="", metavar="PROGRAM", help="program to start; or write the whole command behind --")
    add("--args", nargs="*", default=[], metavar="ARG", help="arguments of the program")
    add("--env", action="append", default=[], metavar="NAME=VALUE", help="a variable for the program (repeatable)")
    add("--header", action="append", default=[], metavar="NAME=VALUE", help="a header of requests (repeatable)")
    add("--auth", choices=("oauth",), default="", help="sign in at the server")
    add("--transport", choices=("sse",), default="", help="the transport of old servers")
    add("--trust", action="store_true", help="believe what the server says about its tools")
    add("--sandbox", action="store_true", help="run the program in the sandbox")
    add("--no-test", action="store_true", help="save the entry without starting the server")
    parser.set_defaults(line=[])
    parser.epilog = "The command that starts the server can be written behind --, as in: hermes mcp add NAME -- COMMAND"


def _list(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def _configure(parser: argparse.ArgumentParser) -> None:
    _name(parser)
    add = parser.add_argument
    add("--include", action="append", metavar="TOOL", help="offer only this tool or pattern (repeatable)")
    add("--exclude", action="append", metavar="TOOL", help="leave out this tool or pattern (repeatable)")
    add("--all", action="store_true", help="offer all tools again")
    add("--enable", dest="enabled", action="store_true", default=None, help="use the server")
    add("--disable", dest="enabled", action="store_false", help="keep the entry, but do not use it")
    add("--trust", dest="trust", action="store_true", default=None, help="believe what it says about its tools")
    add("--no-trust", dest="trust", action="store_false", help="treat every tool as unsafe")
    add("--sandbox", dest="sandbox", action="store_true", default=None, help="run its program in the sandbox")
    add("--no-sandbox", dest="sandbox", action="store_false", help="run its program without the sandbox")
    add("--timeout", type=float, metavar="SECONDS", help="seconds that one call may take")


def _serve(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--http", action="store_true", help="serve over HTTP instead of stdio; the first line on stdout is the address")
    add("--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1); any other needs tokens")
    add(
        "--port",
        type=port_number,
        default=None,
        metavar="N",
        help="port to listen on (default: any free one); implies --http",
    )
    add(
        "--approve",
        action="store_true",
        help="let the client answer approvals over stdio; otherwise the owner is asked",
    )
    add("--provider", default="", help="provider to use instead of the configured one")
    add("-m", "--model", default="", help="model to use instead of the configured one")
    add("-v", "--verbose", action="store_true", help="show the log on stderr")


_ACTIONS = (
    ("add", "entries", _add, "add a server; it is started once, to see its tools"),
    ("remove", "entries", _name, "remove a server, with its stored tools and sign-in"),
    ("list", "entries", _list, "list the servers and what is known of them; starts none (the default)"),
    ("configure", "entries", _configure, "show a server and its tools, or change what is offered of them"),
    ("login", "sign_in", _name, "sign in at a server, with a browser on this machine"),
    ("logout", "sign_in", _name, "forget the sign-in at a server"),
    ("serve", "serve", _serve, "serve this agent to editors and other agents, over stdio or HTTP"),
    ("test", "trial", _name, "start a server, and show what it offers; exit code 1 when it does not work"),
)
