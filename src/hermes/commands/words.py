"""What the arguments of a command can be right now, for completion."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from hermes.commands.conversation import Conversation
from hermes.commands.models import known_models
from hermes.commands.table import all_commands
from hermes.config.listing import list_settings
from hermes.config.wording import dotted
from hermes.contract.commands import SlashCommand
from hermes.tools.toolsets import toolsets

Words = tuple[str, ...]


def argument_words(conversation: Conversation, command: SlashCommand) -> Words:
    """Everything that may follow the name of a command, as far as it can be listed. Cheap enough for every key."""
    make = _MAKERS.get(command.name)
    return command.words if make is None else make(conversation)


def _commands(conversation: Conversation) -> Words:
    return tuple(command.name for command in all_commands(conversation.host))


def _models(conversation: Conversation) -> Words:
    return tuple(known_models(conversation.host.config))


def _tools(conversation: Conversation) -> Words:
    offered = {tool.name for tool in conversation.session.offered}
    return _switched(sorted(conversation.host.tools.all()), offered.__contains__)


def _toolsets(conversation: Conversation) -> Words:
    offered = {tool.name for tool in conversation.session.offered}
    known = toolsets(conversation.host.tools)
    return _switched(sorted(known), lambda name: known[name] <= offered)


def _switched(names: Iterable[str], is_on: Callable[[str], bool]) -> Words:
    return tuple(f"{'disable' if is_on(name) else 'enable'} {name}" for name in names)


def _sessions(conversation: Conversation) -> Words:
    return tuple(conversation.listed)


def _settings(conversation: Conversation) -> Words:
    keys = [dotted(setting.path) for setting in list_settings(conversation.host.config)]
    return tuple(dict.fromkeys([key.partition(".")[0] for key in keys] + keys))


_MAKERS: dict[str, Callable[[Conversation], Words]] = {
    "help": _commands,
    "model": _models,
    "tools": _tools,
    "toolsets": _toolsets,
    "resume": _sessions,
    "config": _settings,
}
