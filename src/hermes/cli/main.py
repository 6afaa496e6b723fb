"""Entry point of ``hermes``: imports only the requested command, and turns failures into exit codes."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from types import ModuleType

#: Command -> (module, one line of help). A module has ``configure(parser)`` and ``run(args) -> int``.
COMMANDS: dict[str, tuple[str, str]] = {
    "chat": ("hermes.cli.chat.command", "Chat with the model (the default command)."),
    "sessions": ("hermes.cli.runs.sessions.command", "List, show, search, export, rename and delete sessions."),
    "checkpoints": ("hermes.cli.runs.checkpoints", "List, show and restore files as they were before a turn."),
    "trace": ("hermes.cli.runs.trace.command", "List, draw, export, follow and verify past runs."),
    "replay": (
        "hermes.cli.runs.record.replay",
        "Run a recorded session again, without network, and show what differs.",
    ),
    "fork": ("hermes.cli.runs.record.fork", "Continue a recorded session differently, from one of its steps on."),
    "audit": ("hermes.cli.runs.record.audit", "Seal sessions with an SSH key, export and verify them as evidence."),
    "test": ("hermes.cli.runs.record.case", "Turn recorded runs into tests, and run them without network or key."),
    "eval": ("hermes.cli.runs.record.evaluate", "Run a dataset with several models and score the answers."),
    "policy": ("hermes.cli.runs.record.policy", "Judge recorded tool calls by other rules or a plugin."),
    "plugins": ("hermes.cli.extend.plugins.command", "List, enable, install, check and create plugins."),
    "skills": ("hermes.cli.extend.skills.command", "List, add, check and remove skills."),
    "hooks": (
        "hermes.cli.extend.hooks.command",
        "List, test, accept and revoke hook commands; print the hook contract.",
    ),
    "approvals": ("hermes.cli.setup.approvals", "Show, explain and revoke allowed commands."),
    "usage": ("hermes.cli.runs.usage", "Show token use and cost."),
    "model": ("hermes.cli.setup.model.command", "Show, list, set and test the model."),
    "auth": ("hermes.cli.setup.auth.command", "Add, list and remove API keys and sign-ins."),
    "local": ("hermes.cli.setup.local", "Install, show and remove the embedded model, which needs no key."),
    "a2a": ("hermes.cli.serve.a2a.command", "Serve this agent to other agents, and call them."),
    "api": ("hermes.cli.serve.api", "Serve this agent to programs that use OpenAI's API."),
    "gateway": ("hermes.cli.serve.gateway.command", "Run this agent on chat platforms; let users in."),
    "serve": (
        "hermes.cli.serve.cluster.serve",
        "Start and supervise the processes of serve.commands: servers and workers.",
    ),
    "worker": ("hermes.cli.serve.cluster.worker", "Run turns that others submit, beside other workers (PostgreSQL)."),
    "workers": ("hermes.cli.serve.cluster.workers", "List, drain and evict the workers of a cluster."),
    "mcp": ("hermes.cli.extend.mcp.command", "Add, list, test and configure MCP servers; serve this agent as one."),
    "acp": ("hermes.cli.serve.acp", "Serve this agent to an editor, over the Agent Client Protocol."),
    "web": ("hermes.cli.serve.web", "Show sessions, timelines, approvals and costs in a browser, and chat there."),
    "cron": ("hermes.cli.serve.cron", "Run prompts at set times: add, list, change and run schedules."),
    "memory": ("hermes.cli.setup.memory", "Show the notes and the memory provider in use; choose another."),
    "trust": ("hermes.cli.setup.trust", "List, add and remove the project folders that you trust."),
    "install": (
        "hermes.cli.setup.install",
        "Install what an extra needs, such as a2a or otel, into this environment.",
    ),
    "config": ("hermes.cli.setup.config", "Show and change the configuration."),
    "db": ("hermes.cli.setup.db", "Show, migrate and copy the journal: a file of the home, or PostgreSQL."),
    "logs": ("hermes.cli.runs.logs", "Show or follow the log."),
    "doctor": ("hermes.cli.doctor.command", "Check the setup and suggest fixes."),
    "completion": ("hermes.cli.setup.completion", "Print a completion script for bash, zsh or fish."),
}

DEFAULT_COMMAND = "chat"

#: More than a prompt or one answer allocates until it is there. Nearly all of it are modules, which stay.
_START_UP_OBJECTS = 120_000
#: How many objects may be added before the next look for garbage. Python's own 700 cost a busy server 3 % of its time.
_NEW_OBJECTS = 10_000


def main(argv: list[str] | None = None) -> int:
    """Run one command line and return its exit code."""
    arguments = sys.argv[1:] if argv is None else argv
    if arguments and arguments[0] in ("--version", "-V", "version"):
        from hermes.version import __version__

        print(f"hermes {__version__}")
        return 0
    _prepare_output()
    if argv is None:
        _postpone_collection()
    code = _run_and_report(arguments)
    if argv is None:
        _skip_last_collection()
        if _has_other_threads() or _has_plugin_code():
            from hermes.cli.failures import end_in_time

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


def _skip_last_collection() -> None:
    """Leave the memory to the system, which takes it back anyway; a plugin may have objects that expect their end."""
    if not _has_plugin_code():
        import gc

        gc.freeze()


def _run_and_report(arguments: list[str]) -> int:
    try:
        code = _run(arguments)
        sys.stdout.flush()
        return code
    except SystemExit as exit_:
        return _exit_code(exit_)
    except BaseException as error:
        from hermes.cli.failures import report

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
    module, parser = _load(name)
    args = parser.parse_args(arguments)
    if name == DEFAULT_COMMAND:  # draws for itself
        return module.run(args)
    from hermes.cli.terminal import wrapped_output

    with wrapped_output():
        return module.run(args)


def _load(name: str) -> tuple[ModuleType, argparse.ArgumentParser]:
    from importlib import import_module

    from hermes.cli.arguments import CommandParser

    module_name, summary = COMMANDS[name]
    module = import_module(module_name)
    parser = CommandParser(prog=f"hermes {name}", description=summary)
    module.configure(parser)
    return module, parser


def _run_help(names: list[str]) -> int:
    if not names or names[0].startswith("-"):
        return _print_help()
    if names[0] not in COMMANDS:
        return _run_plugin_command(names[0], [*names[1:], "--help"])
    return _run_command(names[0], [*names[1:], "--help"])


def _run_plugin_command(name: str, arguments: list[str]) -> int:
    from hermes.cli.extend.plugins.plugin_commands import run_plugin_command

    code, added = run_plugin_command(name, arguments)
    return _unknown_command(name, added) if code is None else code


def _print_help() -> int:
    if sys.stdout.isatty():
        from hermes.cli.terminal import wrapped_output

        with wrapped_output():
            return _write_help()
    return _write_help()


def _write_help() -> int:
    width = max(map(len, COMMANDS))
    print("usage: hermes [command] [options]\n       hermes 'a message'\n\ncommands:")
    for name, (_, summary) in COMMANDS.items():
        print(f"  {name:<{width}}  {summary}")
    print(
        "\n'hermes' without a command is 'hermes chat'."
        "\n'hermes help COMMAND' explains one command; 'hermes --version' prints the version."
        "\nPlugins may add commands; 'hermes plugins info NAME --load' shows them."
    )
    return 0


def _unknown_command(name: str, added: list[str]) -> int:
    from hermes.cli.terminal import plain, print_error
    from hermes.contract.commands import COMMAND_NAMES
    from hermes.errors import did_you_mean

    name = plain(name)
    if name in COMMAND_NAMES:
        hint = f"; /{name} is a command of the prompt, which 'hermes' alone opens."
    else:
        known = [*COMMANDS, "help", "version", *map(plain, added)]
        otherwise, then = "'hermes help' lists the commands", f"As a message: hermes -- {name}"
        hint = did_you_mean(name, known, otherwise=otherwise, then=then)
    print_error(f"unknown command {name!r}{hint}")
    return 2


def _exit_code(exit_: SystemExit) -> int:
    if exit_.code is None:
        return 0
    if isinstance(exit_.code, int):
        return exit_.code
    print(exit_.code, file=sys.stderr)
    return 1
