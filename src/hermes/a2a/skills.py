"""The skills on an agent's card: what others may ask for, told by toolset."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from a2a.types import AgentSkill

from hermes.tools.registry import Tool


class _Words(msgspec.Struct, frozen=True):
    """A toolset as a caller reads about it."""

    name: str
    description: str
    tags: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()


_CONVERSATION = _Words(
    "Conversation",
    "Answers questions and works on tasks in plain language. A context keeps its conversation.",
    ("chat", "questions"),
    ("What is the difference between a process and a thread?",),
)

_KNOWN = {
    "file": _Words(
        "Files",
        "Reads, searches, writes and changes text files in its working directory.",
        ("files", "search", "editing"),
        ("Find every use of parse_date and say what it is used for.", "Add a changelog entry for version 1.2."),
    ),
    "terminal": _Words(
        "Commands",
        "Runs shell commands and programs, also long ones in the background.",
        ("shell", "commands", "processes"),
        ("Run the tests and explain the first failure.",),
    ),
    "delegation": _Words(
        "Delegation",
        "Splits work into parts and has agents of its own work on them at the same time.",
        ("delegation", "parallel"),
        ("Review each module of this package separately, then sum up.",),
    ),
    "session_search": _Words(
        "Past conversations",
        "Looks up what was said and done in earlier conversations.",
        ("history", "search"),
        ("What did we decide about the release date?",),
    ),
    "image_gen": _Words(
        "Images", "Makes images from descriptions.", ("images", "generation"), ("Draw a lighthouse at dusk.",)
    ),
    "vision": _Words(
        "Image understanding", "Looks at images and answers questions about them.", ("images", "vision"), ()
    ),
    "web": _Words("Web", "Searches the web and reads pages.", ("web", "search"), ()),
    "code_execution": _Words("Code", "Writes and runs programs to compute an answer.", ("code", "execution"), ()),
}

#: What an agent uses for itself; nobody outside asks for it.
_PRIVATE = frozenset({"clarify", "todo", "memory"})


def skills_of(tools: Iterable[Tool], *, detailed: bool) -> list[AgentSkill]:
    """One skill for conversation and one for each toolset; ``detailed`` ones name their tools."""
    by_toolset: dict[str, list[Tool]] = {}
    for tool in tools:
        if tool.toolset not in _PRIVATE:
            by_toolset.setdefault(tool.toolset, []).append(tool)
    skills = [_skill("conversation", _CONVERSATION)]
    for toolset, members in sorted(by_toolset.items()):
        words = _KNOWN.get(toolset) or _described(toolset, members)
        names = sorted(tool.name for tool in members) if detailed else []
        skills.append(_skill(toolset, words, names))
    return skills


def _skill(skill_id: str, words: _Words, more_tags: Iterable[str] = ()) -> AgentSkill:
    tags = list(dict.fromkeys([*words.tags, *more_tags]))
    return AgentSkill(
        id=skill_id, name=words.name, description=words.description, tags=tags, examples=list(words.examples)
    )


def _described(toolset: str, tools: Iterable[Tool]) -> _Words:
    """A toolset that a plugin brought, in the words of its tools."""
    name = toolset.replace("_", " ").replace("-", " ").strip().capitalize() or toolset
    said = dict.fromkeys(_first_sentence(tool.description) for tool in tools)
    return _Words(name, " ".join(filter(None, said)) or f"Tools of the group {toolset}.", (toolset,))


def _first_sentence(text: str) -> str:
    sentence, stop, _ = " ".join(text.split()).partition(". ")
    return sentence + "." if stop else sentence
