"""What a child process uses, and other things that can be measured on a busy machine."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TypeVar

T = TypeVar("T")

LAUNCHER = Path(__file__).with_name("launch.py")
_MEMORY_UNIT = 1 if sys.platform == "darwin" else 1024


class BenchFailed(Exception):
    """Something that is measured did not do its work, so there is nothing to measure."""


@dataclass(frozen=True, slots=True)
class Child:
    """A process that has ended: what it printed and what it used."""

    stdout: str
    #: User and system time, in seconds.
    cpu: float
    #: The most memory it held at any time, in bytes.
    peak: int


def run_child(command: Sequence[str], *, env: Mapping[str, str], cwd: Path) -> Child:
    """Run a command to its end. A command that fails is an error: its cost would mean nothing."""
    launcher = [sys.executable, "-I", "-S", str(LAUNCHER), *command]
    done = subprocess.run(launcher, env=env, cwd=cwd, capture_output=True, text=True, check=False)
    *printed, figures = done.stderr.rstrip().split("\n")
    try:
        code, cpu, peak = figures.split()
        if int(code) == 0:
            return Child(done.stdout, float(cpu), int(peak) * _MEMORY_UNIT)
    except ValueError:
        printed.append(figures)
    raise BenchFailed(f"{' '.join(command[:4])} … failed:\n" + "\n".join(printed) + done.stdout)


def alternate(
    repeat: int, ours: Callable[[], T], floor: Callable[[], T], *, warm_up: bool = True
) -> tuple[list[T], list[T]]:
    """Run both by turns, so that whatever else the machine does falls on both.

    With ``warm_up`` there is one more pair, which is not counted: it compiles modules and fills the file cache.
    """
    if warm_up:
        ours()
        floor()
    pairs = [(ours(), floor()) for _ in range(repeat)]
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs]


def sync_cost(folder: Path, count: int = 100) -> float:
    """Seconds until a small append is on disk: the least a commit can cost in that folder."""
    sync = getattr(os, "fdatasync", os.fsync)
    path = folder / "sync-cost"
    seconds: list[float] = []
    with path.open("wb", buffering=0) as file:
        for _ in range(count):
            started = time.perf_counter()
            file.write(b"x" * 512)
            sync(file.fileno())
            seconds.append(time.perf_counter() - started)
    path.unlink()
    return median(seconds)
