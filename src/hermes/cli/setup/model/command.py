"""``hermes model``: shows the model in use, lists the others, sets one and tests it."""

from __future__ import annotations

import argparse

_EXAMPLES = """
examples:
  hermes model                                       show the model in use; on a terminal, pick another
  hermes model list                                  list the known providers, and which can be used
  hermes model list groq                             list the models of one of them
  hermes model set groq:openai/gpt-oss-120b          asks for a missing key without showing it
  hermes model set openrouter qwen/qwen3-8b --key-stdin < key.txt
  hermes model set custom my-model --base-url http://127.0.0.1:8000/v1
  hermes model test                                  send one small request; exit code 0 when it is answered
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the sub-commands."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EXAMPLES
    parser.set_defaults(action=_show)
    actions = parser.add_subparsers(metavar="ACTION")
    listing = actions.add_parser("list", help="list the providers, or the models of one")
    listing.add_argument(
        "provider", metavar="PROVIDER", nargs="?", default="", help="the provider to ask for its models"
    )
    listing.add_argument("--json", action="store_true", help="print one JSON document")
    listing.add_argument("--refresh", action="store_true", help="ask again instead of using a recent list")
    listing.set_defaults(action=_list)
    setting = actions.add_parser("set", help="choose the model to use")
    setting.add_argument("words", metavar="[PROVIDER:]MODEL", nargs="+", help="or PROVIDER MODEL")
    setting.add_argument("--base-url", metavar="URL", default="", help="the server's address, for provider custom")
    setting.add_argument("--key-stdin", action="store_true", help="read the key from standard input")
    setting.add_argument("--no-check", action="store_true", help="do not ask the server whether it has the model")
    setting.set_defaults(action=_set)
    testing = actions.add_parser("test", help="send one small request and report any problem")
    testing.add_argument("words", metavar="[PROVIDER:]MODEL", nargs="*", help="instead of the model in use")
    testing.add_argument("--json", action="store_true", help="print one JSON document")
    testing.set_defaults(action=_test)


def run(args: argparse.Namespace) -> int:
    """Do what was asked for."""
    import logging

    # What is worth knowing is said here; the log is for conversations.
    logging.getLogger("hermes").addHandler(logging.NullHandler())
    return args.action(args)


def _show(_args: argparse.Namespace) -> int:
    from hermes.cli.setup.model.show import show_current

    return show_current()


def _list(args: argparse.Namespace) -> int:
    from hermes.cli.setup.model.show import list_models_of, list_providers

    return list_models_of(args) if args.provider else list_providers(args)


def _set(args: argparse.Namespace) -> int:
    from hermes.cli.setup.model.select import run_set

    return run_set(args)


def _test(args: argparse.Namespace) -> int:
    from hermes.cli.setup.model.probe import run_test

    return run_test(args)
