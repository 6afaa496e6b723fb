"""Slash commands of ``hermes chat --query``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TextIO

import msgspec

from hermes.agent.session import Session
from hermes.base.scope import Interrupt
from hermes.host import Host
from hermes.surfaces.cli.terminal import one_line, plain, print_error
from hermes.surfaces.commands.conversation import Conversation
from hermes.surfaces.commands.dispatch import CommandAnswer, is_command, run_command
from hermes.surfaces.commands.surface import OneShotSurface, UserMessage


class CommandOutcome(msgspec.Struct, frozen=True):
    """The result of the command."""

    succeeded: bool
    #: A message of the command for the model, to be sent in ``session``.
    message: UserMessage | None
    session: Session | None


def run_one_command(
    host: Host, line: str, opened: Callable[[], Session], interrupt: Interrupt, stdout: TextIO
) -> CommandOutcome | None:
    """Run ``/name …`` in the session that ``opened`` returns. None when the line is not a command."""
    if not is_command(host, line):
        return None
    surface = OneShotSurface(interrupt)
    conversation = Conversation(host, None, surface, opened=opened)
    host.services.take_message = surface.take
    try:
        answer = run_command(conversation, line)
    finally:
        host.services.take_message = None
    _print(host, answer, stdout)
    message = surface.to_run
    return CommandOutcome(not answer.error, message, None if message is None else conversation.session)


def _print(host: Host, answer: CommandAnswer, stdout: TextIO) -> None:
    if answer.text:
        print(plain(answer.text), file=stdout, flush=True)
    if answer.error:
        print_error(one_line(host.redactor.redact(answer.error)))
