"""One program about to run: what rules look at."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from hermes.policy.paths import Place
from hermes.policy.shell.flow import TERMINAL, Flow
from hermes.policy.shell.marks import known_part

_VERSION = re.compile(r"[\d.]+$")
_ASSIGNMENT = re.compile(r"\w+(?:\[[^\]]*\])?\+?=")


@dataclass(slots=True)
class Options:
    """Arguments told apart: single letters, long names with their values, and the rest."""

    letters: set[str] = field(default_factory=set[str])
    names: dict[str, str] = field(default_factory=dict[str, str])
    operands: list[str] = field(default_factory=list[str])

    def has(self, letters: str = "", *names: str) -> bool:
        """Whether one of the letters is set, or one of the long names or a shortening of it."""
        if not self.letters.isdisjoint(letters):
            return True
        return any(name.startswith(given) for given in self.names for name in names if len(given) > 2)


@dataclass(slots=True)
class Call:
    """A program, its arguments, what it reads and where its output goes."""

    #: As written, the program first.
    words: list[str]
    #: The text it stands in.
    source: str
    place: Place
    stdin: Flow = TERMINAL
    #: The files its output is redirected to.
    writes: list[str] = field(default_factory=list[str])
    #: The program's name alone, in lower case: some file systems do not care about case.
    program: str = field(init=False)
    _options: Options | None = None

    def __post_init__(self) -> None:
        self.program = base_name(self.words[0]) if self.words else ""

    @property
    def args(self) -> list[str]:
        """The words behind the program."""
        return self.words[1:]

    @property
    def options(self) -> Options:
        """The arguments read the usual way. Letters that take a value are not known here and stay letters."""
        if self._options is None:
            self._options = read_options(self.args)
        return self._options

    def values(self, letters: str, *names: str) -> list[str]:
        """The values of an option in all its spellings: ``-o x``, ``-ox``, ``-vo x``, ``--out x``, ``--out=x``."""
        found: list[str] = []
        for at, word in enumerate(self.args):
            following = self.args[at + 1 : at + 2]
            if word.startswith("--"):
                name, equals, value = word[2:].partition("=")
                if name in names:
                    found += [value] if equals else following
            elif word.startswith("-"):
                place = next((place for place, letter in enumerate(word) if place and letter in letters), None)
                if place is not None:
                    found += [word[place + 1 :]] if word[place + 1 :] else following
        return found


def read_options(args: list[str], values: str = "") -> Options:
    """Options and operands, mixed as they come; after ``--`` only operands. ``values`` are letters with a value."""
    options = Options()
    waiting = iter(args)
    for word in waiting:
        if word == "--":
            options.operands += waiting
        elif word.startswith("--"):
            name, _, value = word[2:].partition("=")
            options.names[name] = value
        elif word.startswith("-") and len(word) > 1:
            for position, letter in enumerate(word[1:], 2):
                options.letters.add(letter)
                if letter in values:
                    if position == len(word):
                        next(waiting, None)
                    break
        else:
            options.operands.append(word)
    return options


def base_name(word: str) -> str:
    """``/usr/bin/RM.exe`` is ``rm``."""
    name = known_part(word).replace("\\", "/").rstrip("/").rpartition("/")[2].lower()
    return name[:-4] if name.endswith((".exe", ".cmd", ".bat")) else name


def without_version(program: str) -> str:
    """``python3.12`` is ``python``."""
    return _VERSION.sub("", program) or program


def is_assignment(word: str) -> bool:
    """Whether a word has the form ``NAME=value``."""
    return _ASSIGNMENT.match(word) is not None
