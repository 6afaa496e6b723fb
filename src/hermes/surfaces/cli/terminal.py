"""Terminal output and input: text made safe to print, widths in columns, JSON, yes-or-no questions."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Callable, Generator, Iterable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path
    from typing import TextIO

    from hermes.tools.sandbox.confinement import Confinements

_ESCAPE_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
#: Terminals that cannot place the cursor.
_SIMPLE_TERMINALS = ("", "dumb", "unknown")
#: Variation selector that makes the character before it an emoji, which is two columns wide.
_EMOJI = "\ufe0f"
#: Upper bound of a secret's length.
_LONGEST_SECRET = 65_536


def plain(text: str) -> str:
    """The text without escape sequences, control characters and direction overrides; newlines and tabs stay."""
    text = _CONTROL.sub("", _ESCAPE_SEQUENCE.sub("", text))
    return text.encode("utf-8", "replace").decode("utf-8")


def one_line(text: str, limit: int = 500) -> str:
    """The text on one line, plain and cut to ``limit`` characters."""
    line = " ".join(plain(text).split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def cells(text: str) -> int:
    """Columns that the text takes on a terminal. Where terminals differ, the wider number."""
    return len(text) if text.isascii() else sum(map(_cells_of, text))


def fitted(line: str, room: int, ellipsis: str = "…") -> str:
    """The line, cut to at most ``room`` columns."""
    if len(line) <= room and line.isascii():
        return line
    room_when_cut = room - cells(ellipsis)
    if room_when_cut < 0:
        ellipsis, room_when_cut = "", room
    used, end = 0, 0  # end: as much as fits with the ellipsis
    for position, character in enumerate(line):
        used += _cells_of(character)
        if used > room:
            return f"{line[:end]}{ellipsis}"
        if used <= room_when_cut:
            end = position + 1
    return line


def word_wrapped(text: str, width: int) -> list[str]:
    """The text in rows of at most ``width`` columns, broken at blanks; a row that continues a line keeps its indent."""
    return _wrapped(text, width, lambda _line: 0)


def column_wrapped(text: str, width: int) -> list[str]:
    """Like ``word_wrapped``, for lines with columns: a row that continues a line begins below its last column."""
    return _wrapped(text, width, lambda line: _last_column(line, width))


def _wrapped(text: str, width: int, hanging: Callable[[str], int]) -> list[str]:
    rows: list[str] = []
    for line in text.expandtabs(4).split("\n") if text else ():
        rows += [line] if cells(line) <= width else _wrapped_line(line, width, hanging(line))
    return rows


def _last_column(line: str, width: int) -> int:
    """Where the last column begins, of those that leave room; columns are apart by two blanks or more."""
    starts = (found.end() for found in re.finditer(r"(?:(?<=\S)  |^ ) *(?=\S)", line))
    return max((start for start in starts if start <= width // 2), default=0)


def _wrapped_line(line: str, width: int, hanging: int) -> list[str]:
    indent = line[: len(line) - len(line.lstrip(" "))]
    if len(indent) > width // 2:
        indent = ""
    rows: list[str] = []
    row, is_empty = indent, True
    words = re.findall(r" *[^ ]+", line[len(indent) :])
    indent = " " * hanging or indent
    for word in words:
        # A word that no row below a column can hold is broken in the middle.
        is_too_long = hanging and cells(indent + word.lstrip(" ")) > width
        if not is_empty and cells(row + word) > width and not is_too_long:
            rows.append(row)
            row, is_empty = indent, True
        row += word.lstrip(" ") if is_empty else word
        is_empty = False
        while cells(row) > width:
            # At least one character, although none fits where a wide one meets the last column.
            end = max(len(fitted(row, width, "")), len(indent) + 1)
            rows.append(row[:end])
            row = indent + row[end:]
    return [*rows, row]


def short_duration(seconds: float) -> str:
    """A duration in few characters: ``25 ms``, ``3.2 s``, ``2 min 5 s``, ``1 h 10 min``."""
    return f"{seconds * 1000:.0f} ms" if seconds < 0.9995 else running_time(seconds)


def running_time(seconds: float) -> str:
    """The time that something has run so far, in tenths of a second at first."""
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def shows_unicode(encoding: str | None, term: str | None) -> bool:
    """Whether a terminal of this kind and encoding shows more than ASCII."""
    return (encoding or "").lower().replace("_", "-") in ("utf-8", "utf8") and term != "dumb"


def terminal_width(default: int) -> int:
    """Columns of the terminal on stdout; the default when stdout is not a terminal, or does not report its size."""
    import os

    with contextlib.suppress(KeyError, ValueError):
        if (columns := int(os.environ["COLUMNS"])) > 0:
            return columns
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or default
    except (OSError, ValueError):
        return default


def table_width() -> int:
    """Columns that a table may have. Nothing is wrapped in a file or a pipe."""
    return terminal_width(1_000_000)


def has_colour() -> bool:
    """Whether stdout is a terminal that shows colours."""
    import os

    is_plain = "NO_COLOR" in os.environ or os.environ.get("TERM", "dumb") == "dumb"
    return sys.stdout.isatty() and not is_plain


# -- output ---------------------------------------------------------------------------------------------------------


def print_lines(lines: Iterable[str]) -> None:
    """Print lines without control characters."""
    for line in lines:
        print(plain(line))


def print_json(value: object) -> None:
    """Print one indented JSON document; on a terminal without control characters."""
    import msgspec

    print_data(msgspec.json.format(msgspec.json.encode(value)).decode())


def print_data(text: str, end: str = "\n") -> None:
    """Print data unchanged for a program; on a terminal without control characters."""
    stream = sys.stdout
    if isinstance(stream, WrappedLines):  # data that is copied from a terminal has no line breaks of ours
        stream.flush()
        stream = stream.stream
    print(plain(text) if stream.isatty() else text, end=end, file=stream)


def page(lines: Iterable[str]) -> None:
    """Show lines in the user's pager; they may have colours. Without a pager they are printed."""
    import os
    import shlex
    import subprocess

    from hermes.base.programs import owners_command

    text = "\n".join(lines) + "\n"
    command = shlex.split(os.environ.get("PAGER") or "less -R")
    # A secure less runs no commands, and its prompt is the same everywhere.
    environment = {**os.environ, "LESS": os.environ.get("LESS", "-R"), "LESSSECURE": "1"}
    try:
        subprocess.run(owners_command(command), input=text.encode("utf-8", "replace"), env=environment, check=False)
    except OSError:
        sys.stdout.write(text)
        sys.stdout.flush()


