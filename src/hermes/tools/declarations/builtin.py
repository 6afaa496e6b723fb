"""The declarations of the built-in tools by name: what each reads, writes, runs and sends, and how it is shown."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from msgspec.structs import replace

from hermes.tools.declarations.declaration import UNDECLARED, Caller, Declaration, Shown, SkillText

if TYPE_CHECKING:
    from hermes.tools.registry import Tool

_FILES = SkillText(
    "Files",
    "Reads, searches, writes and changes text files in its working directory.",
    ("files", "search", "editing"),
    ("Find every use of parse_date and say what it is used for.", "Add a changelog entry for version 1.2."),
)
_COMMANDS = SkillText(
    "Commands",
    "Runs shell commands and programs, also long ones in the background.",
    ("shell", "commands", "processes"),
    ("Run the tests and explain the first failure.",),
)
_DELEGATION = SkillText(
    "Delegation",
    "Splits work into parts for its own child agents, which work at the same time.",
    ("delegation", "parallel"),
    ("Review each module of this package separately, then sum up.",),
)
_PAST = SkillText(
    "Past conversations",
    "Looks up what was said and done in earlier conversations.",
    ("history", "search"),
    ("What did we decide about the release date?",),
)
_IMAGES = SkillText(
    "Images", "Makes images from descriptions.", ("images", "generation"), ("Draw a lighthouse at dusk.",)
)
_VISION = SkillText("Image understanding", "Looks at images and answers questions about them.", ("images", "vision"))
_WEB = SkillText("Web", "Searches the web and reads pages.", ("web", "search"))
_CODE = SkillText("Code", "Writes and runs programs to compute an answer.", ("code", "execution"))

#: Tools that contact another agent.
_PEER = Declaration(sends=("agent",), shown=Shown(kind="other"))

DECLARED: dict[str, Declaration] = {
    "terminal": Declaration(
        runs={"command": "command"},
        workdir="workdir",
        is_guarded=True,
        shown=Shown(subject=("command",), detail="output", skill=_COMMANDS),
    ),
    "process": Declaration(runs={"data": "input"}, is_guarded=True, shown=Shown(subject=("action",), skill=_COMMANDS)),
    "execute_code": Declaration(
        runs={"code": "script"},
        is_guarded=True,
        on_request=True,
        kept_from=("child", "script"),
        shown=Shown(skill=_CODE),
    ),
    "read_file": Declaration(reads=("path",), is_guarded=True, shown=Shown(subject=("path",), skill=_FILES)),
    "search_files": Declaration(
        reads=("path",), is_guarded=True, shown=Shown(kind="search", subject=("pattern",), skill=_FILES)
    ),
    "write_file": Declaration(
        writes=("path",), is_guarded=True, shown=Shown(subject=("path",), detail="content", skill=_FILES)
    ),
    "patch": Declaration(
        writes=("path",),
        patches=("patch",),
        is_guarded=True,
        shown=Shown(subject=("path",), detail="diff", skill=_FILES),
    ),
    "todo": Declaration(
        kept_from=("script",), shown=Shown(kind="think", subject=("todos",), detail="tasks", is_internal=True)
    ),
    "clarify": Declaration(kept_from=("child", "script"), shown=Shown(subject=("question",), is_internal=True)),
    "memory": Declaration(kept_from=("child", "script"), shown=Shown(subject=("action",), is_internal=True)),
    "delegate_task": Declaration(
        kept_from=("child", "script"), shown=Shown(subject=("goal", "tasks"), skill=_DELEGATION)
    ),
    "session_search": Declaration(shown=Shown(kind="search", subject=("query",), skill=_PAST)),
    "vision_analyze": Declaration(
        reads=("image_url",),
        sends=("image_url",),
        fetches=("image_url",),
        is_guarded=True,
        on_request=True,
        shown=Shown(kind="other", skill=_VISION),
    ),
    "image_generate": Declaration(shown=Shown(subject=("prompt",), skill=_IMAGES)),
    "skills_list": Declaration(shown=Shown(kind="search")),
    "skill_view": Declaration(contained=("file_path",), is_guarded=True, shown=Shown(kind="read")),
    "web_search": Declaration(on_request=True, shown=Shown(kind="fetch", skill=_WEB)),
    "web_fetch": Declaration(sends=("url",), fetches=("url",), for_owner=True, shown=Shown(skill=_WEB)),
    "tool_search": Declaration(),
    "tool_describe": Declaration(),
    "tool_call": Declaration(forwards=True),
    "a2a_discover": _PEER,
    "a2a_send": _PEER,
    "a2a_answer": _PEER,
    "a2a_cancel": _PEER,
    "cronjob": Declaration(kept_from=("child",)),
    # Of plugins for platforms: only the agent of the session itself writes to people.
    "send_message": Declaration(kept_from=("child",)),
}


def declared(tools: Iterable[Tool]) -> list[Tool]:
    """Built-in tools, each with its declaration."""
    return [replace(tool, declares=DECLARED.get(tool.name)) for tool in tools]


def builtin_declaration(name: str) -> Declaration:
    """The declaration of a tool by its name, to show calls where no host is at hand. A gate asks the tool itself."""
    return DECLARED.get(name, UNDECLARED)


def kept_from(caller: Caller) -> frozenset[str]:
    """The names of the tools that such a caller does not get, also when a plugin has replaced one."""
    return frozenset(name for name, declared in DECLARED.items() if caller in declared.kept_from)
