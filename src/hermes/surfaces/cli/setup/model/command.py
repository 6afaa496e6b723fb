"""``hermes model``: shows the model in use, lists the others, sets one and tests it."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Generator
from typing import TYPE_CHECKING

from hermes.surfaces.cli.arguments import JSON, Action, Argument, CommandSpec, flag

if TYPE_CHECKING:
    from hermes.surfaces.cli.setup.model.setup import ModelSetup

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


@contextlib.contextmanager
def _opened_setup(_args: argparse.Namespace) -> Generator[ModelSetup]:
    import logging

    from hermes.surfaces.cli.setup.model.setup import open_setup

    # What is worth knowing is said here; the log is for conversations.
    logging.getLogger("hermes").addHandler(logging.NullHandler())
    with open_setup() as setup:
        yield setup


COMMAND = CommandSpec(
    run="setup.model.show:show_current",
    opened=_opened_setup,
    epilog=_EXAMPLES,
    actions=(
        Action("list", "setup.model.show:run_list", "list the providers, or the models of one").takes(
            Argument("provider PROVIDER", "the provider to ask for its models", nargs="?", default=""),
            JSON,
            flag("--refresh", "ask again instead of using a recent list"),
        ),
        Action("set", "setup.model.select:run_set", "choose the model to use").takes(
            Argument("words [PROVIDER:]MODEL", "or PROVIDER MODEL", nargs="+"),
            Argument("--base-url URL", "the server's address, for provider custom", default=""),
            flag("--key-stdin", "read the key from standard input"),
            flag("--no-check", "do not ask the server whether it has the model"),
        ),
        Action("test", "setup.model.probe:run_test", "send one small request and report any problem").takes(
            Argument("words [PROVIDER:]MODEL", "instead of the model in use", nargs="*"), JSON
        ),
    ),
)
