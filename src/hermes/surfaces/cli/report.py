"""Report of a command: rows, lines and notes for a person, one document for a program."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

import msgspec

from hermes.surfaces.cli.terminal import cells, plain, print_data, print_json, print_lines, print_note, table_width
from hermes.surfaces.commands.text import columns


class Report(msgspec.Struct, frozen=True):
    """What a command answers. Lines, rows and notes may be generators: with ``--json`` they are not made."""

    #: What ``--json`` prints. It may be a function that makes it then.
    document: object
    #: Printed before the table.
    lines: Iterable[str] = ()
    #: Whether the lines have colours, and are safe to print as they are.
    is_painted: bool = False
    #: Headings of the table; without them the rows are printed alone.
    heads: Sequence[str] = ()
    rows: Iterable[Sequence[str]] = ()
    #: How many columns are aligned to the left, and the others to the right. By default all are, and the last one is
    #: wrapped where the terminal is narrow.
    left: int | None = None
    #: Printed when there are no rows.
    empty: str = ""
    #: Printed on stderr.
    notes: Iterable[str] = ()
    #: Whether the document is a stream of records, of which ``--json`` prints each on a line as it comes.
    is_stream: bool = False
    #: Printed first, and unchanged where it does not go to a terminal.
    data: str = ""
    #: The exit code. It may be a function that is called when everything is printed.
    code: int | Callable[[], int] = 0

    def show(self, *, as_json: bool) -> int:
        """Print it, and return the exit code."""
        if as_json:
            self._show_document()
        else:
            self._show_text()
        return self.code() if callable(self.code) else self.code

    def _show_document(self) -> None:
        document: Any = self.document
        if not self.is_stream:
            print_json(document() if callable(document) else document)
            return
        for record in cast("Iterable[object]", document):
            print(msgspec.json.encode(record).decode())

    def _show_text(self) -> None:
        if self.data:
            print_data(self.data)
        for line in self.lines:
            print(line if self.is_painted else plain(line))
        rows = [tuple(row) for row in self.rows]
        if rows:
            print_lines(table([tuple(self.heads), *rows] if self.heads else rows, self.left))
        elif self.empty:
            print_lines([self.empty])
        for note in self.notes:
            print_note(note)


def table(rows: list[tuple[str, ...]], left: int | None = None) -> list[str]:
    """A table that fits the terminal; on one that is too narrow for its columns each row is a record."""
    screen = table_width()
    if left is None:
        return columns(rows, indent="", width=screen)
    lines = aligned(rows, left)
    return lines if max(map(cells, lines)) <= screen else columns(rows, indent="", width=screen)


def aligned(rows: list[tuple[str, ...]], left: int = 1) -> list[str]:
    """Rows as aligned lines: the first ``left`` columns left-aligned, the others right-aligned."""
    widths = [max(cells(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines: list[str] = []
    for row in rows:
        padded = (
            cell + " " * (size - cells(cell)) if column < left else " " * (size - cells(cell)) + cell
            for column, (cell, size) in enumerate(zip(row, widths, strict=True))
        )
        lines.append("  ".join(padded).rstrip())
    return lines