class WrappedLines:
    """A terminal for text with columns: lines that are too long are broken at words. The start of a line is held
    back until it is flushed."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self._begun = ""
        #: Whether a part of the line was written already, so that the rest cannot be wrapped.
        self._is_split = False

    def write(self, text: str, /) -> int:
        *whole, self._begun = (self._begun + text).split("\n")
        for line in whole:
            is_text = "\r" not in line and "\x1b" not in line and not self._is_split
            rows = column_wrapped(line, terminal_width(80)) if is_text else [line]
            self.stream.write("\n".join(rows) + "\n")
            self._is_split = False
        return len(text)

    def flush(self) -> None:
        if self._begun:
            self.stream.write(self._begun)
            self._begun, self._is_split = "", True
        self.stream.flush()

    def __getattr__(self, name: str) -> object:
        return getattr(self.stream, name)


@contextlib.contextmanager
def wrapped_output() -> Generator[None]:
    """Lines on stdout are wrapped at words, where it is a terminal."""
    stream = sys.stdout
    if not _are_terminals("stdout"):
        yield
        return
    wrapped = WrappedLines(stream)
    sys.stdout = wrapped  # pyright: ignore[reportAttributeAccessIssue]
    try:
        yield
    finally:
        with contextlib.suppress(OSError, ValueError):  # closed: the command itself reported it
            wrapped.flush()
        sys.stdout = stream


def print_note(text: str, wrap: Callable[[str, int], list[str]] = word_wrapped) -> None:
    """Print a line on stderr; on a terminal it is wrapped at words."""
    import os

    try:
        rows = wrap(text, os.get_terminal_size(sys.stderr.fileno()).columns or 80)
    except (OSError, ValueError, AttributeError):  # not a terminal
        rows = [text]
    print("\n".join(rows), file=sys.stderr, flush=True)


def print_warnings(warnings: Iterable[str], redact: Callable[[str], str] = str) -> None:
    """Print the warnings of a start on stderr, without the secrets in them; on a terminal they are wrapped at words."""
    for warning in warnings:
        print_note(f"Warning: {plain(redact(warning))}")


def say_about_sandbox(confinements: Confinements, later: Callable[[str], None]) -> None:
    """Say that the sandbox is reduced or missing, once per home: now, or ``later``, when the first command shows it."""
    confinements.notify = later
    if sentence := confinements.first_notice():
        print_note(sentence)


def print_error(text: str) -> None:
    """Print an error on stderr; on a terminal it is wrapped at words."""
    print_note(f"Error: {text}")


def warn(text: str) -> None:
    """Print a warning on stderr."""
    print_note(f"Warning: {one_line(text, 1000)}")


def write_private_file(path: Path, text: str) -> None:
    """Replace a file with an atomic write; only its owner can read it. Raises ``HermesError``."""
    from hermes.base.config.files import write_atomically
    from hermes.base.errors import HermesError

    if path.exists() and not path.is_file():
        raise HermesError(f"{path} is not a file")
    write_atomically(path, text)
    path.chmod(0o600)
    print(f"wrote {path}", file=sys.stderr)


# -- input ----------------------------------------------------------------------------------------------------------


def can_prompt() -> bool:
    """Whether a question on stderr can be answered on stdin: both are terminals."""
    return _are_terminals("stdin", "stderr")


def is_interactive() -> bool:
    """Whether stdin and stdout are terminals."""
    return _are_terminals("stdin", "stdout")


def can_draw(*streams: str) -> bool:
    """Whether these streams are a terminal whose lines can be drawn again, and the user wants that."""
    import os

    is_simple = os.environ.get("TERM", "").lower() in _SIMPLE_TERMINALS
    return _are_terminals(*streams) and not is_simple and os.environ.get("HERMES_PLAIN", "") in ("", "0")


def _are_terminals(*streams: str) -> bool:
    try:
        return all(getattr(sys, name).isatty() for name in streams)
    except (AttributeError, ValueError):  # a stream that is missing or closed
        return False


def web_browser() -> Callable[[str], object] | None:
    """Opens a web page, on a machine with a screen; elsewhere a text browser would take over the terminal."""
    import os

    shows_windows = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
    if not is_interactive() or (sys.platform != "darwin" and not any(os.environ.get(name) for name in shows_windows)):
        return None
    import webbrowser

    return webbrowser.open


def confirm(question: str) -> bool:
    """Ask a yes-or-no question; an empty answer is no."""
    try:
        return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        print()
        return False


def typed_secret(question: str, otherwise: str) -> str:
    """A secret typed at the terminal, which does not show it; empty for none.

    Raises ``HermesError`` when stdin is no terminal, or one that would show it; ``otherwise`` is the advice then.
    """
    from hermes.base.errors import HermesError

    if not sys.stdin.isatty():
        raise HermesError(f"not a terminal; {otherwise}")
    import warnings
    from getpass import GetPassWarning, getpass

    with warnings.catch_warnings():
        warnings.simplefilter("error", GetPassWarning)
        try:
            return getpass(question).strip()
        except GetPassWarning:
            raise HermesError(f"this terminal would show what is typed; {otherwise}") from None
        except EOFError:
            return ""


def secret_from_stdin() -> str:
    """A secret from standard input, without the white space around it."""
    return sys.stdin.read(_LONGEST_SECRET).strip()


def _cells_of(character: str) -> int:
    if character.isascii():
        return 1
    from unicodedata import category, east_asian_width

    if character == _EMOJI:
        return 1
    if category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if east_asian_width(character) in "WF" else 1
