"""Completion of the arguments of commands."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from hermes.base.config.listing import list_settings
from hermes.base.config.messages import dotted
from hermes.contract.commands import SlashCommand
from hermes.surfaces.commands.conversation import Conversation
from hermes.surfaces.commands.handlers.models import known_models
from hermes.surfaces.commands.handlers.sessions import session_choices
from hermes.surfaces.commands.table import all_commands
from hermes.tools.toolsets import toolsets

Candidates = tuple[str, ...]
#: A word, the text that is shown for it, and a remark.
Choice = tuple[str, str, str]


def commands_to_complete(conversation: Conversation) -> list[SlashCommand]:
    """Every command, with all words that may follow its name, as far as they can be listed. Cheap enough for every key.

    A command that is not in ``_MAKERS`` has them itself.
    """
    return [
        command._replace(words=_MAKERS[command.name](conversation)) if command.name in _MAKERS else command
        for command in all_commands(conversation.host)
    ]


def argument_choices(conversation: Conversation, name: str) -> list[Choice]:
    """Arguments of a command that are chosen by what they stand for, such as the title of a session."""
    return session_choices(conversation) if name == "resume" else []


def _commands(conversation: Conversation) -> Candidates:
    return tuple(command.name for command in all_commands(conversation.host))


def _models(conversation: Conversation) -> Candidates:
    return tuple(known_models(conversation.host.config))


def _tools(conversation: Conversation) -> Candidates:
    offered = {tool.name for tool in conversation.session.offered}
    return _switched(sorted(conversation.host.tools.all()), offered.__contains__)


def _toolsets(conversation: Conversation) -> Candidates:
    offered = {tool.name for tool in conversation.session.offered}
    known = toolsets(conversation.host.tools)
    return _switched(sorted(known), lambda name: known[name] <= offered)


def _switched(names: Iterable[str], is_on: Callable[[str], bool]) -> Candidates:
    return tuple(f"{'disable' if is_on(name) else 'enable'} {name}" for name in names)


def _settings(conversation: Conversation) -> Candidates:
    keys = [dotted(setting.path) for setting in list_settings(conversation.host.config)]
    return tuple(dict.fromkeys([key.partition(".")[0] for key in keys] + keys))


_MAKERS: dict[str, Callable[[Conversation], Candidates]] = {
    "help": _commands,
    "model": _models,
    "tools": _tools,
    "toolsets": _toolsets,
    "config": _settings,
}
