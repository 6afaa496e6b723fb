"""Waiting without clocks: for a condition, for work on another thread, for the end of a process.

A test never asserts how long something took. To prove that something does not block, it holds what would block it
and sees the work come to its end all the same. ``HANG`` only turns a hang into a failure with words.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from support import is_running

T = TypeVar("T")

#: Seconds after which a test gives up. Never a statement about speed: a calm machine needs a fraction of it.
HANG = 60.0


def wait_until(condition: Callable[[], object], what: str = "what was expected") -> None:
    """Wait until a condition holds; ``what`` names it when it never does."""
    give_up = time.monotonic() + HANG
    while not condition():
        if time.monotonic() > give_up:
            raise AssertionError(f"waited in vain: {what}")
        time.sleep(0.005)


def wait_for(event: threading.Event, what: str = "the event") -> None:
    """Wait until an event is set."""
    assert event.wait(HANG), f"waited in vain: {what}"


def wait_until_gone(*pids: int) -> None:
    """Wait until processes have ended; one that only its parent has yet to collect has ended, too."""
    wait_until(lambda: not any(map(is_running, pids)), f"the end of {pids}")


def finish(work: Callable[[], T]) -> T:
    """Do the work on a thread of its own and return its result: it must come to an end by itself."""
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(HANG)
    assert not thread.is_alive(), "it never came to an end"
    if errors:
        raise errors[0]
    return results[0]


def read_pid(path: Path) -> int:
    """The process id that a command writes to this file as a line, once it is there."""
    wait_until(lambda: path.exists() and path.read_text().endswith("\n"), f"a process id in {path.name}")
    return outer_pid(int(path.read_text()), path.parent)


def outer_pid(pid: int, cwd: Path) -> int:
    """The id by which this process knows a process that works in ``cwd`` and calls itself ``pid``.

    They differ for a command in the sandbox, which has process ids of its own.
    """
    for status in Path("/proc").glob("[0-9]*/status"):
        with contextlib.suppress(OSError, StopIteration, ValueError):
            (*_, inner) = ids = next(
                line for line in status.read_text().splitlines() if line.startswith("NSpid:")
            ).split()[1:]
            if len(ids) > 1 and int(inner) == pid and (status.parent / "cwd").samefile(cwd):
                return int(status.parent.name)
    return pid


class StoppedClock:
    """Put in place of a module's ``time``: no time passes until a condition holds, then an hour at once.

    Afterwards it stands still again, or runs when ``runs_on`` is set.
    """

    def __init__(self, condition: Callable[[], object], *, runs_on: bool = False) -> None:
        self._condition = condition
        self._runs_on = runs_on
        self._stopped_at = time.monotonic()
        self._jumped = False

    def monotonic(self) -> float:
        self._jumped = self._jumped or bool(self._condition())
        if not self._jumped:
            return self._stopped_at
        return 3600.0 + (time.monotonic() if self._runs_on else self._stopped_at)

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)
