"""The sections that plugins add to the system prompt: made for the first turn of a session, and kept as they are."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hermes.base.config.files import profile_name
from hermes.base.errors import PluginError
from hermes.contract.plugin import MOST_SECTIONS, SECTIONS_CHARS
from hermes.hooks.callback import describe, is_awaitable
from hermes.hooks.threads.runner import OWN_SIGNALS, CallbackRunner
from hermes.hooks.threads.timed_call import TimedCall
from hermes.journal.events import first_event
from hermes.plugins.registry import PromptSection

if TYPE_CHECKING:
    from hermes.agent.context.parts import TurnParts

log = logging.getLogger("hermes.plugins")


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
    return _render(list(runtime.prompt_sections.values()), session, runtime.hooks.runner)


def _render(sections: Sequence[PromptSection], session: dict[str, Any], runner: CallbackRunner) -> str:
    """The text of all sections, in the order of their ids. One that fails, or is too much, is left out and logged."""
    blocks: list[str] = []
    for section in sorted(sections, key=lambda one: one.id):
        text = _text(section, session, runner)
        block = f"## {section.id}\n\n{text}"
        if not text:
            continue
        if len(blocks) >= MOST_SECTIONS or sum(map(len, blocks)) + len(block) > SECTIONS_CHARS:
            _left_out(section, f"all sections have at most {SECTIONS_CHARS} characters, and there are {MOST_SECTIONS}")
            continue
        blocks.append(block)
    return "\n\n".join(blocks)


def _text(section: PromptSection, session: dict[str, Any], runner: CallbackRunner) -> str:
    content = section.content
    value: Any = content
    error: BaseException | None = None
    if not isinstance(content, str):
        call = TimedCall(section.plugin, runner.limits.hook_seconds(section.plugin))
        value, error = runner.run(lambda: content(dict(session)), {}, call, str(session["session_id"]))
        if error is None and is_awaitable(value):
            value, error = runner.wait_for(value, call, f"plugin {section.plugin!r} in prompt section {section.id!r}")
    if isinstance(error, OWN_SIGNALS):
        raise error
    if error is None and value is not None and not isinstance(value, str):
        error = PluginError(f"it gave a {type(value).__name__}; text is expected")
    if error is not None:
        _left_out(section, str(error) if isinstance(error, PluginError) else describe(error))
        return ""
    return (value or "").strip()[: section.max_chars]


def _left_out(section: PromptSection, why: str) -> None:
    log.warning("plugin %r: prompt section %r is left out: %s", section.plugin, section.id, why)
