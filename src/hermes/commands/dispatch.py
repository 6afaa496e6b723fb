"""Runs the slash commands that plugins registered."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from hermes.hooks.callback import is_awaitable
from hermes.host import Host

log = logging.getLogger("hermes.commands")


@dataclass(frozen=True, slots=True)
class CommandAnswer:
    """What a command had to say."""

    text: str = ""
    error: str = ""


def run_plugin_command(host: Host, line: str) -> CommandAnswer | None:
    """Run ``/name arguments``. None when no plugin registered that name: a path may start with a slash too."""
    name, _, arguments = line[1:].partition(" ")
    command = host.plugins.commands.get(name.lower())
    if command is None:
        return None
    try:
        value = command.handler(arguments)
        if is_awaitable(value):
            value = host.hooks.background.run(value, f"command /{name} of plugin {command.plugin!r}")
    except Exception as error:
        log.warning("command /%s of plugin %r failed", name, command.plugin, exc_info=True)
        return CommandAnswer(error=f"/{name} (plugin {command.plugin}): {type(error).__name__}: {error}")
    return CommandAnswer(text="" if value is None else str(value))
