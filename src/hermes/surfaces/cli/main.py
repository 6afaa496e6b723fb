"""Entry point of ``hermes``: imports only the requested command, and turns failures into exit codes."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hermes.host import Host
    from hermes.plugins.registry import CliCommand
    from hermes.surfaces.cli.arguments import CommandParser, CommandSpec

#: More than a prompt or one answer allocates until it is there. Nearly all of it are modules, which stay.
_START_UP_OBJECTS = 120_000
#: How many objects may be added before the next look for garbage. Python's own 700 cost a busy server 3 % of its time.
_NEW_OBJECTS = 10_000


def main(argv: list[str] | None = None) -> int:
    """Run one command line and return its exit code."""
    arguments = sys.argv[1:] if argv is None else argv
    if arguments and arguments[0] in ("--version", "-V", "version"):
        from hermes.base.version import __version__

        print(f"hermes {__version__}")
        return 0
    _prepare_output()
    if argv is None:
        _postpone_collection()
    code = _run_and_report(arguments)
    if argv is None:
        if not _has_plugin_code():  # a plugin may have objects that expect their end
            import gc

            gc.freeze()  # the system takes the memory back anyway
        if _has_other_threads() or _has_plugin_code():
            from hermes.surfaces.cli.failures import end_in_time

            end_in_time(code)
    return code


def _postpone_collection() -> None:
    """Look for garbage only when the program is loaded, and then no longer in what was loaded: it is not garbage."""
    import gc

    usual = gc.get_threshold()

    def resume(phase: str, _info: dict[str, int]) -> None:
        if phase == "stop":
            gc.callbacks.remove(resume)
            gc.freeze()
            gc.set_threshold(_NEW_OBJECTS, *usual[1:])

    gc.callbacks.append(resume)
    gc.set_threshold(_START_UP_OBJECTS)


def _run_and_report(arguments: list[str]) -> int:
    try:
        code = _run(arguments)
        sys.stdout.flush()
        return code
    except SystemExit as ended:
        if ended.code is None or isinstance(ended.code, int):
            return ended.code or 0
        print(ended.code, file=sys.stderr)
        return 1
    except BaseException as error:
        from hermes.surfaces.cli.failures import report

        return report(error, arguments)


def _has_plugin_code() -> bool:
    return "hermes.plugins.loading.modules" in sys.modules


def _has_other_threads() -> bool:
    """Whether a thread of a plugin may keep the process from ending."""
    threading = sys.modules.get("threading")
    return threading is not None and sum(not thread.daemon for thread in threading.enumerate()) > 1


def _prepare_output() -> None:
    """Make sure that printing never fails because of a missing stream or character."""
    if getattr(sys, "stdout", None) is None or getattr(sys, "stderr", None) is None:
        import os

        null_device = open(os.devnull, "w")  # noqa: PTH123, SIM115  (kept open for the rest of the process)
        sys.stdout, sys.stderr = sys.stdout or null_device, sys.stderr or null_device
    if getattr(sys.stdout, "errors", "") in ("strict", "surrogateescape"):
        sys.stdout.reconfigure(errors="replace")  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]


def _run(arguments: list[str]) -> int:
    from hermes.surfaces.cli.commands import COMMANDS, DEFAULT_COMMAND

    if arguments and arguments[0] in ("--help", "-h"):
        return _run_help([])
    # A command is one word, so a text with a blank is a message.
    if not arguments or arguments[0].startswith("-") or " " in arguments[0].strip():
        return _run_command(DEFAULT_COMMAND, arguments)
    name, rest = arguments[0], arguments[1:]
    if name == "help":
        return _run_help(rest)
    if name not in COMMANDS:
        return _run_plugin_command(name, rest)
    return _run_command(name, rest)


def _run_command(name: str, arguments: list[str]) -> int:
    from hermes.surfaces.cli.arguments import execute
    from hermes.surfaces.cli.commands import DEFAULT_COMMAND

    command, parser = load_command(name)
    args = parser.parse_args(arguments)
    if name == DEFAULT_COMMAND:  # draws for itself
        return execute(command, args)
    from hermes.surfaces.cli.terminal import wrapped_output

    with wrapped_output():
        return execute(command, args)


def load_command(name: str) -> tuple[CommandSpec, CommandParser]:
    """What a command declares, and the parser that is made of it. Imports the module of that command alone."""
    from importlib import import_module

    from hermes.surfaces.cli.arguments import make_parser
    from hermes.surfaces.cli.commands import COMMANDS

    module, summary = COMMANDS[name]
    command: CommandSpec = import_module(module, "hermes.cli").COMMAND
    return command, make_parser(command, f"hermes {name}", summary)


def _run_help(names: list[str]) -> int:
    from hermes.surfaces.cli.commands import COMMANDS

    if not names or names[0].startswith("-"):
        return _print_help()
    if names[0] not in COMMANDS:
        return _run_plugin_command(names[0], [*names[1:], "--help"])
    return _run_command(names[0], [*names[1:], "--help"])


def _run_plugin_command(name: str, arguments: list[str]) -> int:
    """Run ``hermes <name>`` of an enabled plugin. Plugins are loaded only here, when any are enabled."""
    from hermes.base.config import apply_env, hermes_home, load_config, load_env_file
    from hermes.base.errors import ConfigError

    home = hermes_home()
    try:
        apply_env(load_env_file(home))
        config = load_config(home).config
    except ConfigError:
        return _unknown_command(name, [])
    if not config.plugins.enabled:
        return _unknown_command(name, [])
    from hermes.base.log import setup_logging
    from hermes.base.sanitize import Redactor
    from hermes.host import Host

    redactor = Redactor()  # the host adds the secrets of the home to it
    setup_logging(home, redactor=redactor)
    with Host(home, config, redactor=redactor) as host:
        commands = host.plugins.cli_commands
        if name in commands:
            return _call_plugin(host, commands[name], arguments)
    return _unknown_command(name, sorted(commands))


def _call_plugin(host: Host, command: CliCommand, arguments: list[str]) -> int:
    import logging

    from hermes.base.errors import HermesError, PluginError
    from hermes.hooks.callback import describe, is_awaitable
    from hermes.surfaces.cli.arguments import CommandParser

    label = f"command {command.name!r} of plugin {command.plugin!r}"
    parser = CommandParser(prog=f"hermes {command.name}", description=command.description or command.help)
    try:
        command.setup_fn(parser)
        args = parser.parse_args(arguments)
        handler = command.handler_fn or getattr(args, "func", None)
        if handler is None:
            raise PluginError(f"{label} has no handler")
        result = handler(args)
        if is_awaitable(result):
            result = host.hooks.loop.run(result, label)
    except HermesError:
        raise
    except Exception as error:
        logging.getLogger("hermes.plugins").warning("%s failed", label, exc_info=True)
        raise PluginError(f"{label} failed: {describe(error)}") from error
    return result if isinstance(result, int) else 0


def _print_help() -> int:
    if sys.stdout.isatty():
        from hermes.surfaces.cli.terminal import wrapped_output

        with wrapped_output():
            return _write_help()
    return _write_help()


def _write_help() -> int:
    from hermes.surfaces.cli.commands import COMMANDS, GROUPS

    width = max(map(len, COMMANDS))
    print("usage: hermes [command] [options]\n       hermes 'a message'")
    for heading, commands in GROUPS.items():
        print(f"\n{heading}:")
        for name, (_, summary) in commands.items():
            print(f"  {name:<{width}}  {summary}")
    print(
        "\n'hermes' without a command is 'hermes chat'."
        "\n'hermes help COMMAND' explains one command; 'hermes --version' prints the version."
        "\nPlugins may add commands; 'hermes plugins info NAME --load' shows them."
    )
    return 0


def _unknown_command(name: str, added: list[str]) -> int:
    from hermes.base.errors import did_you_mean
    from hermes.contract.commands import COMMAND_NAMES
    from hermes.surfaces.cli.commands import COMMANDS
    from hermes.surfaces.cli.terminal import plain, print_error

    name = plain(name)
    if name in COMMAND_NAMES:
        hint = f"; /{name} is a command of the prompt, which 'hermes' alone opens."
    else:
        known = [*COMMANDS, "help", "version", *map(plain, added)]
        otherwise, then = "'hermes help' lists the commands", f"As a message: hermes -- {name}"
        hint = did_you_mean(name, known, otherwise=otherwise, then=then)
    print_error(f"unknown command {name!r}{hint}")
    return 2
