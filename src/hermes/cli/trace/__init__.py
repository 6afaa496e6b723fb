"""``hermes trace``: past runs drawn, listed, checked, exported, followed and summed up."""

from __future__ import annotations

import argparse
import sys
from importlib import import_module

_EXAMPLES = """
A session's id may be shortened as long as only one session starts with it. Left out, it is the session used last.

examples:
  hermes trace show                                  what the last session did, when, and for how long
  hermes trace export 20250301_1412 --to atif -o run.json
  hermes trace export --to otlp | curl -sf -H 'content-type: application/json' -d @- URL
  hermes trace tail --follow                         what is recorded in any session, as it lands
  hermes trace stats --by tool --since 7d
  hermes trace verify --all                          every start has its one end
  hermes trace verify run.json                       a file of the formats atif and atof
"""

#: Action -> (module, one line of help). A module has ``configure(parser)`` and ``run(args) -> int``.
_ACTIONS = {
    "list": ("listing", "list the sessions used last, with what they did and took"),
    "show": ("showing", "draw what a session did, when, and for how long"),
    "export": ("exporting", "write a session in a format of other tools, secrets masked"),
    "tail": ("following", "print what was recorded last, and what is added to it"),
    "stats": ("summing", "show how long models, tools and plugins take, and what they cost"),
    "verify": ("checking", "check that a session, or a file, is whole: every start has its one end"),
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the actions."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EXAMPLES
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    for name, (module, summary) in _ACTIONS.items():
        made = actions.add_parser(name, help=summary, description=summary[0].upper() + summary[1:] + ".")
        import_module(f"hermes.cli.trace.{module}").configure(made)


def run(args: argparse.Namespace) -> int:
    """Do what was asked for."""
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        # Runs hold any character, and not every terminal can show them all.
        reconfigure(errors="replace")
    return import_module(f"hermes.cli.trace.{_ACTIONS[args.action][0]}").run(args)
