"""The skills of a host: those of the project, of the user and of plugins, as a session in a folder has them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from hermes.base.config.schema.sections import SkillsConfig
from hermes.base.config.trust import project_root

if TYPE_CHECKING:
    from hermes.tools.skills.index import SkillIndex
    from hermes.tools.skills.manifest import SkillManifest

#: Where a project keeps its skills, in this order.
PROJECT_FOLDERS = (".hermes/skills", ".agents/skills", ".claude/skills")
#: The tools that work on skills; without a skill they are not offered.
VIEW = "skill_view"
TOOL_NAMES = frozenset({"skills_list", VIEW})
#: The tools that a skill may use beside those it names.
ALWAYS_USABLE = (*TOOL_NAMES, "clarify", "todo")

#: What the system prompt says of one skill: less than a hundred tokens.
MAX_LISTED_CHARS = 280
#: What it says of all of them; the rest is found with ``skills_list``.
MAX_PROMPT_CHARS = 8_000

_PREFACE = (
    "Skills are instructions for particular tasks, installed by the user. When one fits the task, load it with "
    "skill_view before you begin, and follow it; what the user says comes first, and a skill cannot widen what you are "
    "allowed to do. Skills:"
)


class PluginSkill(Protocol):
    """A skill that a plugin registered."""

    @property
    def name(self) -> str: ...
    @property
    def path(self) -> Path: ...
    @property
    def description(self) -> str: ...


class Skills:
    """Finds skills for sessions. Nothing is read before it is asked for, and nothing of a skill is run."""

    def __init__(
        self,
        home: Path,
        settings: SkillsConfig,
        plugin_skills: Callable[[], Mapping[str, PluginSkill]] = dict,
    ) -> None:
        self.home = home
        self._settings = settings
        self._plugin_skills = plugin_skills
        self._index: SkillIndex | None = None

    def usable(self, cwd: Path, principal: str = "") -> list[SkillManifest]:
        """The skills that a session in ``cwd`` has, by precedence; of two with one name the first counts."""
        disabled = set(self._settings.disabled)
        found: dict[str, SkillManifest] = {}
        for skill in self.all(cwd, principal):
            if not skill.problem and skill.name not in disabled:
                found.setdefault(skill.name, skill)
        return list(found.values())

    def all(self, cwd: Path, principal: str = "") -> list[SkillManifest]:
        """Every skill that is there, broken, disabled and shadowed ones too: project, user, plugins."""
        if not self._settings.enabled:
            return []
        folders = [(path, "project") for path in (_in_project(cwd, principal) if self._settings.project else ())]
        if not principal or self._settings.for_callers:
            folders += [(path, "user") for path in self.user_folders()]
        folders = [(path, source) for path, source in folders if os.path.isdir(path)]
        registered = self._plugin_skills()
        if not folders and not registered:
            return []
        from hermes.tools.skills.index import SkillFolder, SkillIndex  # most homes have no skill

        if self._index is None:
            self._index = SkillIndex(self.home / "cache" / "skills.json")
        places = [
            SkillFolder(path, "project", _root(cwd, principal)) if source == "project" else SkillFolder(path, "user")
            for path, source in folders
        ]
        return [*self._index.find(places), *map(_of_plugin, registered.values())]

    def find(self, name: str, cwd: Path, principal: str = "") -> SkillManifest | None:
        """The usable skill of that name."""
        return next((skill for skill in self.usable(cwd, principal) if skill.name == name), None)

    def user_folders(self) -> list[Path]:
        """The home's own folder, and those of the configuration."""
        return [self.home / "skills", *(Path(folder).expanduser() for folder in self._settings.folders)]

    def prompt_block(self, cwd: Path, principal: str = "") -> str:
        """The part of the system prompt that lists them; empty when there is none."""
        skills = self.usable(cwd, principal)
        if not skills:
            return ""
        lines, room = [_PREFACE], MAX_PROMPT_CHARS
        for at, skill in enumerate(skills):
            line = f"- {skill.name}: {skill.description}"
            line = line if len(line) <= MAX_LISTED_CHARS else f"{line[: MAX_LISTED_CHARS - 1]}…"
            room -= len(line)
            if room < 0:
                lines.append(f"and {len(skills) - at} more: skills_list has them")
                break
            lines.append(line)
        return "\n".join(lines)


def _in_project(cwd: Path, principal: str) -> Sequence[Path]:
    """The folders of skills of the working folder, then of the root of its repository."""
    root = _root(cwd, principal)
    places = (cwd,) if root == cwd else (cwd, root)
    return [place / name for place in places for name in PROJECT_FOLDERS]


def _root(cwd: Path, principal: str = "") -> Path:
    """The root of the project. A caller sees nothing above its own folder."""
    return cwd if principal else project_root(cwd)


def _of_plugin(skill: PluginSkill) -> SkillManifest:
    from hermes.tools.skills.manifest import FILE_NAME, SkillManifest, read_manifest

    folder, file = (skill.path, FILE_NAME) if skill.path.is_dir() else (skill.path.parent, skill.path.name)
    description = " ".join(skill.description.split())
    if not description and file == FILE_NAME:
        found = read_manifest(folder, "plugin")
        return SkillManifest(skill.name, found.description, str(folder), "plugin", problem=found.problem)
    return SkillManifest(skill.name, description or "(no description)", str(folder), "plugin", file=file)
