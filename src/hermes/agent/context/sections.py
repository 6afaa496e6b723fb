"""The sections that plugins add to the system prompt: made for the first turn of a session, and kept as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hermes.base.config.files import profile_name
from hermes.journal.events import first_event
from hermes.plugins.prompt_section import render_sections

if TYPE_CHECKING:
    from hermes.agent.context.parts import TurnParts


def prompt_sections(parts: TurnParts) -> str:
    """The sections of a session.

    Its first turn makes them. Every later one takes what that turn has recorded, in whichever process and on whichever
    machine: providers cache a prompt that stays the same.
    """
    journal, runtime = parts.journal, parts.runtime
    if journal.ordinal:
        first = runtime.store.read(lambda connection: first_event(connection, journal.session_id, "setup"))
        if first is not None:
            facts: dict[str, str] = getattr(first.record, "facts", None) or {}
            return facts.get("sections", "")
    endpoint, scope = parts.models.endpoints[0], parts.scope
    session = {
        "session_id": journal.session_id,
        "model": endpoint.model,
        "provider": endpoint.provider,
        "platform": scope.platform,
        "profile_name": profile_name(runtime.home),
        "cwd": str(parts.cwd),
    }
    return render_sections(list(runtime.prompt_sections().values()), session, runtime.hooks.runner)
