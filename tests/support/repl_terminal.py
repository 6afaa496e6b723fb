"""A real ``hermes`` process on a pseudo-terminal, seen through a real terminal emulator."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Self, TypeVar

import pyte

from support import hermes_command, hermes_environment
from support.forked_hermes import ForkedHermes, can_fork
from support.waiting import HANG

CTRL_C, CTRL_D, CTRL_L, TAB, ENTER, ALT_ENTER, UP = "\x03", "\x04", "\x0c", "\t", "\r", "\x1b\r", "\x1b[A"
SHIFT_TAB = "\x1b[Z"
UTF8 = {"LC_ALL": "C.UTF-8"}


T = TypeVar("T")
TerminalProcess = ForkedHermes | subprocess.Popen[bytes]


class ReplTerminal:
    """A person's terminal with ``hermes`` running in it. Use it as a context manager."""

    def __init__(
        self,
        home: Path,
        cwd: Path,
        *arguments: str,
        columns: int = 80,
        rows: int = 24,
        env: Mapping[str, str] | None = None,
        ready: str = "\n>",
    ) -> None:
        self._screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self._screen)
        #: Every byte that was printed.
        self.raw = b""
        self._main_end, terminal = pty.openpty()
        self._set_size(columns, rows)
        self.process = _start(arguments, home, cwd, {"TERM": "xterm-256color", **UTF8, **(env or {})}, terminal)
        os.close(terminal)
        self._ready = ready

    def __enter__(self) -> Self:
        self.wait_for(self._ready)
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait(60)
        self.hang_up()

    # -- the person ---------------------------------------------------------------------------------------------

    def type(self, text: str) -> None:
        """Press keys."""
        os.write(self._main_end, text.encode())

    def send(self, line: str) -> None:
        """Type a line and press Enter."""
        self.type(line + ENTER)

    def paste(self, text: str) -> None:
        """Paste, as a terminal does it."""
        self.type(f"\x1b[200~{text}\x1b[201~")

    def resize(self, columns: int, rows: int) -> None:
        """Change the size of the window."""
        self._screen.resize(rows, columns)
        self._set_size(columns, rows)
        self.process.send_signal(signal.SIGWINCH)

    def hang_up(self) -> None:
        """Close the window."""
        if self._main_end >= 0:
            os.close(self._main_end)
            self._main_end = -1

    # -- what they see ------------------------------------------------------------------------------------------

    @property
    def rows(self) -> list[str]:
        """The rows of the screen as text."""
        return [row.rstrip() for row in self._screen.display]

    @property
    def text(self) -> str:
        """The screen as text."""
        return "\n".join(self.rows).rstrip()

    def cells(self, make: Callable[[str, str, bool, bool, bool], T]) -> list[list[T]]:
        """The characters of the screen, row by row, each made from its text, colour, bold, italic and underline."""
        screen = self._screen
        rows = ([screen.buffer[row][column] for column in range(screen.columns)] for row in range(screen.lines))
        return [[make(one.data, one.fg, one.bold, one.italics, one.underscore) for one in row] for row in rows]

    def wait_for(self, words: str) -> None:
        """Read until the words are on the screen."""
        self.wait_until(lambda: words in self.text, words)

    def wait_until_gone(self, words: str) -> None:
        """Read until the words are no longer on the screen."""
        self.wait_until(lambda: words not in self.text, f"no {words}")

    def wait_until_idle(self) -> None:
        """Read until the prompt is drawn, empty, and the agent does not work."""
        self.wait_until(self._is_idle, "the idle prompt")

    def _is_idle(self) -> bool:
        *above, prompt, _status = ["", "", *filter(None, self.rows)]
        return prompt == ">" and not any(word in above[-1] for word in ("working", "stopping"))

    def wait_until(self, condition: Callable[[], bool], what: str = "what was expected") -> None:
        """Read until the screen is as wanted."""
        deadline = time.monotonic() + HANG
        while not condition():
            if time.monotonic() > deadline or not self._read(deadline):
                raise AssertionError(f"{what!r} never came:\n{self.text}\n{self.raw[-3000:]!r}")

    def end(self) -> int:
        """Read to the end; the exit code."""
        deadline = time.monotonic() + HANG
        while self._read(deadline):
            if time.monotonic() > deadline:
                raise AssertionError(f"it never ended:\n{self.text}")
        return self.process.wait(HANG)

    def _read(self, deadline: float) -> bool:
        readable, _, _ = select.select([self._main_end], [], [], max(min(deadline - time.monotonic(), 0.5), 0))
        if not readable:
            return True
        try:
            data = os.read(self._main_end, 65_536)
        except OSError:  # the other end is closed
            return False
        self.raw += data
        self._stream.feed(data)
        return bool(data)

    def _set_size(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self._main_end, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def run_on_terminal(
    home: Path,
    cwd: Path,
    *arguments: str,
    env: Mapping[str, str] | None = None,
    after: str = "",
    act: Callable[[TerminalProcess, int], object] | None = None,
) -> tuple[str, int]:
    """Run ``hermes`` on a pseudo-terminal to its end: what it printed, and the exit code.

    Once ``after`` has been printed, ``act`` gets the process and the end of the terminal to type at.
    """
    main_end, terminal = pty.openpty()
    process = _start(arguments, home, cwd, env or {}, terminal)
    os.close(terminal)
    output = b""
    while True:
        try:
            piece = os.read(main_end, 4_096)
        except OSError:  # the other end is closed
            break
        if not piece:
            break
        output += piece
        if act is not None and after.encode() in output:
            act(process, main_end)
            act = None
    os.close(main_end)
    return output.decode().replace("\r\n", "\n"), process.wait(HANG)


def _start(arguments: tuple[str, ...], home: Path, cwd: Path, env: Mapping[str, str], terminal: int) -> TerminalProcess:
    everything = hermes_environment(home, env)
    if can_fork(env):
        return ForkedHermes(arguments, cwd, everything, (terminal, terminal, terminal), takes_terminal=True)
    return subprocess.Popen(
        hermes_command(*arguments),
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        cwd=cwd,
        env=everything,
        preexec_fn=_take_terminal,
    )


def _take_terminal() -> None:
    """Make the pseudo-terminal the one that controls the process, so that Ctrl-C in it is a signal."""
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
