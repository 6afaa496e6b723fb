"""Pictures of the terminal: real runs of ``hermes`` on a pseudo-terminal, drawn as SVG.

What differs between runs (ids, durations) is replaced, so that the same program gives the same picture.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterable
from itertools import groupby
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

from hermes.testing import ScriptedProvider, text, tool_call
from support import write_config
from support.repl_terminal import ReplTerminal

from .pages import DOCS

PICTURES = DOCS / "pictures"

_COLUMNS, _ROWS = 96, 26
_CELL, _LINE, _MARGIN = 8.4, 18, 16
_BACKGROUND, _FOREGROUND = "#16181d", "#d7dae0"
_COLOURS = {
    "black": "#5c6370",
    "red": "#e06c75",
    "green": "#98c379",
    "brown": "#e5c07b",
    "yellow": "#e5c07b",
    "blue": "#61afef",
    "magenta": "#c678dd",
    "cyan": "#56b6c2",
    "white": "#d7dae0",
    "brightblack": "#7f848e",
}
#: What differs from run to run, and what a picture shows instead.
_VARIABLE = (
    (re.compile(r"\d{8}_\d{6}_[0-9a-f]{6}"), "20261115_093000_1a2b3c"),
    (re.compile(r"(?<= · )[0-9a-f]{6}(?= *$)"), "1a2b3c"),
    (re.compile(r"\b\d+(?:\.\d+)? m?s\b"), "12 ms"),
    # The status line may be drawn again a moment after the prompt is.
    (re.compile(r"\b\d+ in, \d+ out · \d+/"), "40 in, 20 out · 10/"),
)


class Style(NamedTuple):
    """How a character looks."""

    colour: str
    bold: bool = False
    italic: bool = False
    underlined: bool = False


class Cell(NamedTuple):
    """One character of the screen."""

    character: str
    style: Style


Line = list[Cell]


def pictures() -> dict[str, str]:
    """Every picture by its file name, as SVG."""
    with tempfile.TemporaryDirectory() as folder:
        shown = dict(_conversation(Path(folder).resolve()))
    return {f"{name}.svg": draw(lines) for name, lines in shown.items()}


def write_pictures() -> list[Path]:
    """Write the pictures that changed; returns their paths."""
    PICTURES.mkdir(exist_ok=True)
    changed: list[Path] = []
    for name, svg in pictures().items():
        path = PICTURES / name
        if not path.exists() or path.read_text() != svg:
            path.write_text(svg)
            changed.append(path)
    return changed


def _conversation(folder: Path) -> Iterable[tuple[str, list[Line]]]:
    """One conversation with an edit, a command, a question and an undo, looked at three times."""
    home, work = folder / "home", folder / "work"
    (work / "notes").mkdir(parents=True)
    (work / "greet.py").write_text('def greet(name):\n    return "Hello " + name\n\n\nprint(greet("Ada"))\n')
    edit = {"mode": "replace", "path": "greet.py", "old_string": '"Hello " + name', "new_string": 'f"Hello, {name}!"'}
    script = [
        tool_call("read_file", {"path": "greet.py"}),
        tool_call("patch", edit),
        tool_call("terminal", {"command": "python3 greet.py"}),
        text("`greet` is friendlier now: it returns **Hello, Ada!** for Ada."),
        tool_call("terminal", {"command": "rm -rf notes"}),
        text("I left `notes` alone."),
    ]
    with ScriptedProvider(script) as provider:
        write_config(home, provider.base_url)
        with ReplTerminal(home, work, columns=_COLUMNS, rows=_ROWS) as terminal:
            terminal.send("Make the greeting friendlier.")
            terminal.wait_for("for Ada.")
            terminal.wait_until_idle()
            yield "chat", screen_lines(terminal)
            terminal.send("Tidy up.")
            terminal.wait_for("allow?")
            yield "approval", _from(screen_lines(terminal), "> Tidy up.")
            terminal.send("d keep it")
            terminal.wait_for("alone.")
            terminal.wait_until_idle()
            terminal.send("/undo 2")
            for question in ("Take back", "Restore:"):
                terminal.wait_for(question)
                terminal.send("y")
            terminal.wait_for("Restored 1 file")
            terminal.wait_until_idle()
            yield "undo", _from(screen_lines(terminal), "> /undo 2")
            terminal.send("/quit")
            terminal.end()


def _from(lines: list[Line], first: str) -> list[Line]:
    """The lines from that one on; all of them when it is not there."""
    for number, line in enumerate(lines):
        if _text(line).rstrip() == first:
            return lines[number:]
    return lines


def screen_lines(terminal: ReplTerminal) -> list[Line]:
    """The screen of a terminal, with what differs between runs replaced."""
    lines = [_normal(line) for line in terminal.cells(_cell)]
    while lines and not _text(lines[-1]).strip():
        lines.pop()
    return lines


def _cell(data: str, colour: str, bold: bool, italic: bool, underlined: bool) -> Cell:
    shown = _COLOURS.get(colour) or (f"#{colour}" if re.fullmatch("[0-9a-f]{6}", colour) else _FOREGROUND)
    return Cell(data, Style(shown, bold, italic, underlined))


def _normal(line: Line) -> Line:
    for pattern, shown in _VARIABLE:
        for found in reversed(list(pattern.finditer(_text(line)))):
            style = line[found.start()].style
            line = [*line[: found.start()], *(Cell(one, style) for one in shown), *line[found.end() :]]
    return line


def _text(line: Line) -> str:
    return "".join(cell.character or " " for cell in line)


# -- drawing ---------------------------------------------------------------------------------------------------------


def draw(lines: list[Line]) -> str:
    """Lines as SVG. Every run of characters has its own place, so that no font moves them."""
    width, height = _COLUMNS * _CELL + 2 * _MARGIN, len(lines) * _LINE + 2 * _MARGIN
    rows: list[str] = []
    for number, line in enumerate(lines):
        y = _MARGIN + (number + 0.75) * _LINE
        rows += [f'<text y="{y:g}">{"".join(_spans(line))}</text>'] if _text(line).strip() else []
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
            f'font-family="ui-monospace, Menlo, Consolas, monospace" font-size="14" xml:space="preserve">',
            f'<rect width="100%" height="100%" rx="8" fill="{_BACKGROUND}"/>',
            *rows,
            "</svg>\n",
        ]
    )


def _spans(line: Line) -> Iterable[str]:
    at = 0
    key: Callable[[Cell], tuple[bool, Style]] = lambda cell: (cell.character in ("", " "), cell.style)  # noqa: E731
    for (is_blank, style), group in groupby(line, key):
        shown = "".join(cell.character for cell in group)
        if not is_blank:
            place = f'x="{_MARGIN + at * _CELL:g}" textLength="{len(shown) * _CELL:g}"'
            yield f'<tspan {place} fill="{style.colour}"{_attributes(style)}>{escape(shown)}</tspan>'
        at += len(shown)


def _attributes(style: Style) -> str:
    written = {
        ' font-weight="bold"': style.bold,
        ' font-style="italic"': style.italic,
        ' text-decoration="underline"': style.underlined,
    }
    return "".join(attribute for attribute, is_set in written.items() if is_set)
