"""Dispatch of slash commands: the runtime's own, and those that plugins registered."""

from __future__ import annotations

import logging
import os
import re

import msgspec

from hermes.base.errors import HermesError, Interrupted, did_you_mean
from hermes.base.scope import Scope, current_scope
from hermes.contract.commands import COMMAND_NAMES, OWN_PREFIX
from hermes.hooks.callback import is_awaitable
from hermes.hooks.threads.timed_call import TimedCall
from hermes.host import Host
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
    from hermes.surfaces.commands.table import find_command

    found = _COMMAND.fullmatch(line.strip())
    if found is None:
        return CommandAnswer(error=f"{line.strip()[:40]!r} is not a command; /help lists them")
    name, arguments = found[1].lower(), (found[2] or "").strip()
    command = find_command(name.removeprefix(OWN_PREFIX))
    if command is None or (command.yields and name in conversation.host.plugins.commands):
        raw = line.strip()[len(name) + 2 :]  # all that follows the name and the blank after it
        answer = (
            _run_plugin_command(conversation, name, raw)
            or _run_file(conversation, name, raw)
            or _run_skill(conversation, name, raw)
        )
        return answer or _unknown(conversation.host, name)
    if command.at_prompt and not conversation.surface.is_live:
        return CommandAnswer(error=f"/{command.name} needs an interactive prompt: start one with 'hermes chat'")
    if conversation.surface.is_working and not command.while_working:
        return CommandAnswer(error=f"/{command.name} has to wait: the agent is working. /stop stops it")
    return _run_built_in(conversation, command.name, arguments)


def _run_built_in(conversation: Conversation, name: str, arguments: str) -> CommandAnswer:
    from hermes.surfaces.commands.table import HANDLERS

    redact = conversation.host.redactor.redact
    try:
        return CommandAnswer(text=redact(HANDLERS[name](conversation, arguments)))
    except HermesError as error:
        return CommandAnswer(error=redact(str(error)))
    except Interrupted:
        return CommandAnswer(error=f"/{name} was interrupted")
    except Exception as error:
        log.exception("command /%s failed", name)
        return CommandAnswer(error=redact(f"/{name} failed: {type(error).__name__}: {error}"))


def _unknown(host: Host, name: str) -> CommandAnswer:
    from hermes.surfaces.commands.table import all_commands

    known = [one for command in all_commands(host) for one in (command.name, *command.aliases)]
    hint = did_you_mean(name, known, otherwise="/help lists them")
    return CommandAnswer(error=f"there is no command /{name}{hint}")


def _run_file(conversation: Conversation, name: str, arguments: str) -> CommandAnswer | None:
    """Run the command that a file of the project or of the user defines; None when there is none."""
    from hermes.surfaces.commands.handlers.prompt_files import run_file_command

    redact = conversation.host.redactor.redact
    try:
        text = run_file_command(conversation, name, arguments)
    except HermesError as error:
        return CommandAnswer(error=redact(str(error)))
    except Interrupted:
        return CommandAnswer(error=f"/{name} was interrupted")
    return None if text is None else CommandAnswer(text=redact(text))


def _run_skill(conversation: Conversation, name: str, arguments: str) -> CommandAnswer | None:
    """Have the agent use the skill of that name; None when there is none."""
    from hermes.surfaces.commands.handlers.skills import run_skill

    redact = conversation.host.redactor.redact
    try:
        text = run_skill(conversation, name, arguments)
    except HermesError as error:
        return CommandAnswer(error=redact(str(error)))
    return None if text is None else CommandAnswer(text=redact(text))


def _run_plugin_command(conversation: Conversation, name: str, arguments: str) -> CommandAnswer | None:
    """Run the command of a plugin; None when none has one of that name.

    What the plugin asks a model or a tool meanwhile belongs to the session, and ends when the person stops the command.
    """
    host = conversation.host
    command = host.plugins.commands.get(name)
    if command is None:
        return None
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
