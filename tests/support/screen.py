"""What a terminal shows of a text, by a real terminal emulator."""

from __future__ import annotations

import pyte


class Screen:
    """The rows of a terminal of that many columns after the text was printed, blank ones at the end left out."""

    def __init__(self, text: str, columns: int, rows: int = 200) -> None:
        self._screen = pyte.Screen(columns, rows)
        pyte.Stream(self._screen).feed(text.replace("\n", "\r\n"))

    @property
    def rows(self) -> list[str]:
        """The rows as text."""
        rows = [row.rstrip() for row in self._screen.display]
        while rows and not rows[-1]:
            rows.pop()
        return rows

    def looks(self, row: int, column: int) -> tuple[str, bool, str]:
        """A cell: its character, whether it is bold, and its colour."""
        cell = self._screen.buffer[row][column]
        return cell.data, cell.bold, cell.fg
