"""Command table: the slash commands of the runtime and of plugins, and their handlers."""

from __future__ import annotations

from collections.abc import Callable

from hermes.base.errors import HermesError, did_you_mean
from hermes.contract.commands import OWN_PREFIX, SLASH_COMMANDS, SlashCommand
from hermes.host import Host
from hermes.surfaces.commands.conversation import Conversation
from hermes.surfaces.commands.handlers import (
    models,
    prompts,
    sessions,
    settings,
    status,
    tools,
    transfer,
    turns,
    work,
)
from hermes.surfaces.commands.text import columns

#: Answers with text, or raises a ``HermesError`` that says what to do.
Handler = Callable[[Conversation, str], str]


def show_help(conversation: Conversation, arguments: str) -> str:
    """List the commands, or explain one."""
    known = all_commands(conversation.host)
    if arguments:
        name = arguments.lstrip("/").lower()
        named = next((command for command in known if name == command.name or name in command.aliases), None)
        if named is None:
            raise unknown_command(name, known)
        return _explained(named)
    lines: list[str] = []
    listed = [command for command in known if conversation.lists(command)]
    for category in dict.fromkeys(command.category for command in (*listed[1:], *listed[:1])):
        rows = [(usage(command, 28), command.summary) for command in listed if command.category == category]
        lines += [category, *columns(rows, width=conversation.width), ""]
    return "\n".join([*lines, "Anything else that you type is for the model. /help COMMAND explains one."])


HANDLERS: dict[str, Handler] = {
    "help": show_help,
    "new": sessions.new,
    "clear": sessions.clear,
    "sessions": sessions.sessions,
    "resume": sessions.resume,
    "branch": sessions.branch,
    "title": sessions.title,
    "quit": sessions.leave,
    "status": status.status,
    "usage": status.usage,
    "budget": status.budget,
    "plugins": status.plugins,
    "history": turns.history,
    "retry": turns.retry,
    "init": turns.init,
    "undo": turns.undo,
    "compress": turns.compress,
    "stop": turns.stop,
    "queue": turns.queue,
    "steer": turns.steer,
    "approve": turns.approve,
    "deny": turns.deny,
    "copy": transfer.copy,
    "export": transfer.export,
    "edit": transfer.edit,
    "paste": transfer.paste,
    "children": work.children,
    "ps": work.ps,
    "todo": work.todo,
    "model": models.model,
    "reasoning": models.reasoning,
    "tools": tools.tools,
    "toolsets": tools.toolsets,
    "skills": prompts.skills,
    "mcp": tools.mcp,
    "reload-mcp": tools.reload_mcp,
    "config": settings.config,
    "mode": settings.mode,
    "yolo": settings.yolo,
}


def all_commands(host: Host) -> list[SlashCommand]:
    """Every command as data, for help and completion: the runtime's, then the plugins' and the skills by name."""
    plugins = sorted(host.plugins.commands.items())
    return [
        *(
            command._replace(name=OWN_PREFIX + command.name) if command.name in host.plugins.commands else command
            for command in SLASH_COMMANDS
        ),
        *(
            SlashCommand(name, command.description or f"from plugin {command.plugin}", command.args_hint)
            for name, command in plugins
        ),
        *_from_files(host),
    ]


def _from_files(host: Host) -> list[SlashCommand]:
    """Commands from files, then skills; of two with one name the first counts."""
    found = {command.name: command for command in reversed(prompts.skill_commands(host))}
    files = prompts.file_commands(host)
    return [*files, *(found[name] for name in sorted(found.keys() - {file.name for file in files}))]


def find_command(name: str) -> SlashCommand | None:
    """The runtime's command of that name or alias."""
    return next((command for command in SLASH_COMMANDS if name == command.name or name in command.aliases), None)


def usage(command: SlashCommand, limit: int = 1_000) -> str:
    """How a command is written; its arguments are left out when they take too much room."""
    line = f"/{command.name} {command.args_hint}".strip()
    return line if len(line) <= limit else f"/{command.name} …"


def unknown_command(name: str, known: list[SlashCommand]) -> HermesError:
    """The error that there is no such command, with those that may be meant."""
    names = [one for command in known for one in (command.name, *command.aliases)]
    return HermesError(f"there is no command /{name}{did_you_mean(name, names, otherwise='/help lists them')}")


def _explained(command: SlashCommand) -> str:
    lines = [usage(command), f"  {command.summary[:1].upper()}{command.summary[1:].rstrip('.')}."]
    if command.aliases:
        lines.append(f"  Also: {', '.join(f'/{alias}' for alias in command.aliases)}")
    if not command.while_working:
        lines.append("  Not while the agent works.")
    return "\n".join(lines)
