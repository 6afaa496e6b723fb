"""``hermes logs``: prints the end of the log and follows it across rotations."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import BinaryIO

from hermes.base.config import hermes_home
from hermes.base.log import BACKUPS, LEVELS, log_path, rotated
from hermes.surfaces.cli.arguments import Argument, CommandSpec, count, flag

_POLL_SECONDS = 0.2

Filter = Callable[[str], bool]


def _print_log(args: argparse.Namespace) -> None:
    """Print the end of the log and, when asked, follow it until interrupted."""
    path = log_path(hermes_home())
    wanted = _make_filter(args.level, args.session, args.turn)
    with closing(Follower(path)) as follower:
        for line in follower.last(args.lines, wanted):
            print(line)
        while args.follow:
            sys.stdout.flush()
            time.sleep(_POLL_SECONDS)
            for line in follower.new_lines():
                if wanted(line):
                    print(line)
    if not path.exists():
        print(f"the log is empty; it will be {path}", file=sys.stderr)


class Follower:
    """Reads the log as it grows, from one file to the next when it is rotated."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO | None = None
        self._unfinished = b""

    def last(self, count: int, wanted: Filter) -> list[str]:
        """The last matching lines, from older files too when the newest has too few."""
        lines = [line for line in self.new_lines() if wanted(line)]
        for number in range(1, BACKUPS + 1):
            if len(lines) >= count:
                break
            with contextlib.suppress(FileNotFoundError):
                older = rotated(self._path, number).read_bytes().decode("utf-8", "replace").splitlines()
                lines = [line for line in older if wanted(line)] + lines
        return lines[-count:] if count else []

    def new_lines(self) -> Iterator[str]:
        """The complete lines added since the last call; at first, all of the newest file."""
        while self._file is not None or self._open(self._path):
            yield from self._read()
            newer = self._newer_file()
            if newer is None:
                return
            # Lines written between the last read and the rotation are still in the old file.
            yield from self._read()
            self.close()
            if not self._open(newer):
                return

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _open(self, path: Path) -> bool:
        try:
            self._file = path.open("rb")
        except FileNotFoundError:
            return False
        return True

    def _read(self) -> list[str]:
        data = self._unfinished + (self._file.read() if self._file else b"")
        *whole, self._unfinished = data.split(b"\n")
        return [line.decode("utf-8", "replace") for line in whole]

    def _newer_file(self) -> Path | None:
        """The file after the open one, if that was rotated."""
        present: list[tuple[Path, os.stat_result]] = []
        for file in (self._path, *(rotated(self._path, number) for number in range(1, BACKUPS + 1))):
            with contextlib.suppress(FileNotFoundError):  # a rotation may be running
                present.append((file, file.stat()))
        if self._file is None or not present:
            return None
        opened = os.fstat(self._file.fileno())
        for index, (_, status) in enumerate(present):
            if os.path.samestat(status, opened):
                return present[index - 1][0] if index else None
        return present[-1][0]


def _make_filter(level: str | None, session: str | None, turn: str | None) -> Filter:
    levels = LEVELS[LEVELS.index(level) :] if level else LEVELS

    def wanted(line: str) -> bool:
        fields = line.split(" ", 3)
        if len(fields) < 4:
            return not level and not session and not turn
        if session and not fields[2].startswith((f"[{session}]", f"[{session}:")):
            return False
        return (not level or fields[1] in levels) and (not turn or fields[2] == f"[{turn}]")

    return wanted


def _level(text: str) -> str:
    if text.upper() not in LEVELS:
        raise argparse.ArgumentTypeError(f"found {text!r}; allowed: {', '.join(LEVELS)}")
    return text.upper()


COMMAND = CommandSpec(
    run=_print_log,
    arguments=(
        flag("-f, --follow", "keep printing new lines"),
        Argument("-n, --lines N", "lines to start with (default: 50)", type=count, default=50),
        Argument("--level L", f"this level and above: {', '.join(LEVELS)}", type=_level),
        Argument("--session ID", "only lines of this session"),
        Argument("--turn ID", "only lines written during this turn"),
    ),
)
