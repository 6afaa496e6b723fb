"""Text for a terminal: no control characters, no overflow."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import struct
import sys
import termios
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.surfaces.cli.main import main
from hermes.surfaces.cli.terminal import (
    cells,
    column_wrapped,
    fitted,
    one_line,
    plain,
    print_data,
    print_error,
    short_duration,
    shows_unicode,
    terminal_width,
    word_wrapped,
    wrapped_output,
)
from hermes.testing import ScriptedProvider, text
from support import write_config
from support.configured import configured_host


@pytest.mark.parametrize(
    ("text", "width"),
    [("", 0), ("abc", 3), ("中文", 4), ("e\u0301", 1), ("👍", 2), ("❤\ufe0f", 2), ("a\u200db", 2), ("ｱ", 1)],
)
def test_cells(text: str, width: int) -> None:
    assert cells(text) == width


@pytest.mark.parametrize(
    ("text", "room", "expected"),
    [
        ("abc", 3, "abc"),
        ("abcd", 3, "ab…"),
        ("中文", 4, "中文"),
        ("中文字", 4, "中…"),
        ("中文字", 5, "中文…"),
        ("abc", 1, "…"),
        ("abc", 0, ""),
        ("e\u0301e\u0301", 2, "e\u0301e\u0301"),
    ],
)
def test_fitted(text: str, room: int, expected: str) -> None:
    assert fitted(text, room) == expected


def test_fitted_with_an_ellipsis_that_is_too_wide() -> None:
    assert fitted("abcdef", 5, "...") == "ab..."
    assert fitted("abcdef", 2, "...") == "ab"


@given(st.text(), st.integers(0, 50), st.sampled_from(["…", "...", ""]))
def test_what_is_fitted_fits(text: str, room: int, ellipsis: str) -> None:
    line = fitted(text, room, ellipsis)
    assert cells(line) <= room
    assert line == text or cells(text) > room


@given(st.text())
def test_one_line_is_one_line_and_plain(text: str) -> None:
    line = one_line(text, 40)
    assert len(line) <= 40 and len(line.splitlines()) <= 1
    assert plain(line) == line


def test_durations() -> None:
    assert [short_duration(seconds) for seconds in (0, 0.0125, 0.999, 1, 59.94, 75.04, 4_199.6)] == [
        "0 ms",
        "12 ms",
        "999 ms",
        "1.0 s",
        "59.9 s",
        "1 min 15 s",
        "1 h 10 min",
    ]


def test_unicode_needs_an_encoding_and_a_terminal() -> None:
    assert shows_unicode("UTF-8", "xterm") and shows_unicode("utf8", None)
    assert not shows_unicode("utf-8", "dumb") and not shows_unicode("cp1252", "xterm") and not shows_unicode(None, None)


def test_an_error_is_wrapped_at_words_on_a_terminal_and_one_line_elsewhere(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "unknown option '--queri'; did you mean '--query'? 'hermes chat --help' shows what is allowed."
    print_error(text)
    assert capsys.readouterr().err == f"Error: {text}\n"

    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 40, 0, 0))
    with open(theirs, "w") as terminal:  # noqa: PTH123  (a descriptor)
        monkeypatch.setattr(sys, "stderr", terminal)
        print_error(text)
    rows = os.read(ours, 4_096).decode().splitlines()
    os.close(ours)
    assert len(rows) == 3 and all(len(row) <= 40 for row in rows)
    assert " ".join(rows) == f"Error: {text}"


@given(st.text(alphabet=" a\u4e2d\u0301\n", max_size=30), st.integers(0, 6))
@pytest.mark.parametrize("wrap", [word_wrapped, column_wrapped])
def test_wrapping_ends_at_every_width_and_loses_no_word(
    wrap: Callable[[str, int], list[str]], text: str, width: int
) -> None:
    rows = wrap(text, width)
    assert "".join("".join(rows).split()) == "".join(text.split())


def test_a_row_that_continues_a_line_begins_below_its_last_column() -> None:
    assert column_wrapped("* ask      edits in this folder run", 24) == [
        "* ask      edits in this",
        "           folder run",
    ]
    assert column_wrapped("  a sentence without columns", 16) == ["  a sentence", "  without", "  columns"]
    assert column_wrapped("journal   /a/path/that/is/long", 20) == ["journal   /a/path/th", "          at/is/long"]


def test_lines_of_commands_are_wrapped_at_words_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setenv("COLUMNS", "20")
    with wrapped_output():
        print("Nothing was written to the file.")
        print("\x1b[31ma line that brings its own colours\x1b[0m")
        print("Delete this session for good? [y/N] ", end="", flush=True)
        print("yes")
        print_data("data that is copied from here stays as it is")
        print("no end of line", end="")
    assert sys.stdout is stream
    assert stream.getvalue().split("\n") == [
        "Nothing was written",
        "to the file.",
        "\x1b[31ma line that brings its own colours\x1b[0m",
        "Delete this session for good? [y/N] yes",
        "data that is copied from here stays as it is",
        "no end of line",
    ]


def test_no_command_breaks_words_at_40_columns(
    home: Path, workdir: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HERMES_HOME", str(home))
    with ScriptedProvider([text("Done.")]) as provider:
        write_config(home, provider.base_url)
        with configured_host(home, workdir, provider) as host:
            host.new_session().run("A title with several words in it, which is rather long")
        for line in ("sessions", "usage", "plugins", "model list", "auth list", "memory", "trust", "cron"):
            arguments = list[str](line.split())
            assert main(arguments) == 0
            wide = _words(capsys.readouterr().out)
            with monkeypatch.context() as narrow_terminal:
                narrow_terminal.setenv("COLUMNS", "40")
                narrow_terminal.setattr("hermes.surfaces.cli.terminal._are_terminals", _is_terminal)
                assert main(arguments) == 0
            narrow = capsys.readouterr().out
            assert all(cells(row) <= 40 for row in narrow.splitlines()), line
            assert {word for word in _words(narrow) if len(word) < 20} <= wide, "only what fits no line is broken"


def _is_terminal(*_: str) -> bool:
    return True


def _words(shown: str) -> set[str]:
    """The words without the marks at their ends; what was cut off on purpose is left out."""
    return {word.strip(":,.").lower() for word in shown.split() if not word.endswith("…")}


def test_a_terminal_without_a_width_gets_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = pty.openpty()
    try:
        with os.fdopen(theirs, "w") as terminal:
            monkeypatch.setattr(sys, "stdout", terminal)
            monkeypatch.delenv("COLUMNS", raising=False)
            assert terminal_width(72) == 72
            monkeypatch.setenv("COLUMNS", "0")
            assert terminal_width(72) == 72
            monkeypatch.setenv("COLUMNS", "40")
            assert terminal_width(72) == 40
    finally:
        os.close(ours)
