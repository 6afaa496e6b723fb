"""The ``hermes`` command: finds the command in hand, imports only that one, and turns failures into exit codes."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from types import ModuleType

#: Command -> (module, one line of help). A module has ``configure(parser)`` and ``run(args) -> int``.
COMMANDS: dict[str, tuple[str, str]] = {
    "chat": ("hermes.cli.chat.command", "Talk to the model (the default command)."),
    "sessions": ("hermes.cli.sessions.command", "List, show, search, export, rename and delete conversations."),
    "trace": ("hermes.cli.trace.command", "Draw, list, check, export and follow past runs."),
    "plugins": ("hermes.cli.plugins.command", "List, enable, install, check and start plugins."),
    "hooks": ("hermes.cli.hooks.command", "List, test, accept and revoke hook commands; print the hook contract."),
    "approvals": ("hermes.cli.approvals.command", "Show, explain and take back what may run without asking."),
    "usage": ("hermes.cli.usage", "Show what models have been used for how much."),
    "model": ("hermes.cli.model", "Show, list, set and test the model that answers."),
    "auth": ("hermes.cli.auth.command", "Store, show and remove the keys and sign-ins of providers."),
    "local": ("hermes.cli.local", "Get, show and remove the model that runs on this machine and needs no key."),
    "a2a": ("hermes.cli.a2a.command", "Serve this agent to other agents, and call them."),
    "config": ("hermes.cli.config.command", "Show and change the configuration."),
    "logs": ("hermes.cli.logs", "Show the log, or follow it."),
    "doctor": ("hermes.cli.doctor.command", "Check the setup from end to end, with a fix for what is wrong."),
}

DEFAULT_COMMAND = "chat"


def main(argv: list[str] | None = None) -> int:
    """Run one command line and return its exit code."""
    arguments = sys.argv[1:] if argv is None else argv
    if arguments and arguments[0] in ("--version", "-V"):
        from hermes.version import __version__

        print(f"hermes {__version__}")
        return 0
    _prepare_output()
    try:
        code = _run(arguments)
        sys.stdout.flush()
        return code
    except SystemExit as exit_:
        return _exit_code(exit_)
    except BaseException as error:
        from hermes.cli.failures import report

        return report(error, arguments)


def _prepare_output() -> None:
    """See to it that printing never fails for want of a stream or of a character."""
    if getattr(sys, "stdout", None) is None or getattr(sys, "stderr", None) is None:
        import os

        nowhere = open(os.devnull, "w")  # noqa: PTH123, SIM115  (kept open for the rest of the process)
        sys.stdout, sys.stderr = sys.stdout or nowhere, sys.stderr or nowhere
    if getattr(sys.stdout, "errors", "") in ("strict", "surrogateescape"):
        sys.stdout.reconfigure(errors="replace")  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]


def _run(arguments: list[str]) -> int:
    if arguments and arguments[0] in ("--help", "-h"):
        return _print_help()
    if not arguments or arguments[0].startswith("-"):
        return _run_command(DEFAULT_COMMAND, arguments)
    name, rest = arguments[0], arguments[1:]
    if name == "help":
        return _run_help(rest)
    if name not in COMMANDS:
        return _run_plugin_command(name, rest)
    return _run_command(name, rest)


def _run_command(name: str, arguments: list[str]) -> int:
    module, parser = _load(name)
    return module.run(parser.parse_args(arguments))


def _load(name: str) -> tuple[ModuleType, argparse.ArgumentParser]:
    from importlib import import_module

    from hermes.cli.arguments import Parser

    module_name, summary = COMMANDS[name]
    module = import_module(module_name)
    parser = Parser(prog=f"hermes {name}", description=summary)
    module.configure(parser)
    return module, parser


def _run_help(names: list[str]) -> int:
    if not names or names[0].startswith("-"):
        return _print_help()
    if names[0] not in COMMANDS:
        return _run_plugin_command(names[0], [*names[1:], "--help"])
    return _run_command(names[0], [*names[1:], "--help"])


def _run_plugin_command(name: str, arguments: list[str]) -> int:
    from hermes.cli.plugins.plugin_commands import run_plugin_command

    code, added = run_plugin_command(name, arguments)
    return _unknown_command(name, added) if code is None else code


def _print_help() -> int:
    width = max(map(len, COMMANDS))
    print("usage: hermes [command] [options]\n\ncommands:")
    for name, (_, summary) in COMMANDS.items():
        print(f"  {name:<{width}}  {summary}")
    print(
        "\n'hermes' alone, or with options only, is 'hermes chat'."
        "\n'hermes help COMMAND' explains one command; 'hermes --version' prints the version."
        "\nEnabled plugins may add commands; 'hermes plugins info NAME --load' shows those of a plugin."
    )
    return 0


def _unknown_command(name: str, added: list[str]) -> int:
    from difflib import get_close_matches

    from hermes.cli.terminal import plain

    close = get_close_matches(name, [*COMMANDS, "help", *added], n=1, cutoff=0.5)
    hint = f"did you mean {plain(close[0])!r}?" if close else f"commands are {plain(', '.join([*COMMANDS, *added]))}."
    print(f"Error: unknown command {plain(name)!r}; {hint}", file=sys.stderr)
    return 2


def _exit_code(exit_: SystemExit) -> int:
    if exit_.code is None:
        return 0
    if isinstance(exit_.code, int):
        return exit_.code
    print(exit_.code, file=sys.stderr)
    return 1
