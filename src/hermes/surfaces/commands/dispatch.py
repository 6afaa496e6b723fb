"""Dispatch of slash commands: the runtime's own, and those that plugins registered."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable

import msgspec

from hermes.base.errors import HermesError, Interrupted
from hermes.base.scope import Scope, current_scope
from hermes.contract.commands import COMMAND_NAMES, OWN_PREFIX
from hermes.hooks.callback import is_awaitable
from hermes.hooks.threads.timed_call import TimedCall
from hermes.host import Host
from hermes.plugins.registry import Command
from hermes.surfaces.commands.announcement import announce_command
from hermes.surfaces.commands.conversation import Conversation

log = logging.getLogger("hermes.commands")

_COMMAND = re.compile(r"/([a-zA-Z][\w-]*(?::[\w-]+)?)(?:\s+(.*))?\s*", re.DOTALL)


class CommandAnswer(msgspec.Struct, frozen=True):
    """The answer of a command: plain text, without secrets. Its surface removes terminal control sequences."""

    text: str = ""
    error: str = ""


def is_command(host: Host, line: str) -> bool:
    """Whether a line is a command. ``/etc/hosts`` and ``/tmp is full`` are not: there is such a path."""
    found = _COMMAND.fullmatch(line.strip())
    if found is None:
        return False
    name = found[1].lower()
    return (
        name.removeprefix(OWN_PREFIX) in COMMAND_NAMES
        or name in host.plugins.commands
        or not os.path.lexists(f"/{found[1]}")
    )


def run_command(conversation: Conversation, line: str) -> CommandAnswer:
    """Run ``/name arguments``. Nothing is printed, and nothing but the end of the process is raised."""
    from hermes.surfaces.commands.table import HANDLERS, find_command

    found = _COMMAND.fullmatch(line.strip())
    if found is None:
        return CommandAnswer(error=f"{line.strip()[:40]!r} is not a command; /help lists them")
    name, arguments = found[1].lower(), (found[2] or "").strip()
    command = find_command(name.removeprefix(OWN_PREFIX))
    of_plugin = conversation.host.plugins.commands.get(name)
    raw = line.strip()[len(name) + 2 :]  # all that follows the name and the blank after it
    if of_plugin is not None and (command is None or command.yields):
        announce_command(conversation, name, name, raw)
        return _run_plugin_command(conversation, of_plugin, name, raw)
    if command is None:
        return _answered(conversation, name, lambda: _run_stored(conversation, name, raw))
    if command.at_prompt and not conversation.surface.is_live:
        return CommandAnswer(error=f"/{command.name} needs an interactive prompt: start one with 'hermes chat'")
    if conversation.surface.is_working and not command.while_working:
        return CommandAnswer(error=f"/{command.name} has to wait: the agent is working. /stop stops it")
    announce_command(conversation, command.name, name, raw)
    return _answered(conversation, command.name, lambda: HANDLERS[command.name](conversation, arguments))


def _answered(conversation: Conversation, name: str, run: Callable[[], str]) -> CommandAnswer:
    redact = conversation.host.redactor.redact
    try:
        return CommandAnswer(text=redact(run()))
    except HermesError as error:
        return CommandAnswer(error=redact(str(error)))
    except Interrupted:
        return CommandAnswer(error=f"/{name} was interrupted")
    except Exception as error:
        log.exception("command /%s failed", name)
        return CommandAnswer(error=redact(f"/{name} failed: {type(error).__name__}: {error}"))


def _run_stored(conversation: Conversation, name: str, arguments: str) -> str:
    """Run the command that a file of the project or of the user defines, or have the agent use the skill."""
    from hermes.surfaces.commands.handlers.prompts import run_file_command, run_skill
    from hermes.surfaces.commands.table import all_commands, unknown_command

    for run in (run_file_command, run_skill):
        text = run(conversation, name, arguments)
        if text is not None:
            return text
    raise unknown_command(name, all_commands(conversation.host))


def _run_plugin_command(conversation: Conversation, command: Command, name: str, arguments: str) -> CommandAnswer:
    """Run the command of a plugin.

    What the plugin asks a model or a tool meanwhile belongs to the session, and ends when the person stops the command.
    """
    host = conversation.host
    interrupt = conversation.surface.interrupt()
    scope = Scope(session_id=conversation.session_id, platform=host.options.platform, interrupt=interrupt)
    token = current_scope.set(scope)
    try:
        # On a thread of the plugin's, so that stopping the command works while it blocks. There is no time limit.
        call = TimedCall(command.plugin)
        value, error = host.hooks.runner.run(lambda: command.handler(arguments), {}, call, scope.session_id)
        if error is not None:
            raise error
        if is_awaitable(value):
            value = host.hooks.loop.run(value, f"command /{name} of plugin {command.plugin!r}")
    except Interrupted:
        return CommandAnswer(error=f"/{name} was interrupted")
    except Exception as error:
        log.warning("command /%s of plugin %r failed", name, command.plugin, exc_info=True)
        text = host.redactor.redact(f"{type(error).__name__}: {error}")
        return CommandAnswer(error=f"/{name} (plugin {command.plugin}): {text}")
    finally:
        current_scope.reset(token)
    return CommandAnswer(text="" if value is None else str(value))
