"""Skill manifest: the frontmatter of a ``SKILL.md``, read without running anything of the skill."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

from msgspec import Struct

from hermes.base.config.front_matter import MarkdownFile, read_markdown
from hermes.base.errors import ConfigError

FILE_NAME = "SKILL.md"
#: A longer file is no skill: all of it would go into the conversation.
MAX_FILE_BYTES = 256 * 1024
MAX_NAME_CHARS = 64
MAX_DESCRIPTION_CHARS = 1024

SkillSource = Literal["project", "user", "plugin"]

_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
#: Names that may be typed as a command, whatever the standard says about them.
_USABLE_NAME = re.compile(r"[A-Za-z][\w-]*")

#: Tools as other agents call them, in skills written for those.
_OTHER_NAMES = {
    "bash": "terminal",
    "edit": "patch",
    "glob": "search_files",
    "grep": "search_files",
    "multiedit": "patch",
    "read": "read_file",
    "task": "delegate_task",
    "todowrite": "todo",
    "webfetch": "web_fetch",
    "websearch": "web_search",
    "write": "write_file",
}


class SkillManifest(Struct, frozen=True):
    """A skill as it describes itself, and where it was found."""

    name: str
    description: str
    #: The folder of ``SKILL.md``.
    folder: str
    source: SkillSource = "user"
    #: The folder above it, for skills that are sorted into groups.
    category: str = ""
    #: Names of the tools that the skill confines itself to; None when it names none.
    allowed_tools: tuple[str, ...] | None = None
    #: Why it cannot be used; empty when it can.
    problem: str = ""
    #: What is odd about it without being in the way.
    remarks: tuple[str, ...] = ()
    #: Its main file; a plugin may register one of another name.
    file: str = FILE_NAME


def read_manifest(
    folder: Path, source: SkillSource, category: str = "", *, inside: Path | None = None
) -> SkillManifest:
    """The manifest of the skill in ``folder``. One that cannot be used comes back with its ``problem``.

    With ``inside``, a link that leaves that folder is refused.
    """
    try:
        return _manifest(folder, source, category, read_skill(folder / FILE_NAME, inside=inside))
    except ConfigError as error:
        return SkillManifest(folder.name, "", str(folder), source, category, problem=str(error))


def read_skill(path: Path, *, inside: Path | None = None) -> MarkdownFile:
    """The main file of a skill."""
    return read_markdown(path, inside=inside, limit=MAX_FILE_BYTES)


def _manifest(folder: Path, source: SkillSource, category: str, file: MarkdownFile) -> SkillManifest:
    remarks: list[str] = []
    name = file.text("name")
    if not _USABLE_NAME.fullmatch(name) or len(name) > MAX_NAME_CHARS:
        found = f"name {name[:MAX_NAME_CHARS]!r} cannot be used" if name else "name is missing"
        remarks.append(f"{found}; the folder's name is used")
        name = folder.name
    elif name != folder.name:
        remarks.append(f"name is {name!r} and the folder is called {folder.name!r}; they should be the same")
    if not _NAME.fullmatch(name):
        remarks.append(f"{name!r} should be of small letters, digits and single hyphens")
    description = file.text("description")
    if not description:
        raise ConfigError(f"{file.path}: description is missing; say what the skill does and when to use it")
    if len(description) > MAX_DESCRIPTION_CHARS:
        remarks.append(f"description has {len(description):,} characters; at most {MAX_DESCRIPTION_CHARS:,} are used")
        description = description[:MAX_DESCRIPTION_CHARS]
    tools = tool_names(file.names("allowed-tools"))
    return SkillManifest(name, description, str(folder), source, category, tools, remarks=tuple(remarks))


def tool_names(names: list[str] | None) -> tuple[str, ...] | None:
    """The tools of ``allowed-tools`` as they are called here; ``Bash(git:*)`` is ``terminal``."""
    plain = [name.partition("(")[0] for name in names or ()]
    return tuple(dict.fromkeys(_OTHER_NAMES.get(name.lower(), name) for name in plain)) or None
