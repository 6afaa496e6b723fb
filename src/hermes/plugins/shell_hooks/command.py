"""Hook commands: entries of the ``hooks`` section of the configuration, parsed and checked."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hermes.base.config.schema.sections import ShellHookConfig
from hermes.base.errors import ConfigError, did_you_mean
from hermes.contract.hooks import HOOKS
from hermes.hooks.observers import OnError

#: Programs that run the script named after them: consent is then given to the script.
_INTERPRETER = re.compile(r"env|(?:ba|da|z|k|fi)?sh|(?:python|pypy|node|ruby|perl|php|lua)[\d.]*|bun|deno")


@dataclass(frozen=True, slots=True)
class HookCommand:
    """A command line, the hook it runs for, and its options."""

    #: What warnings, verdicts and counters call it: ``shell:1`` is the first in the configuration.
    name: str
    event: str
    command: str
    argv: tuple[str, ...]
    matcher: re.Pattern[str] | None = None
    timeout: float = 60
    on_error: OnError = "allow"
    #: Whether it runs in the sandbox where commands run in one.
    sandbox: bool = True

    def applies_to(self, tool_name: object) -> bool:
        """Whether the command runs for a call of that tool."""
        return self.matcher is None or self.matcher.fullmatch(str(tool_name)) is not None

    def script(self, cwd: Path) -> Path | None:
        """The file that holds what the command does; None for a program found on PATH, or when there is no file."""
        for position, word in enumerate(self.argv):
            if word.startswith("-") or _INTERPRETER.fullmatch(word.rpartition("/")[2]):
                continue
            if position == 0 and "/" not in word:
                return None
            if is_file(path := cwd / word):
                return path
        return None


def read_hook_commands(
    events: Mapping[str, Sequence[ShellHookConfig]], config_file: Path
) -> tuple[list[HookCommand], list[str]]:
    """The commands in the order they are written, and what is odd about them.

    Everything that makes a command unusable is in one ``ConfigError``.
    """
    commands: list[HookCommand] = []
    warnings: list[str] = []
    problems: list[str] = []
    number = 0
    for event, entries in events.items():
        if event not in HOOKS:
            listed, then = "'hermes hooks spec' lists them", "Its commands never run"
            hint = did_you_mean(event, HOOKS, otherwise=listed, then=then)
            warnings.append(f"hooks.{event}: there is no hook of that name{hint}")
            number += len(entries)
            continue
        if HOOKS[event].needs_code:
            warnings.append(f"hooks.{event}: a command cannot answer it, only a plugin. Its commands never run")
            number += len(entries)
            continue
        for index, entry in enumerate(entries):
            number += 1
            key = f"hooks.{event}[{index}]"
            try:
                commands.append(_read(f"shell:{number}", event, entry))
            except ValueError as error:
                problems.append(f"{key}.{error}")
            if entry.matcher and not _has_tool(event):
                warnings.append(f"{key}.matcher is ignored: {event} is not about a tool")
    if problems:
        raise ConfigError("\n  ".join([f"{config_file}: hook commands that cannot be used:", *problems]))
    return commands, warnings


def _read(name: str, event: str, entry: ShellHookConfig) -> HookCommand:
    """The entry as a command. ``ValueError`` names the key, what was found and what is allowed."""
    if entry.on_error == "deny" and event != "pre_tool_call":
        raise ValueError("on_error: found deny; allowed: allow, because only pre_tool_call can refuse a call")
    return HookCommand(
        name=name,
        event=event,
        command=entry.command,
        argv=_split(entry.command),
        matcher=_pattern(entry.matcher) if entry.matcher and _has_tool(event) else None,
        timeout=entry.timeout,
        on_error=entry.on_error,
        sandbox=entry.sandbox,
    )


def _split(command: str) -> tuple[str, ...]:
    """The command line split into arguments, without quotes and with ``~/`` expanded. No shell sees it."""
    if "\0" in command:
        raise ValueError("command: found a NUL character; allowed: a command line without one")
    try:
        argv = shlex.split(command)
    except ValueError as error:
        raise ValueError(f"command: found {command!r}; allowed: a command line with paired quotes ({error})") from None
    if not argv or not argv[0]:
        raise ValueError(f"command: found {command!r}; allowed: a program and its arguments")
    return tuple(str(Path(word).expanduser()) if word.startswith("~/") else word for word in argv)


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        hint = "; '.*' or no matcher at all means every tool" if text == "*" else ""
        raise ValueError(f"matcher: found {text!r}; allowed: a regular expression ({error}){hint}") from None


def _has_tool(event: str) -> bool:
    return any(field.name == "tool_name" for field in HOOKS[event].fields)


def is_file(path: Path) -> bool:
    """Whether there is a file of that name."""
    try:
        return path.is_file()
    except (OSError, ValueError):  # a name that is too long, say, because it is a program text
        return False
