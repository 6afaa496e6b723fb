"""The skills of a host: those of the project, of the user and of plugins, as a session in a folder has them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

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


class SkillFolder(NamedTuple):
    """A place that holds skills."""

    path: Path
    source: Literal["project", "user"]
    #: The folder that links in it must not leave; None lets them lead anywhere.
    inside: Path | None = None


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
        registered = self._plugin_skills()
        folders = [folder for folder in self._folders(cwd, principal) if os.path.isdir(folder.path)]
        if folders and self._index is None:
            from hermes.tools.skills.index import SkillIndex  # most homes have no skill

            self._index = SkillIndex(self.home / "cache" / "skills.json")
        found = self._index.find(folders) if self._index is not None else []
        return [*found, *map(_of_plugin, registered.values())]

    def _folders(self, cwd: Path, principal: str) -> Iterator[SkillFolder]:
        """The folders of the working folder, of the root of its repository, of the home and of the configuration."""
        if self._settings.project:
            root = cwd if principal else project_root(cwd)  # a caller sees nothing above its own folder
            for place in dict.fromkeys((cwd, root)):
                yield from (SkillFolder(place / name, "project", root) for name in PROJECT_FOLDERS)
        if not principal or self._settings.for_callers:
            yield SkillFolder(self.home / "skills", "user")
            yield from (SkillFolder(Path(folder).expanduser(), "user") for folder in self._settings.folders)

    def find(self, name: str, cwd: Path, principal: str = "") -> SkillManifest | None:
        """The usable skill of that name."""
        return next((skill for skill in self.usable(cwd, principal) if skill.name == name), None)

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


def _of_plugin(skill: PluginSkill) -> SkillManifest:
    from hermes.tools.skills.manifest import FILE_NAME, SkillManifest, read_manifest

    folder, file = (skill.path, FILE_NAME) if skill.path.is_dir() else (skill.path.parent, skill.path.name)
    description = " ".join(skill.description.split())
    if not description and file == FILE_NAME:
        found = read_manifest(folder, "plugin")
        return SkillManifest(skill.name, found.description, str(folder), "plugin", problem=found.problem)
    return SkillManifest(skill.name, description or "(no description)", str(folder), "plugin", file=file)
