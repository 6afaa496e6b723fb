"""``agent.skill_commands`` and ``agent.skill_utils``: the skills of the session that asks, as slash commands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hermes.plugins.compat.agent.runtime import service
from hermes.plugins.compat.names import Names, config_of, home_of
from hermes.plugins.services import PluginHost
from hermes.tools.skills.content import skill_message
from hermes.tools.skills.manifest import SkillManifest


def skill_commands(host: PluginHost) -> Names:
    """``agent.skill_commands``."""

    def get_skill_commands() -> dict[str, dict[str, Any]]:
        return {
            _command(skill): {
                "name": skill.name,
                "description": skill.description or f"Use the skill {skill.name}",
                "skill_md_path": str(Path(skill.folder, skill.file)),
                "skill_dir": skill.folder,
            }
            for skill in service(host, "skills")()
        }

    def resolve_skill_command_key(command: str) -> str | None:
        wanted = "/" + command.strip().lstrip("/").lower().replace("_", "-")
        return wanted if wanted in get_skill_commands() else None

    def build_skill_invocation_message(
        cmd_key: str, user_instruction: str = "", task_id: str | None = None, runtime_note: str = ""
    ) -> str | None:
        """The message that a person sends with ``/skill instruction``; ``None`` when there is no such skill."""
        key = resolve_skill_command_key(cmd_key)
        found = next((skill for skill in service(host, "skills")() if _command(skill) == key), None)
        if found is None:
            return None
        message = skill_message(found, user_instruction)
        return f"{message}\n\n{runtime_note}" if runtime_note else message

    return {
        "build_skill_invocation_message": build_skill_invocation_message,
        "get_skill_commands": get_skill_commands,
        "resolve_skill_command_key": resolve_skill_command_key,
        "scan_skill_commands": get_skill_commands,
    }


def skill_utils(host: PluginHost) -> Names:
    """``agent.skill_utils``."""

    def get_all_skills_dirs() -> list[Path]:
        config = config_of(host)
        others = [] if config is None else [Path(folder).expanduser() for folder in config.skills.folders]
        return [home_of(host) / "skills", *others]

    def get_disabled_skill_names(platform: str | None = None) -> set[str]:
        config = config_of(host)
        return set() if config is None else set(config.skills.disabled)

    return {"get_all_skills_dirs": get_all_skills_dirs, "get_disabled_skill_names": get_disabled_skill_names}


def get_skill_bundles() -> dict[str, dict[str, Any]]:
    """``agent.skill_bundles``: a skill here is one folder, and none is a list of others."""
    return {}


def _command(skill: SkillManifest) -> str:
    return "/" + skill.name.lower().replace("_", "-").replace(" ", "-")
