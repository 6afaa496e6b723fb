"""Runs many sessions of one host at the same time and prints what a turn cost: the program behind the last row."""

from __future__ import annotations

import resource
import sys
import threading
from pathlib import Path

import msgspec

from hermes.base.config import hermes_home, load_config
from hermes.host import Host, HostOptions

from .server import Plan, raise_file_limit
from .workspace import expected_answer

#: A turn does not recurse, and a thousand default stacks would be reserved for nothing.
STACK_BYTES = 512 * 1024


class Cost(msgspec.Struct):
    """What so many turns took of this process."""

    turns: int
    #: CPU seconds of one turn.
    cpu_per_turn: float
    #: What went wrong, in words.
    errors: list[str]


class Crowd:
    """Sessions that each run one turn with one file read, so many at a time."""

    def __init__(self, host: Host, at_once: int) -> None:
        self._host = host
        self._at_once = at_once
        self._errors: list[str] = []

    def run(self, turns: int) -> Cost:
        before = _cpu()
        for first in range(0, turns, self._at_once):
            self._together(range(first, first + self._at_once))
        return Cost(turns, (_cpu() - before) / turns, self._errors)

    def _together(self, numbers: range) -> None:
        threads = [threading.Thread(target=self._turn, args=(number,)) for number in numbers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _turn(self, number: int) -> None:
        plan = Plan(rounds=1, first=number, hold=self._at_once)
        try:
            result = self._host.new_session().run(plan.query())
        except Exception as error:
            self._errors.append(f"session {number}: {type(error).__name__}: {error}")
            return
        if result.answer != expected_answer(self._host.cwd, plan):
            self._errors.append(f"session {number}: {result.status}: {result.error or result.answer}")


def _cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    """``crowd.py SESSIONS TURNS``: so many sessions at a time until there were so many turns."""
    at_once, turns = map(int, sys.argv[1:])
    raise_file_limit()
    threading.stack_size(STACK_BYTES)
    home = hermes_home()
    with Host(home, load_config(home).config, HostOptions(toolsets=["file"]), cwd=Path.cwd()) as host:
        # What is loaded and opened on first use is no cost of the turns that are counted.
        warm_up = Crowd(host, 1).run(1)
        cost = Crowd(host, at_once).run(turns)
    cost.errors += warm_up.errors
    sys.stdout.write(msgspec.json.encode(cost).decode() + "\n")


if __name__ == "__main__":
    main()
