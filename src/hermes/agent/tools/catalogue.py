"""The tools that need a session: their descriptions for the model. Their code is imported at the first call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from hermes.tools.arguments import fields, flag, number, text
from hermes.tools.declarations.builtin import declared
from hermes.tools.declarations.origin import script_fetches
from hermes.tools.registry import Args, Tool, ToolContext

if TYPE_CHECKING:
    from hermes.agent.runtime import Runtime
    from hermes.tools.skills.prompt_files import PromptFile

Run = Callable[[Args, ToolContext], str]


def agent_tools(runtime: Runtime, named: Sequence[PromptFile] = ()) -> list[Tool]:
    """These tools, as far as the configuration has them enabled. ``named`` are the agents that a child can be."""
    todo = _imported(runtime, "tools.todo", "run_todo")
    clarify = _imported(runtime, "tools.clarify", "run_clarify")
    search = _imported(runtime, "tools.session_search", "run_session_search")
    vision = _imported(runtime, "tools.vision_analyze", "run_vision_analyze")
    image = _imported(runtime, "images.generate", "run_image_generate")
    has_images = runtime.images.is_available
    tools = [
        _delegate_task(runtime, named),
        Tool("todo", "todo", _TODO, _TODO_ARGS, todo, "idempotent", quick=True, emoji="📋"),
        Tool("clarify", "clarify", _CLARIFY, _CLARIFY_ARGS, clarify, "idempotent", emoji="❓"),
        Tool("session_search", "session_search", _SEARCH, _SEARCH_ARGS, search, "pure", parallel=True, emoji="🔍"),
        Tool(
            "vision_analyze", "vision", _VISION, _VISION_ARGS, vision, "pure", parallel=True, emoji="👁️", untrusted=True
        ),
        Tool(
            "image_generate",
            "image_gen",
            _IMAGE,
            _IMAGE_ARGS,
            image,
            available=has_images,
            needs="a provider of images (docs/images.md)",
            emoji="🎨",
        ),
    ]
    if runtime.config.skills.enabled:
        tools += _skill_tools(runtime)
    tools += [*_web_tools(runtime), _execute_code(runtime)]
    if runtime.memory.targets:
        arguments, memory = _memory_args(runtime.memory.targets), _imported(runtime, "tools.memory", "run_memory")
        tools.append(Tool("memory", "memory", _MEMORY, arguments, memory, quick=True, emoji="🧠"))
    if runtime.config.tools.tool_search.enabled != "off":
        from hermes.agent.tools.tool_search import search_tools

        tools += search_tools(runtime)
    return declared([*tools, *_a2a_tools(runtime)])


# Every request carries these texts, so they are kept short.

_TODO = "Your task list, for work of three steps or more. Without arguments: read it."
_TODO_ITEM = fields(
    ["id"],
    id=text(),
    content=text(),
    status=text(enum=["pending", "in_progress", "completed", "cancelled"]),
)
_TODO_ARGS = fields(
    [],
    todos={"type": "array", "items": _TODO_ITEM},
    merge=flag("Update by id"),
)

_CLARIFY = "Ask the user a question; not for approval of commands."
_CLARIFY_ARGS = fields(
    ["question"],
    question=text(),
    choices={"type": "array", "items": text(), "maxItems": 4},
)

_SEARCH = (
    "Search past conversations; without arguments: the latest. session_id with around_message_id: read around a result."
)
#: ``role_filter`` and ``window`` are taken too. Rarely needed, they are not worth their bytes in every request.
_SEARCH_ARGS = fields(
    [],
    query=text(),
    limit=number(),
    sort=text(enum=["relevance", "newest", "oldest"]),
    session_id=text(),
    around_message_id=number(),
)

_MEMORY = (
    "Notes for later conversations: what the user prefers or corrected (user), facts and lessons (memory). Not: "
    "progress, secrets, what is easily looked up. old_text: a unique part of an entry."
)


def _memory_args(targets: tuple[str, ...]) -> dict[str, Any]:
    operation = fields([], action=text(), content=text(), old_text=text())
    return fields(
        ["target"],
        target=text(enum=list(targets)),
        action=text(enum=["add", "replace", "remove"]),
        content=text(),
        old_text=text(),
        operations={"type": "array", "items": operation},
    )


_VISION = "Ask a model that sees about an image."
_VISION_ARGS = fields(["image_url", "question"], image_url=text("Path or URL"), question=text())

_IMAGE = "Make an image from a description; returns the path of the file."
_IMAGE_ARGS = fields(
    ["prompt"],
    prompt=text("What it should show, in detail"),
    aspect_ratio=text(enum=["landscape", "square", "portrait"], default="landscape"),
)


def _imported(runtime: Runtime, module: str, name: str) -> Run:
    """A function of a module of the agent, which is imported at its first call: unused tools cost no start-up time."""

    @cache
    def loaded() -> Callable[[Args, ToolContext, Runtime], str]:
        return getattr(import_module(f"hermes.agent.{module}"), name)

    return lambda args, context: loaded()(args, context, runtime)


# -- skills ---------------------------------------------------------------------------------------------------------

_SKILLS_LIST = "List the skills: instructions for particular tasks."
_SKILL_VIEW = "Load a skill's instructions, or with file_path one of its files."


def _skill_tools(runtime: Runtime) -> list[Tool]:
    run_list = _imported(runtime, "tools.skills", "run_skills_list")
    run_view = _imported(runtime, "tools.skills", "run_skill_view")
    listed = fields([], category=text())
    viewed = fields(["name"], name=text(), file_path=text("From linked_files"))
    return [
        Tool("skills_list", "skills", _SKILLS_LIST, listed, run_list, "pure", parallel=True, emoji="🎓"),
        Tool("skill_view", "skills", _SKILL_VIEW, viewed, run_view, "pure", parallel=True, emoji="🎓"),
    ]


# -- web ------------------------------------------------------------------------------------------------------------

_WEB_SEARCH = "Search the web; returns titles, URLs and descriptions."
_WEB_FETCH = "Read a page, PDF or data of the web; offset skips characters."


def _web_tools(runtime: Runtime) -> list[Tool]:
    searched = fields(["query"], query=text(), limit=number("At most 20", default=5))
    fetched = fields(["url"], url=text(), offset=number())

    web = runtime.web
    return [
        Tool(
            "web_search",
            "web",
            _WEB_SEARCH,
            searched,
            web.search,
            "pure",
            parallel=True,
            available=web.can_search,
            needs="a search provider, for example hermes plugins enable web/searxng (docs/web-tools.md)",
            emoji="🌐",
            untrusted=True,
        ),
        Tool("web_fetch", "web", _WEB_FETCH, fetched, web.fetch, "pure", parallel=True, emoji="🌐", untrusted=True),
    ]


# -- execute_code ---------------------------------------------------------------------------------------------------

_CODE = (
    "Run a Python script that calls your tools: from hermes_tools import read_file, terminal; each returns a dict. "
    "Use it to loop and filter: only what it prints comes back. It writes and reaches the network by tools only."
)


def _execute_code(runtime: Runtime) -> Tool:
    run = _imported(runtime, "tools.execute_code", "run_execute_code")
    arguments = fields(["code"], code=text())
    return Tool("execute_code", "code_execution", _CODE, arguments, run, untrusted=script_fetches, emoji="🐍")


# -- delegate_task --------------------------------------------------------------------------------------------------

_DELEGATE = (
    "Give work to child agents and wait for their reports, which may be wrong. A child knows only its goal and context."
)
_ROLE = text("An orchestrator may delegate", enum=["leaf", "orchestrator"])


def _agent_names(named: Sequence[PromptFile]) -> dict[str, Any]:
    """The argument that names an agent, with what the first ones are for, as far as there is room."""
    about = "; ".join(f"{file.name}: {file.description}" for file in named)
    about = about if len(about) <= _MOST_ABOUT else f"{about[: _MOST_ABOUT - 1]}…"
    return text(about, enum=[file.name for file in named])


#: The room for descriptions of agents.
_MOST_ABOUT = 240


def _delegate_args(deepest: int, named: Sequence[PromptFile]) -> dict[str, Any]:
    """The arguments; a role is offered where a child could have children of its own."""
    task = fields(["goal"], goal=text(), context=text(), **({"agent": text()} if named else {}))
    return fields(
        [],
        goal=text(),
        context=text(),
        toolsets={"type": "array", "items": text()},
        **({"role": _ROLE} if deepest > 1 else {}),
        **({"agent": _agent_names(named)} if named else {}),
        tasks={"type": "array", "items": task, "description": "In parallel"},
    )


def _delegate_task(runtime: Runtime, named: Sequence[PromptFile]) -> Tool:
    def saw_untrusted_text(args: Args, context: ToolContext) -> bool:
        from hermes.agent.children.report import saw_untrusted

        del args
        return saw_untrusted(runtime.store, context.scope)

    def stop(args: Args, context: ToolContext) -> None:
        from hermes.agent.children.delegate import stop_children

        stop_children(args, context, runtime)

    return Tool(
        "delegate_task",
        "delegation",
        _DELEGATE,
        _delegate_args(runtime.config.delegation.max_spawn_depth, named),
        _imported(runtime, "children.delegate", "delegate"),
        "resumable",
        available=lambda: runtime.config.delegation.max_spawn_depth > 0,
        needs="delegation.max_spawn_depth above 0",
        stop=stop,
        untrusted=saw_untrusted_text,
        emoji="🔀",
    )


# -- a2a ------------------------------------------------------------------------------------------------------------

_A2A_DISCOVER = "What another agent can do. Without agent: the agents that are known by name."
_A2A_SEND = (
    "Send a message to another agent, which knows only what you send. If the state is input-required, use a2a_answer."
)
_A2A_ANSWER = "Answer what a task of another agent waits for. To an approval the answer is approve or deny."
_A2A_CANCEL = "Stop a task of another agent."

_A2A_AGENT = text("Name or URL")
_A2A_TASK = text("From a2a_send")


def _a2a_tools(runtime: Runtime) -> list[Tool]:
    known = ", ".join(sorted(runtime.config.a2a.agents))
    agent = text(f"Name ({known}) or URL") if known else _A2A_AGENT

    def call(name: str) -> Run:
        def run(args: Args, context: ToolContext) -> str:
            from hermes.agent.tools.a2a_calls import CALLS

            return CALLS[name](args, context, runtime.models)

        return run

    message = fields(["agent", "message"], agent=agent, message=text(), context_id=text("To continue"))
    answer = fields(["agent", "task_id", "answer"], agent=agent, task_id=_A2A_TASK, answer=text())
    cancel = fields(["agent", "task_id"], agent=agent, task_id=_A2A_TASK)
    who = fields([], agent=agent)
    return [
        Tool("a2a_discover", "a2a", _A2A_DISCOVER, who, call("discover"), parallel=True, emoji="📇", untrusted=True),
        Tool("a2a_send", "a2a", _A2A_SEND, message, call("send"), emoji="📨", untrusted=True),
        Tool("a2a_answer", "a2a", _A2A_ANSWER, answer, call("answer"), emoji="💬", untrusted=True),
        Tool("a2a_cancel", "a2a", _A2A_CANCEL, cancel, call("cancel"), emoji="🛑", untrusted=True),
    ]
