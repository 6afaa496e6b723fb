"""Prompt sections: text that plugins add to the system prompt of a session, made when it begins."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from hermes.base.errors import PluginError
from hermes.contract.plugin import (
    MOST_SECTIONS,
    SECTION_CHARS,
    SECTION_ID,
    SECTION_POSITIONS,
    SECTIONS_CHARS,
)
from hermes.hooks.callback import describe, is_awaitable
from hermes.hooks.threads.runner import OWN_SIGNALS, CallbackRunner
from hermes.hooks.threads.timed_call import TimedCall

log = logging.getLogger("hermes.plugins")

#: The text, or a function of what is known of the session.
Content = str | Callable[[dict[str, Any]], Any]


class PromptSection(Struct, frozen=True):
    """One section: ``content`` is its text, or gives it for a session."""

    id: str
    content: Content
    max_chars: int
    plugin: str


def check_section(id: str, content: object, position: str, max_chars: int) -> None:  # noqa: A002
    """Raise ``ValueError`` or ``TypeError`` for a section that cannot be registered."""
    if not isinstance(id, str) or not SECTION_ID.fullmatch(id):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ValueError(
            f"prompt section {id!r}: an id has 1 to 128 characters, a-z, 0-9, '.', '_' and '-', "
            "the first a letter or digit"
        )
    if not isinstance(content, str) and not callable(content):
        raise TypeError(f"prompt section {id!r}: content is a {type(content).__name__}; text or a function is expected")
    if position not in SECTION_POSITIONS:
        raise ValueError(f"prompt section {id!r}: position is {position!r}; there is {', '.join(SECTION_POSITIONS)}")
    if isinstance(max_chars, bool) or not isinstance(max_chars, int) or not 0 < max_chars <= SECTION_CHARS:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ValueError(f"prompt section {id!r}: max_chars is {max_chars!r}; 1 to {SECTION_CHARS} are allowed")


def render_sections(sections: Sequence[PromptSection], session: dict[str, Any], runner: CallbackRunner) -> str:
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
