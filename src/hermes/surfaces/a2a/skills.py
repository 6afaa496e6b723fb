"""The skills on the agent card: one for conversation and one for each toolset."""

from __future__ import annotations

from collections.abc import Iterable

from a2a.types import AgentSkill

from hermes.tools.declarations.declaration import UNDECLARED, SkillText
from hermes.tools.registry import Tool

_CONVERSATION = SkillText(
    "Conversation",
    "Answers questions and works on tasks in plain language. A context keeps its conversation.",
    ("chat", "questions"),
    ("What is the difference between a process and a thread?",),
)


def skills_of(tools: Iterable[Tool], *, detailed: bool) -> list[AgentSkill]:
    """One skill for conversation and one for each toolset; ``detailed`` ones name their tools."""
    by_toolset: dict[str, list[Tool]] = {}
    for tool in tools:
        by_toolset.setdefault(tool.toolset, []).append(tool)
    skills = [_skill("conversation", _CONVERSATION)]
    for toolset, members in sorted(by_toolset.items()):
        shown = [(tool.declares or UNDECLARED).shown for tool in members]
        if any(one.is_internal for one in shown):
            continue
        text = next((one.skill for one in shown if one.skill is not None), None) or _described(toolset, members)
        names = sorted(tool.name for tool in members) if detailed else []
        skills.append(_skill(toolset, text, names))
    return skills


def _skill(skill_id: str, text: SkillText, more_tags: Iterable[str] = ()) -> AgentSkill:
    tags = list(dict.fromkeys([*text.tags, *more_tags]))
    return AgentSkill(
        id=skill_id, name=text.name, description=text.description, tags=tags, examples=list(text.examples)
    )


def _described(toolset: str, tools: Iterable[Tool]) -> SkillText:
    """The text of a plugin's toolset, from the descriptions of its tools."""
    name = toolset.replace("_", " ").replace("-", " ").strip().capitalize() or toolset
    sentences = dict.fromkeys(_first_sentence(tool.description) for tool in tools)
    return SkillText(name, " ".join(filter(None, sentences)) or f"Tools of the group {toolset}.", (toolset,))


def _first_sentence(text: str) -> str:
    sentence, stop, _ = " ".join(text.split()).partition(". ")
    return sentence + "." if stop else sentence
