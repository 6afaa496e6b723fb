"""Layout and key bindings of the full-screen prompt: running tools, input, status line, completion menu."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from prompt_toolkit.application import get_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import Always, Condition, Filter, has_focus, vi_navigation_mode
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.key_binding.key_processor import KeyPressEvent
from prompt_toolkit.layout import (
    BufferControl,
    ConditionalContainer,
    Dimension,
    Float,
    FloatContainer,
    FormattedTextControl,
    HSplit,
    Layout,
    VerticalAlign,
    Window,
)
from prompt_toolkit.layout.menus import CompletionsMenu
from prompt_toolkit.layout.processors import BeforeInput
from prompt_toolkit.widgets import SearchToolbar

#: Rows of the completion menu below the input, when the terminal has them.
_MENU_ROWS = 8


def prompt_layout(
    buffer: Buffer, *, label: Callable[[], str], live: Callable[[], list[str]], status: Callable[[], str]
) -> Layout:
    """The layout of the prompt; the functions are called at each redraw."""
    search = SearchToolbar()
    prompt = Window(
        BufferControl(
            buffer,
            input_processors=[BeforeInput(label, style="class:prompt")],
            search_buffer_control=search.control,
            preview_search=True,
        ),
        height=lambda: _prompt_height(buffer),
        dont_extend_height=True,
        wrap_lines=True,
    )
    running = ConditionalContainer(
        Window(FormattedTextControl(lambda: _lines("class:live", live())), dont_extend_height=True),
        filter=Condition(lambda: bool(live())),
    )
    status_line = Window(FormattedTextControl(lambda: [("class:status", status())]), height=1, dont_extend_height=True)
    rows = HSplit([running, prompt, search, status_line], align=VerticalAlign.TOP)
    menu = Float(CompletionsMenu(max_height=_MENU_ROWS, scroll_offset=1), xcursor=True, ycursor=True)
    return Layout(FloatContainer(rows, [menu]), focused_element=prompt)


def _prompt_height(buffer: Buffer) -> Dimension:
    """At most half of the terminal, with room for an open menu."""
    rows = get_app().output.get_size().rows
    state = buffer.complete_state
    menu = min(len(state.completions), _MENU_ROWS) if state is not None else 0
    least = 1 + min(menu, max(rows - 4, 0))
    return Dimension(min=least, max=max(rows // 2, least))


def _lines(style: str, lines: list[str]) -> StyleAndTextTuples:
    return [(style, "\n".join(lines))]


class KeyActions(Protocol):
    """The actions of the keys."""

    def send(self) -> None:
        """Send the input."""
        ...

    def ctrl_c(self) -> None:
        """Stop, or clear the input."""
        ...

    def ctrl_d(self) -> None:
        """Leave."""
        ...

    def shift_tab(self) -> None:
        """Change the permission mode."""
        ...

    def show_output(self) -> None:
        """Show all of the last tool call's output."""
        ...

    def open_editor(self) -> None:
        """Edit the input in the user's editor."""
        ...

    def paste(self, text: str) -> None:
        """Insert pasted text."""
        ...

    def paste_picture(self) -> None:
        """Attach the image of the clipboard."""
        ...

    def delete_placeholder(self) -> bool:
        """Delete the placeholder before the cursor; False when there is none."""
        ...


def prompt_keys(buffer: Buffer, actions: KeyActions) -> KeyBindings:
    """Enter sends, Alt-Enter and a backslash at the end begin a new line."""
    at_prompt = has_focus(buffer)
    is_empty = Condition(lambda: not buffer.text)
    # With a menu it steps back through the completions.
    no_menu = Condition(lambda: buffer.complete_state is None)

    def enter(event: KeyPressEvent) -> None:
        if buffer.document.is_cursor_at_the_end and buffer.text.endswith("\\"):
            buffer.delete_before_cursor()
            buffer.insert_text("\n")
        else:
            actions.send()

    def backspace(event: KeyPressEvent) -> None:
        if not actions.delete_placeholder():
            buffer.delete_before_cursor(event.arg)

    bound: list[tuple[tuple[str, ...], Callable[[KeyPressEvent], None], Filter]] = [
        (("enter",), enter, Always()),
        (("escape", "enter"), lambda event: buffer.insert_text("\n"), Always()),
        (("c-c",), lambda event: actions.ctrl_c(), Always()),
        (("<sigint>",), lambda event: actions.ctrl_c(), Always()),
        (("c-d",), lambda event: actions.ctrl_d(), is_empty),
        (("s-tab",), lambda event: actions.shift_tab(), no_menu),
        (("c-z",), lambda event: event.app.suspend_to_background(), Always()),
        (("c-o",), lambda event: actions.show_output(), Always()),
        (("c-x", "c-e"), lambda event: actions.open_editor(), Always()),
        (("v",), lambda event: actions.open_editor(), vi_navigation_mode),
        (("<bracketed-paste>",), lambda event: actions.paste(event.data), Always()),
        (("c-v",), lambda event: actions.paste_picture(), Always()),
        (("backspace",), backspace, ~vi_navigation_mode),
    ]
    keys = KeyBindings()
    for sequence, action, condition in bound:
        keys.add(*sequence, filter=at_prompt & condition)(action)
    return keys
