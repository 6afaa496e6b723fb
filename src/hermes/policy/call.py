"""A program call as the rules see it: name, arguments, input and output redirections."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from hermes.policy.paths import PathContext
from hermes.policy.shell.flow import TERMINAL, Flow
from hermes.policy.shell.marks import known_part

_ASSIGNMENT = re.compile(r"\w+(?:\[[^\]]*\])?\+?=")


@dataclass(slots=True)
class ParsedOptions:
    """Parsed arguments: option letters, long options with their values, and operands."""

    letters: set[str] = field(default_factory=set[str])
    names: dict[str, str] = field(default_factory=dict[str, str])
    operands: list[str] = field(default_factory=list[str])

    def has(self, letters: str = "", *names: str) -> bool:
        """Whether one of the letters is set, or one of the long names or an abbreviation of it."""
        if not self.letters.isdisjoint(letters):
            return True
        return any(name.startswith(given) for given in self.names for name in names if len(given) > 2)


@dataclass(slots=True)
class Call:
    """A program, its arguments, its input and its output redirections."""

    #: As written, the program first.
    words: list[str]
    #: The surrounding command text.
    source: str
    paths: PathContext
    stdin: Flow = TERMINAL
    #: The files its output is redirected to.
    writes: list[str] = field(default_factory=list[str])
    #: The text of the pipeline or loop around it.
    around: str = ""
    #: Files among its arguments whose text the analysis has read.
    read_files: frozenset[str] = frozenset()
    #: The base name in lower case: some file systems ignore case.
    program: str = field(init=False)
    #: The words after the program.
    args: list[str] = field(init=False)
    _options: ParsedOptions | None = None
    #: The files it writes by its arguments; see ``rules.targets``.
    written: list[str] | None = None

    def __post_init__(self) -> None:
        self.program = base_name(self.words[0]) if self.words else ""
        self.args = self.words[1:]

    @property
    def options(self) -> ParsedOptions:
        """The arguments, parsed the usual way. Which letters take a value is unknown here."""
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
                position = next(
                    (position for position, letter in enumerate(word) if position and letter in letters), None
                )
                if position is not None:
                    found += [word[position + 1 :]] if word[position + 1 :] else following
        return found


def read_options(args: list[str], values: str = "") -> ParsedOptions:
    """Options and operands in any order; after ``--`` only operands. ``values``: letters that take a value."""
    options = ParsedOptions()
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


def after_options(args: list[str], takes_value: Callable[[str], bool]) -> list[str]:
    """The arguments from the first operand on; ``takes_value`` says which options take the next word."""
    at = 0
    while at < len(args) and args[at].startswith("-"):
        at += 2 if takes_value(args[at]) else 1
    return args[at:]


def base_name(word: str) -> str:
    """``/usr/bin/RM.exe`` is ``rm``."""
    name = known_part(word).replace("\\", "/").rstrip("/").rpartition("/")[2].lower()
    return name[:-4] if name.endswith((".exe", ".cmd", ".bat")) else name


def without_version(program: str) -> str:
    """``python3.12`` is ``python``."""
    return program.rstrip("0123456789.") or program


def is_assignment(word: str) -> bool:
    """Whether a word has the form ``NAME=value``."""
    return _ASSIGNMENT.match(word) is not None
