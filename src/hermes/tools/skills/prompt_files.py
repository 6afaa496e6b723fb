"""Prompt files: slash commands and named agents that a project or the user keeps as Markdown files.

A file of the project may give text and narrow tools. What else it asks for (``model``, commands in the text) needs
the user's trust in the folder: ``hermes.base.config.trust``. A broken file is reported and never in the way.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Literal

import msgspec

from hermes.base.config.schema.modes import MODES, NAMES_ELSEWHERE, PermissionMode
from hermes.base.config.trust import FolderTrust, project_root
from hermes.base.errors import ConfigError, did_you_mean

PromptKind = Literal["commands", "agents"]
PromptSource = Literal["user", "project"]

#: Where a project keeps them, in this order.
PROJECT_FOLDERS = (".hermes", ".claude")
#: More files than these in one folder are not looked at.
MAX_FILES = 500
_NAME = re.compile(r"[a-z][\w-]*(?::[\w-]+)?")
#: A command in the text, whose output takes its place.
_INLINE_COMMAND = re.compile(r"!`([^`\n]+)`")
_ARGUMENT = re.compile(r"\$(ARGUMENTS|[1-9])")


class PromptFile(msgspec.Struct, frozen=True):
    """One file as it describes itself."""

    name: str
    path: Path
    source: PromptSource
    #: The project that it belongs to.
    root: Path
    description: str = ""
    argument_hint: str = ""
    #: The tools that it confines itself to; None when it names none.
    tools: tuple[str, ...] | None = None
    model: str = ""
    #: The permission mode that an agent confines itself to.
    mode: PermissionMode | Literal[""] = ""
    body: str = ""
    #: Why it cannot be used; empty when it can.
    problem: str = ""

    @property
    def runs_commands(self) -> bool:
        """Whether its text has commands to run."""
        return _INLINE_COMMAND.search(self.body) is not None

    def wishes(self) -> list[str]:
        """What it asks for that needs trust in the project's folder. The user's own files need none."""
        if self.source == "user":
            return []
        commands = [f"run {found[1].strip()!r}" for found in _INLINE_COMMAND.finditer(self.body)]
        return [f"use the model {self.model}", *commands] if self.model else commands


class PromptFiles:
    """Finds prompt files for sessions. A file is read again only when it changed."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._read: dict[tuple[str, str], tuple[tuple[int, int, int], PromptFile]] = {}
        self.trust = FolderTrust(home)

    def usable(self, kind: PromptKind, cwd: Path, principal: str = "") -> list[PromptFile]:
        """The files that a session in ``cwd`` has, by name; the user's own come before the project's."""
        found: dict[str, PromptFile] = {}
        for file in self.all(kind, cwd, principal):
            if not file.problem:
                found.setdefault(file.name, file)
        return [found[name] for name in sorted(found)]

    def find(self, kind: PromptKind, name: str, cwd: Path, principal: str = "") -> PromptFile | None:
        """The usable file of that name."""
        return next((file for file in self.usable(kind, cwd, principal) if file.name == name), None)

    def all(self, kind: PromptKind, cwd: Path, principal: str = "") -> list[PromptFile]:
        """Every file, broken and shadowed ones too. A caller has only those of its own workspace."""
        found: list[PromptFile] = []
        for folder, source, root in self._folders(kind, cwd, principal):
            found += (self._file(path, name, kind, source, root) for path, name in islice(_listed(folder), MAX_FILES))
        return found

    def is_trusted(self, file: PromptFile, principal: str = "") -> bool:
        """Whether the wishes of a file are granted."""
        return not principal and (file.source == "user" or self.trust.is_trusted(file.root))

    def _folders(self, kind: PromptKind, cwd: Path, principal: str) -> Iterator[tuple[str, PromptSource, Path]]:
        home = os.path.realpath(self._home)
        if not principal:
            yield f"{home}/{kind}", "user", self._home
        root = cwd if principal else project_root(cwd)
        for place in dict.fromkeys((cwd, root)):
            for name in PROJECT_FOLDERS:
                folder = f"{place}/{name}"
                # In the user's home folder, .hermes may be the home of Hermes itself.
                if os.path.isdir(folder) and os.path.realpath(folder) != home:
                    yield f"{folder}/{kind}", "project", root

    def _file(self, path: str, name: str, kind: PromptKind, source: PromptSource, root: Path) -> PromptFile:
        try:
            status = os.stat(path)
            state = (status.st_mtime_ns, status.st_size, status.st_ino)
        except OSError:
            state = (0, 0, 0)
        known = self._read.get((path, source))
        if known is not None and known[0] == state:
            return known[1]
        try:
            file = _parsed(Path(path), name, kind, source, root)
        except ConfigError as error:
            file = PromptFile(name, Path(path), source, root, problem=str(error))
        self._read[path, source] = (state, file)
        return file


