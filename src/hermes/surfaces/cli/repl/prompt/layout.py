"""Layout and key bindings of the full-screen prompt: running tools, input, status line, completion menu."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from prompt_toolkit.application import get_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import Always, Condition, Filter, has_focus, vi_navigation_mode
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

if TYPE_CHECKING:
    from hermes.surfaces.cli.repl.prompt.screen import Screen

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
        Window(FormattedTextControl(lambda: [("class:live", "\n".join(live()))]), dont_extend_height=True),
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


def prompt_keys(buffer: Buffer, screen: Screen) -> KeyBindings:
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
            screen.send()

    def backspace(event: KeyPressEvent) -> None:
        if not screen.delete_placeholder():
            buffer.delete_before_cursor(event.arg)

    bound: list[tuple[tuple[str, ...], Callable[[KeyPressEvent], None], Filter]] = [
        (("enter",), enter, Always()),
        (("escape", "enter"), lambda event: buffer.insert_text("\n"), Always()),
        (("c-c",), lambda event: screen.ctrl_c(), Always()),
        (("<sigint>",), lambda event: screen.ctrl_c(), Always()),
        (("c-d",), lambda event: screen.dialogue.quit(), is_empty),
        (("s-tab",), lambda event: screen.dialogue.step_mode(), no_menu),
        (("c-z",), lambda event: event.app.suspend_to_background(), Always()),
        (("c-o",), lambda event: screen.show_output(), Always()),
        (("c-x", "c-e"), lambda event: screen.open_editor(), Always()),
        (("v",), lambda event: screen.open_editor(), vi_navigation_mode),
        (("<bracketed-paste>",), lambda event: screen.paste(event.data), Always()),
        (("c-v",), lambda event: screen.paste_picture(), Always()),
        (("backspace",), backspace, ~vi_navigation_mode),
    ]
    keys = KeyBindings()
    for sequence, action, condition in bound:
        keys.add(*sequence, filter=at_prompt & condition)(action)
    return keys
