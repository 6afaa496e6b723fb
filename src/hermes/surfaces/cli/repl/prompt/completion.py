"""Completes slash commands, their arguments and paths at the prompt."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from pathlib import Path

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from hermes.base.config.listing import list_settings
from hermes.base.config.messages import dotted
from hermes.contract.commands import SlashCommand
from hermes.surfaces.commands.conversation import Conversation
from hermes.surfaces.commands.handlers.models import known_models
from hermes.surfaces.commands.handlers.sessions import session_choices
from hermes.surfaces.commands.table import all_commands
from hermes.tools.toolsets import toolsets

#: How many paths are offered, and how many entries of a folder are read: a prompt must not block.
_MOST_PATHS = 200
_MOST_ENTRIES = 20_000
_MOST_SECONDS = 0.25
_LONGEST_WORD = 4_096

#: The word before the cursor, with a quote that is still open, and without.
_QUOTED_WORD = re.compile(r'(?:^|(?<=\s))(@?)"([^"\n]*)$')
_WORD = re.compile(r'(?:^|(?<=\s))(@?)([^\s"]\S*|)$')
_PATH_BEGINNING = re.compile(r"~|\.{0,2}/")
_BLANK = re.compile(r"\s")


_Candidates = tuple[str, ...]
#: A word, the text that is shown for it, and a remark.
_Choice = tuple[str, str, str]


class PromptCompleter(Completer):
    """Completes the word before the cursor. The commands are read each time."""

    def __init__(
        self,
        commands: Callable[[], Iterable[SlashCommand]],
        cwd: Path,
        choices: Callable[[str], Iterable[_Choice]] = lambda _name: (),
    ) -> None:
        """``choices`` are arguments of a command that are found by the text shown for them."""
        self._commands = commands
        self._cwd = cwd
        self._choices = choices

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Generator[Completion]:
        """Completions, requested by prompt_toolkit at each key."""
        before = document.text_before_cursor
        if before.startswith("/"):
            name, *rest = _BLANK.split(before[1:], maxsplit=1)
            yield from self._arguments(name, rest[0].lstrip()) if rest else self._names(name)
            if not rest and "/" not in name:
                return
        yield from _paths(before[-_LONGEST_WORD:], self._cwd)

    def _names(self, typed: str) -> Iterator[Completion]:
        """One line for each command: its name when that fits, else the alias that was meant."""
        for command in sorted(self._commands(), key=lambda command: command.name):
            for name in _names_like(command, typed)[:1]:
                yield Completion(name, -len(typed), display=f"/{name}", display_meta=command.summary)

    def _arguments(self, name: str, typed: str) -> Iterator[Completion]:
        for command in self._commands():
            if any(len(known) == len(name) for known in _names_like(command, name)):
                words = (word for word in command.words if word.lower().startswith(typed.lower()))
                yield from (Completion(word, -len(typed)) for word in words)
                wanted = typed.lower().split()
                for word, text, remark in self._choices(command.name):
                    if word.startswith(typed) or all(part in text.lower() for part in wanted):
                        yield Completion(word, -len(typed), display=text, display_meta=remark)


def _names_like(command: SlashCommand, typed: str) -> list[str]:
    """The name and the aliases that begin with what was typed."""
    return [name for name in (command.name, *command.aliases) if name.lower().startswith(typed.lower())]


def _paths(before: str, cwd: Path) -> Iterator[Completion]:
    """Path completions of the word before the cursor: after ``@``, or when it looks like a path."""
    for pattern in (_QUOTED_WORD, _WORD):
        match = pattern.search(before)
        if match and (match[1] or _PATH_BEGINNING.match(match[2])):
            for path in _paths_like(match[2], cwd):
                text = match[1] + _quoted(path, is_open=pattern is _QUOTED_WORD)
                yield Completion(text, -len(match[0]), display=_last_part(path))
            return


def _paths_like(typed: str, cwd: Path) -> Iterator[str]:
    if typed == "~":
        yield "~/"
        return
    folder, slash, start = typed.rpartition("/")
    folder += slash
    for entry in _entries(folder, start, cwd):
        path = folder + entry.name + ("/" if _is_folder(entry) else "")
        # A quote within quotes has no spelling that everybody reads alike.
        if '"' not in path or not _BLANK.search(path):
            yield path


def _entries(folder: str, start: str, cwd: Path) -> list[os.DirEntry[str]]:
    """The entries of a folder with this prefix, sorted; only some when the folder is huge."""
    found: list[os.DirEntry[str]] = []
    deadline = time.monotonic() + _MOST_SECONDS
    ignores_case = start == start.lower()
    try:
        with os.scandir(cwd / os.path.expanduser(folder)) as entries:  # noqa: PTH111  (``~nobody`` is a name, too)
            for looked_at, entry in enumerate(entries):
                if looked_at >= _MOST_ENTRIES or time.monotonic() > deadline:
                    break
                name = entry.name.lower() if ignores_case else entry.name
                hidden = name.startswith(".") and not start.startswith(".")
                if name.startswith(start) and not hidden and name.isprintable():
                    found.append(entry)
    except (OSError, ValueError):
        return []
    return sorted(found, key=lambda entry: entry.name)[:_MOST_PATHS]


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def _quoted(path: str, *, is_open: bool) -> str:
    """The path in quotes when it needs them; those of a folder stay open for what is in it."""
    if not is_open and not _BLANK.search(path):
        return path
    return f'"{path}' if path.endswith("/") else f'"{path}"'


def _last_part(path: str) -> str:
    """The name at the end of a path; a folder's keeps its slash."""
    return path[path.rstrip("/").rfind("/") + 1 :]


def commands_to_complete(conversation: Conversation) -> list[SlashCommand]:
    """Every command, with all words that may follow its name, as far as they can be listed. Cheap enough for every key.

    A command that is not in ``_MAKERS`` has them itself.
    """
    return [
        command._replace(words=_MAKERS[command.name](conversation)) if command.name in _MAKERS else command
        for command in all_commands(conversation.host)
    ]


def argument_choices(conversation: Conversation, name: str) -> list[_Choice]:
    """Arguments of a command that are chosen by what they stand for, such as the title of a session."""
    return session_choices(conversation) if name == "resume" else []


def _commands(conversation: Conversation) -> _Candidates:
    return tuple(command.name for command in all_commands(conversation.host))


def _models(conversation: Conversation) -> _Candidates:
    return tuple(known_models(conversation.host.config))


def _tools(conversation: Conversation) -> _Candidates:
    offered = {tool.name for tool in conversation.session.offered}
    return _switched(sorted(conversation.host.tools.all()), offered.__contains__)


def _toolsets(conversation: Conversation) -> _Candidates:
    offered = {tool.name for tool in conversation.session.offered}
    known = toolsets(conversation.host.tools)
    return _switched(sorted(known), lambda name: known[name] <= offered)


def _switched(names: Iterable[str], is_on: Callable[[str], bool]) -> _Candidates:
    return tuple(f"{'disable' if is_on(name) else 'enable'} {name}" for name in names)


def _settings(conversation: Conversation) -> _Candidates:
    keys = [dotted(setting.path) for setting in list_settings(conversation.host.config)]
    return tuple(dict.fromkeys([key.partition(".")[0] for key in keys] + keys))


_MAKERS: dict[str, Callable[[Conversation], _Candidates]] = {
    "help": _commands,
    "model": _models,
    "tools": _tools,
    "toolsets": _toolsets,
    "config": _settings,
}
