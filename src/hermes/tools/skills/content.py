"""Content of a skill: the text of its ``SKILL.md``, the files beside it, and the message of ``/skill-name``."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hermes.base.errors import ConfigError, HermesError
from hermes.tools.skills.manifest import SkillManifest, read_skill

#: How many files of a skill are named.
MAX_FILES = 100
MAX_READ_BYTES = 200_000

_SKIPPED = frozenset({"__pycache__", "node_modules"})


def skill_text(skill: SkillManifest) -> str:
    """The instructions of a skill. Raises ``HermesError`` when they cannot be read any more."""
    try:
        return read_skill(Path(skill.folder, skill.file)).body.strip()
    except ConfigError as error:
        raise HermesError(f"skill {skill.name}: {error}") from None


def skill_view(skill: SkillManifest) -> dict[str, Any]:
    """What the model gets when it loads a skill."""
    view: dict[str, Any] = {
        "name": skill.name,
        "description": skill.description,
        "content": skill_text(skill),
        "folder": skill.folder,
    }
    files = linked_files(skill)
    if files:
        view["linked_files"] = files
    if skill.allowed_tools is not None:
        view["allowed_tools"] = list(skill.allowed_tools)
    return view


def linked_files(skill: SkillManifest) -> list[str]:
    """The files beside ``SKILL.md``, relative to its folder, as far as they lie in it."""
    found: list[str] = []
    for root, folders, names in os.walk(skill.folder):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in _SKIPPED)
        for name in sorted(names):
            path = Path(root, name).relative_to(skill.folder).as_posix()
            if path != skill.file and not name.startswith("."):
                found.append(path)
            if len(found) >= MAX_FILES:
                return found
    return found


def skill_file(
    skill: SkillManifest, file_path: str, refusal: Callable[[int], str | None] = lambda _descriptor: None
) -> dict[str, Any]:
    """The text of a file of a skill. Raises ``HermesError`` for a path that leaves its folder, and for binary files.

    ``refusal`` is asked about the open file: why it must not be read.
    """
    folder = Path(os.path.realpath(skill.folder))
    path = Path(os.path.realpath(folder / file_path))
    if not path.is_relative_to(folder) or path == folder:
        raise HermesError(f"{file_path!r} leads out of the skill's folder; give one of its linked_files")
    try:
        with open(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
            refused = refusal(file.fileno())
            data = file.read(MAX_READ_BYTES + 1)
    except OSError as error:
        files = ", ".join(linked_files(skill)) or "none"
        raise HermesError(f"{file_path}: {error.strerror or error}; files of the skill: {files}") from None
    if refused:
        raise HermesError(refused)
    if b"\0" in data[:8_000]:
        raise HermesError(f"{file_path} is a binary file; its path is {path}")
    text = data[:MAX_READ_BYTES].decode("utf-8", "replace")
    view: dict[str, Any] = {"name": skill.name, "file": file_path, "path": str(path), "content": text}
    return {**view, "truncated": True} if len(data) > MAX_READ_BYTES else view


def skill_message(skill: SkillManifest, arguments: str) -> str:
    """The user's message when a skill is run by its name."""
    files = linked_files(skill)
    parts = [
        f"/{skill.name} {arguments.strip()}".strip(),
        f"Use the skill {skill.name} for this and follow its instructions. Its folder is {skill.folder}"
        + (f" with the files {', '.join(files)}." if files else "."),
        f"<skill>\n{skill_text(skill)}\n</skill>",
    ]
    return "\n\n".join(parts)
