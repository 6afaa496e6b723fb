"""Themes: the colours of the terminal for what the agent says and does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec
from msgspec import field

ThemeName = Literal["auto", "dark", "light", "none"]


class Theme(msgspec.Struct, frozen=True):
    """Colours as parameters of the escape sequence; without colour all text is plain."""

    has_colour: bool = True
    dim: str = "2"
    error: str = "31"
    added: str = "32"
    removed: str = "31"
    place: str = "36"
    #: Code within a line, as a style of rich, and the theme of code blocks.
    inline_code: str = "cyan"
    code_theme: str = "ansi_dark"
    #: The styles of the input, for prompt_toolkit.
    prompt_styles: Mapping[str, str] = field(
        default_factory=lambda: {"prompt": "bold ansicyan", "status": "ansibrightblack", "live": "ansibrightblack"}
    )

    def paint(self, text: str, colour: str) -> str:
        """The text in a colour of the theme."""
        return f"\x1b[{colour}m{text}\x1b[0m" if self.has_colour else text


DARK = Theme()
LIGHT = Theme(
    place="34",
    inline_code="blue",
    code_theme="ansi_light",
    prompt_styles={"prompt": "bold ansiblue", "status": "ansibrightblack", "live": "ansibrightblack"},
)
#: Only what a readable completion menu needs.
NO_COLOUR = Theme(has_colour=False, prompt_styles={"completion-menu.completion.current": "reverse"})


def theme_for(name: ThemeName, environ: Mapping[str, str]) -> Theme:
    """The theme of a setting. ``NO_COLOR`` wins; ``auto`` is dark unless the terminal says that it is light."""
    if environ.get("NO_COLOR") or name == "none" or environ.get("TERM") == "dumb":
        return NO_COLOUR
    if name == "auto":
        # Set by many terminals: colours of text and background, of which 7 and 15 are white.
        name = "light" if environ.get("COLORFGBG", "").rpartition(";")[2] in ("7", "15") else "dark"
    return LIGHT if name == "light" else DARK
