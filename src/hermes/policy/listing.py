"""The single commands that a command line comes down to."""

from __future__ import annotations

import os
from pathlib import Path

from hermes.policy.call import Call
from hermes.policy.findings import Findings
from hermes.policy.paths import Place
from hermes.policy.shell.marks import shown
from hermes.policy.shell.reader import Shell, TooMuch
from hermes.policy.shell.state import State, starting_variables
from hermes.policy.shell.syntax import LONGEST, readings


def commands_in(command: str, *, cwd: Path | str) -> list[str]:
    """Every program that would run, with its real arguments, on a line each: wrappers and what they wrap alike."""
    home = os.path.expanduser("~").rstrip("/") or "/"  # noqa: PTH111 - a home need not exist
    place = Place(cwd=str(cwd), home=home, hermes_home="")
    found: list[str] = []
    for text in readings(command):
        shell = _Lister(State(place, starting_variables(place)), found)
        try:
            shell.read(text[:LONGEST])
        except (TooMuch, RecursionError):
            continue  # what was understood counts
    return list(dict.fromkeys(found))


class _Lister(Shell):
    """A shell that notes what it would run instead of trying rules on it."""

    def __init__(self, state: State, found: list[str]) -> None:
        super().__init__(state, Findings())
        self._listed = found

    def check(self, call: Call) -> None:
        if call.words and not self.state.only_hardline:
            # A program is the same one whatever its folder.
            self._listed.append(shown(" ".join((call.program, *call.args))))

    def is_hardline(self, words: list[str], like: Call) -> bool:
        return False  # only mentioned, not run
