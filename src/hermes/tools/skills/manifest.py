"""Skill manifest: the frontmatter of a ``SKILL.md``, read without running anything of the skill."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Literal, cast

from msgspec import Struct

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


def read_manifest(folder: Path, source: SkillSource, category: str = "") -> SkillManifest:
    """The manifest of the skill in ``folder``. One that cannot be used comes back with its ``problem``."""
    try:
        fields, _ = split_frontmatter(read_text(folder / FILE_NAME))
        return _manifest(folder, source, category, fields)
    except OSError as error:
        problem = f"{FILE_NAME} cannot be read: {error.strerror or error}"
    except ValueError as error:
        problem = f"{FILE_NAME} {error}"
    return SkillManifest(folder.name, "", str(folder), source, category, problem=problem)


def read_text(path: Path) -> str:
    """The text of a skill's main file. Raises ``ValueError`` for one that is too long or no text."""
    with open(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
        data = file.read(MAX_FILE_BYTES + 1)
        size = os.fstat(file.fileno()).st_size
    if len(data) > MAX_FILE_BYTES:
        raise ValueError(f"has {size:,} bytes; at most {MAX_FILE_BYTES:,} are loaded. Move details into other files")
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError:
        raise ValueError("is not UTF-8 text; save it as UTF-8") from None


def split_frontmatter(text: str) -> tuple[dict[str, Any], str]:
    """The fields between the two ``---`` lines, and the text after them."""
    if not text.startswith("---\n"):
        raise ValueError("has no frontmatter; begin with a line '---', name, description, and another '---'")
    head, mark, body = text[4:].partition("\n---\n")
    if not mark:
        head, mark, rest = text[4:].partition("\n---")
        if not mark or rest.strip():
            raise ValueError("the frontmatter has no end; close it with a line '---'")
        body = ""
    return _fields(head), body


def _fields(head: str) -> dict[str, Any]:
    import yaml  # only a skill that is new or changed is parsed

    try:
        found: object = yaml.load(head, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f" in line {mark.line + 2}" if mark is not None else ""
        problem = getattr(error, "problem", None) or error
        raise ValueError(f"the frontmatter is not valid YAML{where}: {problem}; quote texts with ': '") from None
    if not isinstance(found, dict):
        raise ValueError("the frontmatter is not a list of 'key: value' lines")
    return {str(key): value for key, value in cast("dict[Any, Any]", found).items()}


def _manifest(folder: Path, source: SkillSource, category: str, fields: dict[str, Any]) -> SkillManifest:
    remarks: list[str] = []
    name = str(fields.get("name") or "").strip()
    if not _USABLE_NAME.fullmatch(name) or len(name) > MAX_NAME_CHARS:
        found = f"name {name[:MAX_NAME_CHARS]!r} cannot be used" if name else "name is missing"
        remarks.append(f"{found}; the folder's name is used")
        name = folder.name
    elif name != folder.name:
        remarks.append(f"name is {name!r} and the folder is called {folder.name!r}; they should be the same")
    if not _NAME.fullmatch(name):
        remarks.append(f"{name!r} should be of small letters, digits and single hyphens")
    description = " ".join(str(fields.get("description") or "").split())
    if not description:
        raise ValueError("description is missing; say what the skill does and when to use it")
    if len(description) > MAX_DESCRIPTION_CHARS:
        remarks.append(f"description has {len(description):,} characters; at most {MAX_DESCRIPTION_CHARS:,} are used")
        description = description[:MAX_DESCRIPTION_CHARS]
    tools = _tool_names(fields.get("allowed-tools"))
    return SkillManifest(name, description, str(folder), source, category, tools, remarks=tuple(remarks))


def _tool_names(value: object) -> tuple[str, ...] | None:
    """The tools of ``allowed-tools``: a list, or a text with blanks or commas; ``Bash(git:*)`` names ``terminal``."""
    if not value:
        return None
    text = " ".join(map(str, cast("list[Any]", value))) if isinstance(value, list) else str(value)
    words = re.sub(r"\([^)]*\)", "", text).replace(",", " ").split()
    return tuple(dict.fromkeys(_OTHER_NAMES.get(word.lower(), word) for word in words))
