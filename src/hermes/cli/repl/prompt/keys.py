"""The keys of the prompt, where they differ from what every prompt has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import Condition, has_focus
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.key_binding.key_processor import KeyPressEvent


class KeyActions(Protocol):
    """What the keys do."""

    def send(self) -> None:
        """The person sends off what is typed."""
        ...

    def ctrl_c(self) -> None:
        """Stop, or clear what is typed."""
        ...

    def ctrl_d(self) -> None:
        """Leave."""
        ...


def prompt_keys(buffer: Buffer, actions: KeyActions) -> KeyBindings:
    """Enter sends, Alt-Enter and a backslash at the end begin a new line."""
    keys = KeyBindings()
    at_prompt = has_focus(buffer)

    @Condition
    def is_empty() -> bool:
        return not buffer.text

    def enter(event: KeyPressEvent) -> None:
        if buffer.document.is_cursor_at_the_end and buffer.text.endswith("\\"):
            buffer.delete_before_cursor()
            buffer.insert_text("\n")
        else:
            actions.send()

    def new_line(event: KeyPressEvent) -> None:
        buffer.insert_text("\n")

    def ctrl_c(event: KeyPressEvent) -> None:
        actions.ctrl_c()

    def ctrl_d(event: KeyPressEvent) -> None:
        actions.ctrl_d()

    def suspend(event: KeyPressEvent) -> None:
        event.app.suspend_to_background()

    bound: list[tuple[Callable[[KeyPressEvent], None], tuple[str, ...], Condition | None]] = [
        (new_line, ("escape", "enter"), None),
        (ctrl_c, ("c-c",), None),
        (ctrl_c, ("<sigint>",), None),
        (ctrl_d, ("c-d",), is_empty),
        (suspend, ("c-z",), None),
        (enter, ("enter",), None),
    ]
    for action, sequence, condition in bound:
        keys.add(*sequence, filter=at_prompt if condition is None else at_prompt & condition)(action)
    return keys
