"""The declaration of a tool: what it does with its arguments, and how its calls are shown. Surfaces and gate use it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict, cast

import msgspec

from hermes.tools.files.paths import resolve_path

#: What an argument is that a tool runs: a command line, a program, or input for a running process.
Code = Literal["command", "script", "input"]
#: The kind of a call, as editors tell calls apart.
Kind = Literal["read", "edit", "search", "execute", "fetch", "think", "other"]
#: What is shown of a finished call: ``output`` and ``exit_code`` of its result, the ``diff`` or the ``todos`` of its
#: result, or the argument ``content``.
Detail = Literal["", "output", "diff", "tasks", "content"]
#: Who calls a tool beside the agent of the session itself.
Caller = Literal["child", "script"]

#: Names of arguments that are paths: a built-in tool must say what it does with them.
_PATH_NAME = re.compile(
    r"(?:.*_)?(?:path|paths|file|files|filename|filenames|filepath|folder|folders|directory|dir|workdir|cwd)"
)
_PATH = re.compile(r"[^\n]{1,4096}")
_URL = re.compile(r"(?:https?://|data:)")


class SkillText(msgspec.Struct, frozen=True):
    """What a toolset offers to other agents, for the agent card."""

    name: str
    description: str
    tags: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """How the calls of a tool are shown."""

    #: The kind for editors; empty: it follows from what the tool does.
    kind: Kind | Literal[""] = ""
    #: Arguments; the first that is given is the subject of the call's line.
    subject: tuple[str, ...] = ()
    detail: Detail = ""
    #: The skill of its toolset. Without one it is made of the descriptions of the tools.
    skill: SkillText | None = None
    #: The agent uses it for itself: its toolset is no skill.
    is_internal: bool = False


class Declaration(msgspec.Struct, frozen=True, kw_only=True):
    """What a tool does with its arguments, by their names. Later fields get defaults: others make declarations too."""

    #: Paths of files and folders that it reads. One that is in ``sends`` too may be a URL instead.
    reads: tuple[str, ...] = ()
    #: Paths of files that it creates, changes or deletes.
    writes: tuple[str, ...] = ()
    #: V4A patches: it writes the files that they name.
    patches: tuple[str, ...] = ()
    #: Paths inside of a folder of its own, which it does not leave.
    contained: tuple[str, ...] = ()
    #: What it runs.
    runs: Mapping[str, Code] = {}
    #: The folder that it runs it in.
    workdir: str = ""
    #: Whom it sends to: URLs, hosts, agents, recipients.
    sends: tuple[str, ...] = ()
    #: URLs that it fetches. A host that no person named is asked about.
    fetches: tuple[str, ...] = ()
    #: It opens files with ``ToolContext.open`` alone, and starts processes with ``ToolContext.confinements``. The gate
    #: refuses protected files to the others itself.
    is_guarded: bool = False
    #: A call of it names another tool, which is called in its place.
    forwards: bool = False
    #: It is offered only to those who name its toolset.
    on_request: bool = False
    #: The same for callers and chat users; the owner has it by default.
    for_owner: bool = False
    #: Callers that do not get it.
    kept_from: tuple[Caller, ...] = ()
    shown: Shown = Shown()

    @property
    def kind(self) -> Kind:
        """The kind of its calls, for editors."""
        if self.shown.kind:
            return self.shown.kind
        if self.runs:
            return "execute"
        if self.is_writer:
            return "edit"
        return "read" if self.reads else "fetch" if self.sends else "other"

    @property
    def runs_commands(self) -> bool:
        """Whether it runs command lines."""
        return "command" in self.runs.values()

    @property
    def is_writer(self) -> bool:
        """Whether it writes files that a call names."""
        return bool(self.writes or self.patches)

    def named_paths(self, args: Mapping[str, Any]) -> Iterator[str]:
        """The paths that a call names, as they are written in it."""
        for name in (*self.reads, *self.writes):
            yield from self._texts(args, name)
        yield from self._patched(args)

    def read_paths(self, args: Mapping[str, Any], cwd: Path) -> list[str]:
        """The absolute paths that a call reads; the working folder where it names none."""
        found: list[str] = []
        for name in self.reads:
            found += resolve_paths(self._texts(args, name) if args.get(name) else (".",), cwd)
        return found

    def written_paths(self, args: Mapping[str, Any], cwd: Path) -> list[Path]:
        """The files that a call writes, under their real names."""
        named = [text for name in self.writes for text in self._texts(args, name)]
        return [Path(os.path.realpath(path)) for path in resolve_paths([*named, *self._patched(args)], cwd)]

    def fetched_urls(self, args: Mapping[str, Any]) -> list[str]:
        """The URLs that a call fetches."""
        return [str(args[name]) for name in self.fetches if _URL.match(str(args.get(name) or "").strip().lower())]

    def undeclared_paths(self, args: Mapping[str, Any], cwd: Path) -> list[str]:
        """Other arguments as absolute paths: those with the name of one, and all of a tool that declares nothing."""
        found: list[str] = []
        for name, text in _texts_in(args):
            could_be_one = _PATH.fullmatch(text) and not _URL.match(text)
            is_named_so = _PATH_NAME.fullmatch(name) and name not in self.path_arguments
            if could_be_one and (is_named_so or self is UNDECLARED):
                found.append(text.removeprefix("file://"))
        return resolve_paths(found, cwd)

    @property
    def path_arguments(self) -> tuple[str, ...]:
        """The arguments that are declared to be paths."""
        return (*self.reads, *self.writes, *self.patches, *self.contained, *filter(None, (self.workdir,)))

    def _patched(self, args: Mapping[str, Any]) -> Iterator[str]:
        for name in self.patches:
            patch: object = args.get(name)
            if isinstance(patch, str):
                from hermes.tools.files.patch_v4a import paths_in  # most calls have none

                yield from paths_in(patch)

    def _texts(self, args: Mapping[str, Any], name: str) -> Iterator[str]:
        value: object = args.get(name)
        for text in cast("list[Any]", value) if isinstance(value, list) else (value,):
            if not isinstance(text, str) or not text:
                continue
            if name not in self.sends:
                yield text
            elif not _URL.match(text):
                yield text.removeprefix("file://")


class DeclaredKeywords(TypedDict, total=False):
    """What the author of a tool may declare, as keywords of ``ctx.register_tool`` and ``@tool``."""

    reads: Sequence[str]
    writes: Sequence[str]
    runs: Mapping[str, Code]
    workdir: str
    sends: Sequence[str]
    kind: Kind
    subject: Sequence[str]
    detail: Detail


_SHOWN = ("kind", "subject", "detail")


def declaration_from(keywords: DeclaredKeywords) -> Declaration | None:
    """The declaration that these keywords make; None without any. Raises TypeError for what cannot be declared."""
    given = dict[str, Any](keywords)
    unknown = given.keys() - DeclaredKeywords.__annotations__.keys()
    if unknown:
        raise TypeError(f"a tool does not take {', '.join(sorted(unknown))}")
    shown = {name: given.pop(name) for name in _SHOWN if name in given}
    try:
        return msgspec.convert({**given, "shown": shown}, Declaration) if keywords else None
    except msgspec.ValidationError as error:
        raise TypeError(f"a tool cannot declare that: {error}") from None


#: What is known of a tool without a declaration.
UNDECLARED = Declaration()


def declaration_problem(declared: Declaration | None, parameters: Mapping[str, Any]) -> str | None:
    """Why a built-in tool with these parameters may not be offered: it does not say what it does."""
    if declared is None:
        return "it has no declaration of what it reads, writes, runs and sends"
    arguments: Mapping[str, Any] = parameters.get("properties") or {}
    said = declared.path_arguments
    silent = [name for name in arguments if _PATH_NAME.fullmatch(name) and name not in said]
    if silent:
        return f"it does not declare whether it reads or writes {', '.join(silent)}"
    unknown = sorted({*said, *declared.runs, *declared.sends, *declared.fetches} - {*arguments})
    return f"it declares {', '.join(unknown)}, which it does not take" if unknown else None


def _texts_in(args: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Every text in the arguments of a call, at any depth, with the name that it has there."""
    waiting: list[tuple[str, object]] = list(args.items())
    while waiting:
        name, value = waiting.pop()
        if isinstance(value, str):
            yield name, value
        elif isinstance(value, dict):
            waiting += cast("dict[str, object]", value).items()
        elif isinstance(value, list):
            waiting += ((name, item) for item in cast("list[object]", value))


def resolve_paths(paths: Iterable[str], cwd: Path) -> list[str]:
    """Absolute paths, without those that no file can have: the tool refuses them by itself."""
    found: list[str] = []
    for path in paths:
        try:
            found.append(resolve_path(path, cwd))
        except ValueError:
            continue
    return found
