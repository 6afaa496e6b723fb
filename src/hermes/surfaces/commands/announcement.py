"""Announcement of a slash command to plugins, before it runs."""

from __future__ import annotations

import contextlib

from hermes.base.errors import Interrupted
from hermes.contract.events import CommandStarted
from hermes.surfaces.commands.conversation import Conversation


def announce_command(conversation: Conversation, command: str, typed: str, arguments: str) -> None:
    """Fire ``pre_command``. Not while the agent works: the way to stop it must not wait for a plugin."""
    emit = conversation.host.hooks.pre_command
    if emit is None or conversation.surface.is_working:
        return
    event = CommandStarted(
        session_id=conversation.session_id,
        session_key=conversation.session_id,
        platform=conversation.platform,
        surface=conversation.surface_name,
        command=command,
        alias_used=typed,
        args_raw=arguments,
    )
    with contextlib.suppress(Interrupted):
        emit(event)
