"""The ``skills_list`` and ``skill_view`` tools: what skills there are, and the instructions of one."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from hermes.base.errors import HermesError, did_you_mean
from hermes.tools.files.workspace import opened_path
from hermes.tools.registry import Args, ToolContext
from hermes.tools.results import tool_result
from hermes.tools.skills.content import skill_file, skill_view

if TYPE_CHECKING:
    from hermes.agent.runtime import Runtime

#: Descriptions in the list are cut here, so that one skill costs less than a hundred tokens.
_MAX_DESCRIPTION_CHARS = 280


def run_skills_list(args: Args, context: ToolContext, runtime: Runtime) -> str:
    """Every skill with its description, or those of one category."""
    category = str(args.get("category") or "").strip()
    found = runtime.skills.usable(context.cwd, context.scope.principal)
    categories = sorted({skill.category for skill in found if skill.category})
    shown = [skill for skill in found if not category or skill.category == category]
    return tool_result(
        success=True,
        skills=[{"name": skill.name, "description": skill.description[:_MAX_DESCRIPTION_CHARS]} for skill in shown],
        count=len(shown),
        **({"categories": categories} if categories else {}),
    )


def run_skill_view(args: Args, context: ToolContext, runtime: Runtime) -> str:
    """The instructions of a skill, or one of its files."""
    name, file_path = str(args["name"]).strip().lstrip("/"), str(args.get("file_path") or "").strip()
    cwd, principal, skills = context.cwd, context.scope.principal, runtime.skills
    skill = skills.find(name, cwd, principal)
    try:
        if skill is None:
            names = [one.name for one in skills.usable(cwd, principal)]
            raise HermesError(f"there is no skill {name!r}{did_you_mean(name, names)}")
        if not file_path:
            return tool_result(success=True, **skill_view(skill))
        refusal = partial(_refusal, context=context, home=skills.home, is_foreign=skill.source == "project")
        return tool_result(success=True, **skill_file(skill, file_path, refusal))
    except HermesError as error:
        return tool_result(success=False, error=str(error))


def _refusal(descriptor: int, context: ToolContext, home: Path, *, is_foreign: bool) -> str | None:
    """Why an open file of a skill must not be read: it holds keys, or is not where a caller may read."""
    from hermes.policy.judge import judge_read  # few skills have files

    real = opened_path(descriptor)
    found = judge_read(real, hermes_home=home)
    if found is not None:
        return f"{real} is not read with a skill ({found.description}); read_file asks the user about it"
    guard = context.guard if is_foreign else context.guard.of_host  # skills of the owner are outside of a workspace
    return guard.refusal_of_open(descriptor) or guard.refusal(real)
