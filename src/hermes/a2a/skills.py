"""The skills on the agent card: one for conversation and one for each toolset."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from a2a.types import AgentSkill

from hermes.tools.registry import Tool


class _SkillText(msgspec.Struct, frozen=True):
    """Name, description, tags and examples of a skill."""

    name: str
    description: str
    tags: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()


_CONVERSATION = _SkillText(
    "Conversation",
    "Answers questions and works on tasks in plain language. A context keeps its conversation.",
    ("chat", "questions"),
    ("What is the difference between a process and a thread?",),
)

_KNOWN = {
    "file": _SkillText(
        "Files",
        "Reads, searches, writes and changes text files in its working directory.",
        ("files", "search", "editing"),
        ("Find every use of parse_date and say what it is used for.", "Add a changelog entry for version 1.2."),
    ),
    "terminal": _SkillText(
        "Commands",
        "Runs shell commands and programs, also long ones in the background.",
        ("shell", "commands", "processes"),
        ("Run the tests and explain the first failure.",),
    ),
    "delegation": _SkillText(
        "Delegation",
        "Splits work into parts for its own child agents, which work at the same time.",
        ("delegation", "parallel"),
        ("Review each module of this package separately, then sum up.",),
    ),
    "session_search": _SkillText(
        "Past conversations",
        "Looks up what was said and done in earlier conversations.",
        ("history", "search"),
        ("What did we decide about the release date?",),
    ),
    "image_gen": _SkillText(
        "Images", "Makes images from descriptions.", ("images", "generation"), ("Draw a lighthouse at dusk.",)
    ),
    "vision": _SkillText(
        "Image understanding", "Looks at images and answers questions about them.", ("images", "vision"), ()
    ),
    "web": _SkillText("Web", "Searches the web and reads pages.", ("web", "search"), ()),
    "code_execution": _SkillText("Code", "Writes and runs programs to compute an answer.", ("code", "execution"), ()),
}

#: Toolsets that are not skills: the agent uses them for itself.
_INTERNAL = frozenset({"clarify", "todo", "memory"})


def skills_of(tools: Iterable[Tool], *, detailed: bool) -> list[AgentSkill]:
    """One skill for conversation and one for each toolset; ``detailed`` ones name their tools."""
    by_toolset: dict[str, list[Tool]] = {}
    for tool in tools:
        if tool.toolset not in _INTERNAL:
            by_toolset.setdefault(tool.toolset, []).append(tool)
    skills = [_skill("conversation", _CONVERSATION)]
    for toolset, members in sorted(by_toolset.items()):
        text = _KNOWN.get(toolset) or _described(toolset, members)
        names = sorted(tool.name for tool in members) if detailed else []
        skills.append(_skill(toolset, text, names))
    return skills


def _skill(skill_id: str, text: _SkillText, more_tags: Iterable[str] = ()) -> AgentSkill:
    tags = list(dict.fromkeys([*text.tags, *more_tags]))
    return AgentSkill(
        id=skill_id, name=text.name, description=text.description, tags=tags, examples=list(text.examples)
    )


def _described(toolset: str, tools: Iterable[Tool]) -> _SkillText:
    """The text of a plugin's toolset, from the descriptions of its tools."""
    name = toolset.replace("_", " ").replace("-", " ").strip().capitalize() or toolset
    sentences = dict.fromkeys(_first_sentence(tool.description) for tool in tools)
    return _SkillText(name, " ".join(filter(None, sentences)) or f"Tools of the group {toolset}.", (toolset,))


def _first_sentence(text: str) -> str:
    sentence, stop, _ = " ".join(text.split()).partition(". ")
    return sentence + "." if stop else sentence
