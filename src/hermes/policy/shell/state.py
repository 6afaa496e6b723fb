"""What a shell would know at one point of a command line."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from hermes.policy.paths import Place
from hermes.policy.shell.flow import Flow
from hermes.policy.shell.marks import UNKNOWN

if TYPE_CHECKING:
    from tree_sitter import Node

Value = str | list[str]
#: Longer values, in characters or members, are not followed.
_LONGEST_VALUE = 65_536


@dataclass(slots=True)
class State:
    """Variables, functions and files that earlier parts of the line made, and where it runs."""

    place: Place
    variables: dict[str, Value] = field(default_factory=dict[str, Value])
    positional: list[str] | None = None
    aliases: dict[str, str] = field(default_factory=dict[str, str])
    functions: dict[str, Node] = field(default_factory=dict[str, "Node"])
    #: By resolved path: what was written there, or that it was downloaded.
    files: dict[str, Flow] = field(default_factory=dict[str, Flow])
    executable: set[str] = field(default_factory=set[str])
    #: Programs under another name: the path of a copy or link, and what it was made from.
    copies: dict[str, str] = field(default_factory=dict[str, str])
    #: Inside a container: the machine itself is out of reach.
    contained: bool = False
    #: Inside text that may never run: only what must never run counts.
    only_hardline: bool = False

    def assign(self, name: str, value: Value, *, append: bool = False) -> None:
        """Remember a variable."""
        if append:
            value = _appended(self.variables.get(name, UNKNOWN), value)
        self.variables[name] = value if len(value) <= _LONGEST_VALUE else UNKNOWN

    def value(self, name: str) -> str:
        """The variable as one text, as ``$name`` gives it."""
        if name == "PWD":
            return self.place.cwd or UNKNOWN
        if name.isascii() and name.isdigit():
            return self._argument(int(name[:9]))
        if name in ("@", "*"):
            return UNKNOWN if self.positional is None else " ".join(self.positional)
        value = self.variables.get(name, UNKNOWN)
        if isinstance(value, list):
            return value[0] if value else ""
        return value

    def items(self, name: str) -> list[str]:
        """All members of an array, or of ``$@``."""
        if name in ("@", "*"):
            return [UNKNOWN] if self.positional is None else self.positional
        value = self.variables.get(name, UNKNOWN)
        return value if isinstance(value, list) else [value]

    def _argument(self, number: int) -> str:
        if number == 0:
            return str(self.variables.get("0", UNKNOWN))
        if self.positional is None:
            return UNKNOWN
        return self.positional[number - 1] if number <= len(self.positional) else ""

    def inner(self, **changes: object) -> State:
        """The state of a shell that starts here: it knows all this, and what it learns is kept from us."""
        copy = replace(
            self,
            place=replace(self.place),
            variables=dict(self.variables),
            aliases=dict(self.aliases),
            functions=dict(self.functions),
            files=self.files,
        )
        for name, value in changes.items():
            setattr(copy, name, value)
        return copy


def merged(one: dict[str, Value], other: dict[str, Value]) -> dict[str, Value]:
    """The variables where two ways meet: what they disagree about is unknown."""
    if one == other:
        return other
    result = {**one, **other}
    for name in one.keys() & other.keys():
        if one[name] != other[name]:
            result[name] = UNKNOWN
    return result


def _appended(before: Value, more: Value) -> Value:
    if isinstance(before, list):
        return [*before, *(more if isinstance(more, list) else [more])]
    return before + more if isinstance(more, str) else [before, *more]


def starting_variables(place: Place) -> dict[str, Value]:
    """What is set in practically every shell."""
    return {
        "0": "bash",
        "HOME": place.home,
        "HERMES_HOME": place.hermes_home,
        "IFS": " ",
        "SHELL": "/bin/bash",
        "BASH": "/bin/bash",
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "USER": place.home.rpartition("/")[2],
    }
