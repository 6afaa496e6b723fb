"""What the screen consists of: what is under way, the prompt, the status line, and a menu of completions."""

from __future__ import annotations

from collections.abc import Callable

from prompt_toolkit.application import get_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
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
from prompt_toolkit.styles import Style
from prompt_toolkit.widgets import SearchToolbar

#: Rows that a menu of completions gets below the line being typed, where the terminal has them.
_MENU_ROWS = 8


def prompt_layout(
    buffer: Buffer, *, label: Callable[[], str], live: Callable[[], list[str]], status: Callable[[], str]
) -> Layout:
    """The layout of the prompt; the functions are asked at each drawing."""
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
    under_way = ConditionalContainer(
        Window(FormattedTextControl(lambda: _lines("class:live", live())), dont_extend_height=True),
        filter=Condition(lambda: bool(live())),
    )
    status_line = Window(FormattedTextControl(lambda: [("class:status", status())]), height=1, dont_extend_height=True)
    rows = HSplit([under_way, prompt, search, status_line], align=VerticalAlign.TOP)
    menu = Float(CompletionsMenu(max_height=_MENU_ROWS, scroll_offset=1), xcursor=True, ycursor=True)
    return Layout(FloatContainer(rows, [menu]), focused_element=prompt)


def prompt_style(colour: bool) -> Style:
    """The looks of it; without colour, none but those a menu needs to be read."""
    if colour:
        return Style.from_dict({"prompt": "bold ansicyan", "status": "ansibrightblack", "live": "ansibrightblack"})
    return Style.from_dict({"completion-menu.completion.current": "reverse"})


def _prompt_height(buffer: Buffer) -> Dimension:
    """At most half of the terminal, with room for the menu when there is one."""
    rows = get_app().output.get_size().rows
    state = buffer.complete_state
    menu = min(len(state.completions), _MENU_ROWS) if state is not None else 0
    least = 1 + min(menu, max(rows - 4, 0))
    return Dimension(min=least, max=max(rows // 2, least))


def _lines(style: str, lines: list[str]) -> StyleAndTextTuples:
    return [(style, "\n".join(lines))]
