"""State of the simulated shell: variables, functions, files, working folder."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hermes.policy.paths import PathContext
from hermes.policy.places import NOWHERE
from hermes.policy.shell.flow import Flow
from hermes.policy.shell.marks import TOKEN, UNKNOWN

if TYPE_CHECKING:
    from tree_sitter import Node

Value = str | list[str]
#: Stands for the search path that a command starts with.
START_PATH = "/usr/local/bin:/usr/bin:/bin"
#: Longer values, in characters or members, become unknown.
_LONGEST_VALUE = 65_536


@dataclass(slots=True)
class ShellState:
    """The state after the earlier parts of a command line."""

    paths: PathContext
    variables: dict[str, Value] = field(default_factory=dict[str, Value])
    positional: list[str] | None = None
    aliases: dict[str, str] = field(default_factory=dict[str, str])
    functions: dict[str, Node] = field(default_factory=dict[str, "Node"])
    #: Resolved path -> content or origin of a file written by the command line.
    files: dict[str, Flow] = field(default_factory=dict[str, Flow])
    executable: set[str] = field(default_factory=set[str])
    #: Copies and links of programs: path -> original.
    copies: dict[str, str] = field(default_factory=dict[str, str])
    #: Inside a container: the host is out of reach.
    contained: bool = False
    #: Inside text that may never run: only hardline rules count.
    only_hardline: bool = False
    #: Inside a substitution or an earlier part of a pipeline: no one sees the output.
    captured: bool = False
    #: Inside a command line that is the value of an option or variable of another program.
    by_option: bool = False
    #: Folders with what this command line fetched or unpacked; and those where it lies among other files.
    unread: set[str] = field(default_factory=set[str])
    mixed: set[str] = field(default_factory=set[str])
    #: Names of git's remotes that this command line added or changed.
    remotes: set[str] = field(default_factory=set[str])

    def assign(self, name: str, value: Value, *, append: bool = False) -> None:
        """Set a variable."""
        if append:
            value = _appended(self.variables.get(name, UNKNOWN), value)
        self.variables[name] = value if len(value) <= _LONGEST_VALUE else UNKNOWN

    def value(self, name: str) -> str:
        """The variable as one text, as ``$name`` gives it."""
        if name == "PWD":
            return self.paths.cwd or UNKNOWN
        if name.isascii() and name.isdigit():
            return self._argument(int(name[:9]))
        if name in ("@", "*"):
            return UNKNOWN if self.positional is None else " ".join(self.positional)
        value = self._variable(name)
        if isinstance(value, list):
            return value[0] if value else ""
        return value

    def _variable(self, name: str) -> Value:
        value = self.variables.get(name)
        if value is None:
            return UNKNOWN + TOKEN if is_secret_name(name) else UNKNOWN
        return value

    def items(self, name: str) -> list[str]:
        """All members of an array, or of ``$@``."""
        if name in ("@", "*"):
            return [UNKNOWN] if self.positional is None else self.positional
        value = self._variable(name)
        return value if isinstance(value, list) else [value]

    def _argument(self, number: int) -> str:
        if number == 0:
            return str(self.variables.get("0", UNKNOWN))
        if self.positional is None:
            return UNKNOWN
        return self.positional[number - 1] if number <= len(self.positional) else ""

    def inner(self, **changes: object) -> ShellState:
        """A copy of the state for a subshell: its changes do not affect this one."""
        # By hand: ``dataclasses.replace`` takes several times as long, and this is done for each part of a pipeline.
        copy = ShellState(
            self.paths.copy(),
            dict(self.variables),
            self.positional,
            dict(self.aliases),
            dict(self.functions),
            self.files,
            self.executable,
            self.copies,
            self.contained,
            self.only_hardline,
            self.captured,
            self.by_option,
            self.unread,
            self.mixed,
            self.remotes,
        )
        for name, value in changes.items():
            setattr(copy, name, value)
        if copy.contained:
            copy.paths.place = NOWHERE
        return copy


def merged(one: dict[str, Value], other: dict[str, Value]) -> dict[str, Value]:
    """Join of two branches: variables that differ become unknown."""
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


_SECRET_NAME = re.compile(
    r"(?:^|_)(?:api_?key|(?:access|private|secret|signing|encryption|master|service|account|ssh|gpg|deploy|auth)_?key"
    r"|token|secret|passwd|password|passphrase|pass|pw|credentials?|apikey|pat)s?(?:_(?:id|b64|base64|json|prod|dev))?$"
    r"|^[a-z0-9]+_key$|(?:^|_)(?:secret|password|token)_",
    re.IGNORECASE,
)
_NO_SECRET = re.compile(
    r"^(?:sort|primary|foreign|public|cache|partition|shard|group|order|hot|max|min|num)_|_(?:file|path|dir|url|name|len|count|limit)s?$",
    re.IGNORECASE,
)


def is_secret_name(name: str) -> bool:
    """Whether a variable has the name of a secret."""
    return _SECRET_NAME.search(name) is not None and _NO_SECRET.search(name) is None


def starting_variables(paths: PathContext) -> dict[str, Value]:
    """Variables set in practically every shell."""
    temporary = {"TMPDIR": paths.place.temporary} if paths.place.temporary else {}
    return {
        **temporary,
        "0": "bash",
        "HOME": paths.home,
        "HERMES_HOME": paths.hermes_home,
        "PPID": "$PPID",
        "IFS": " ",
        "SHELL": "/bin/bash",
        "BASH": "/bin/bash",
        "PATH": START_PATH,
        "USER": paths.home.rpartition("/")[2],
    }
