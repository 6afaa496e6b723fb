"""``hermes_cli.commands``: the slash commands as data, for platforms that show them in a menu."""

from __future__ import annotations

from dataclasses import dataclass

from hermes.contract.commands import BEGIN_ANEW, SLASH_COMMANDS, TERMINAL_COMMANDS, SlashCommand
from hermes.plugins.compat.names import Names
from hermes.plugins.services import PluginHost


@dataclass(frozen=True)
class CommandDef:
    """One command."""

    name: str
    description: str
    category: str
    aliases: tuple[str, ...] = ()
    args_hint: str = ""
    subcommands: tuple[str, ...] = ()
    cli_only: bool = False
    gateway_only: bool = False
    gateway_config_gate: str | None = None
    #: What becomes of it while the agent works: ``dispatch``, ``reject`` or ``interrupt_then_dispatch``.
    busy_policy: str = "reject"


def commands(host: PluginHost) -> Names:
    """The names of the module."""
    registry = [_definition(command) for command in SLASH_COMMANDS]
    by_name = {name: one for one in registry for name in (one.name, *one.aliases)}

    def resolve_command(name: str) -> CommandDef | None:
        """The command of that name or alias, with or without the slash."""
        return by_name.get(name.strip().lower().lstrip("/"))

    def is_gateway_known_command(name: str | None) -> bool:
        found = resolve_command(name or "")
        plain = (name or "").lstrip("/").replace("_", "-")
        return (found is not None and not found.cli_only) or plain in host.plugins.commands

    def should_bypass_active_session(command_name: str | None) -> bool:
        """Whether the command is carried out at once, while the agent works on another message."""
        found = resolve_command(command_name or "")
        return found is not None and found.busy_policy != "reject"

    def is_interrupt_then_dispatch(command_name: str | None) -> bool:
        """Whether the command first stops what the agent works on."""
        found = resolve_command(command_name or "")
        return found is not None and found.busy_policy == "interrupt_then_dispatch"

    def is_gateway_available(cmd: CommandDef, config_overrides: set[str] | None = None) -> bool:
        return not cmd.cli_only

    def plugin_entries() -> list[tuple[str, str, str]]:
        named = sorted(host.plugins.commands.items())
        return [(name, one.description or f"from plugin {one.plugin}", one.args_hint) for name, one in named]

    return {
        "COMMAND_REGISTRY": registry,
        "GATEWAY_KNOWN_COMMANDS": frozenset(name for name, one in by_name.items() if not one.cli_only),
        "_is_gateway_available": is_gateway_available,
        "_iter_plugin_command_entries": plugin_entries,
        # No setting of this host offers a command of the terminal in chats.
        "_resolve_config_gates": set[str],
        "is_gateway_known_command": is_gateway_known_command,
        "is_interrupt_then_dispatch": is_interrupt_then_dispatch,
        "resolve_command": resolve_command,
        "should_bypass_active_session": should_bypass_active_session,
    }


def _definition(command: SlashCommand) -> CommandDef:
    policy = "dispatch" if command.while_working else "reject"
    return CommandDef(
        command.name,
        command.summary,
        command.category,
        command.aliases,
        command.args_hint,
        command.words,
        cli_only=command.name in TERMINAL_COMMANDS,
        busy_policy="interrupt_then_dispatch" if command.name in BEGIN_ANEW else policy,
    )