def expand_arguments(body: str, arguments: str) -> str:
    """The text with ``$ARGUMENTS`` and ``$1`` … ``$9`` replaced, in one pass."""
    words = _words(arguments)

    def value(found: re.Match[str]) -> str:
        if found[1] == "ARGUMENTS":
            return arguments
        number = int(found[1])
        return words[number - 1] if number <= len(words) else ""

    return _ARGUMENT.sub(value, body)


def with_arguments(command: str, arguments: str) -> str:
    """A shell command whose ``$ARGUMENTS`` and ``$1`` … are variables of the shell.

    Text that is put into a command would be read as a part of it, whatever its quotes.
    """
    if not takes_arguments(command):
        return command
    import shlex

    return f"set -- {shlex.join(_words(arguments))}; ARGUMENTS={shlex.quote(arguments)}; {command}"


def _words(arguments: str) -> list[str]:
    import shlex

    try:
        return shlex.split(arguments)
    except ValueError:  # an unbalanced quote
        return arguments.split()


def takes_arguments(body: str) -> bool:
    """Whether a text says where its arguments go."""
    return _ARGUMENT.search(body) is not None


def split_commands(body: str) -> list[str]:
    """The text in turns with the commands in it: every second piece is a command."""
    return _INLINE_COMMAND.split(body)


def _listed(folder: str, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Path and name of each file; one in a folder below has the name ``folder:file``."""
    try:
        with os.scandir(folder) as found:
            entries = sorted(found, key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        if entry.name.endswith(".md"):
            yield entry.path, f"{prefix}{entry.name[:-3]}".lower()
        elif not prefix and not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False):
            yield from _listed(entry.path, f"{entry.name.lower()}:")


def _parsed(path: Path, name: str, kind: PromptKind, source: PromptSource, root: Path) -> PromptFile:
    from hermes.base.config.front_matter import read_markdown
    from hermes.tools.skills.manifest import tool_names

    file = read_markdown(path, inside=root if source == "project" else None)
    if kind == "agents":
        name = (file.text("name") or name).lower()
    if not _NAME.fullmatch(name):
        raise ConfigError(f"{path}: {name!r} is not a name; use letters, digits and hyphens")
    if not file.body.strip():
        raise ConfigError(f"{path}: there is no text after the front matter")
    model = file.text("model")
    return PromptFile(
        name=name,
        path=path,
        source=source,
        root=root,
        description=file.text("description") or _first_line(file.body),
        argument_hint=file.text("argument-hint", "argument_hint"),
        tools=tool_names(file.names("allowed-tools", "allowed_tools", "tools")),
        model="" if model in ("inherit", "default") else model,
        mode=_mode(file.text("mode", "permissionMode"), path) if kind == "agents" else "",
        body=file.body.strip(),
    )


def _mode(name: str, path: Path) -> PermissionMode | Literal[""]:
    try:
        return msgspec.convert(NAMES_ELSEWHERE.get(name, name), PermissionMode | Literal[""])
    except msgspec.ValidationError:
        hint = did_you_mean(name, MODES)
        raise ConfigError(f"{path}: there is no mode {name!r}{hint}") from None


def _first_line(body: str) -> str:
    lines: Sequence[str] = [line.lstrip("# ").strip() for line in body.strip().splitlines()]
    return next((line for line in lines if line), "")[:100]
