"""A plugin's context engine, held to what such an engine promises."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, cast

from hermes.agent.context.plan import pairing_problem
from hermes.agent.context.tokens import estimate
from hermes.agent.workers import Workers, wait_for
from hermes.base.scope import Interrupt
from hermes.hooks.callback import accepted_names, describe
from hermes.hooks.copies import isolate
from hermes.hooks.threads.event_loop import AsyncLoop
from hermes.journal.bodies import to_json
from hermes.journal.turns.steps import Message
from hermes.models.endpoint import Endpoint
from hermes.plugins.tool_handler import check_name, read_schema, runner
from hermes.tools.registry import Tool

log = logging.getLogger("hermes.context")

#: The toolset of what an engine offers to the model.
TOOLSET = "context_engine"


class PluginEngine:
    """Calls the engine. What fails or makes no sense is a warning, once for each method, and answered with None."""

    def __init__(self, engine: Any, name: str, plugin: str, workers: Workers) -> None:
        self.name = name
        self.plugin = plugin
        self._engine = engine
        self._workers = workers
        self._complaints: set[str] = set()
        #: Where its tools are found, once it has any.
        self.toolsets: list[str] = []

    def call(self, method: str, *arguments: Any, **details: Any) -> Any:
        """Call a method with those of the details that it takes."""
        try:
            function: Callable[..., Any] = getattr(self._engine, method)
            names = accepted_names(function)
            taken = details if names is None else {name: details[name] for name in names if name in details}
            return function(*arguments, **taken)
        except Exception as error:
            self._complain(method, describe(error))
            return None

    def model_changed(self, endpoint: Endpoint, length: int) -> None:
        """Tell the engine which model answers, and how long its window is."""
        about = {"provider": endpoint.provider, "base_url": endpoint.base_url, "api_mode": endpoint.api_mode}
        self.call("update_model", endpoint.model, length, **about)

    def should_compress(self, messages: list[Message], tokens: int, *, is_counted: bool) -> bool | None:
        """Whether it is time; None when the engine does not say. Without a count it may look at the messages."""
        answer = self.call("should_compress", tokens)
        if not answer and not is_counted:
            answer = self.call("should_compress_preflight", isolate(messages)) or answer
        return None if answer is None else bool(answer)

    def compress(self, messages: list[Message], tokens: int, focus: str, interrupt: Interrupt) -> list[Message] | None:
        """The engine's shorter conversation, or None when it has none that a model could be sent."""
        given = isolate(messages)
        details = {"focus_topic": focus} if focus else {}
        # The engine may ask a model of its own and not hear of an interrupt; on another thread it can be left behind.
        task = self._workers.submit(lambda: self.call("compress", given, current_tokens=tokens, **details))
        if not wait_for([task], interrupt):
            interrupt.check()
        answer: object = task.result()
        if answer is None or answer == messages:
            return None  # it found nothing to do
        found, problem = _checked(answer, estimate(messages))
        if problem:
            self._complain("compress", problem)
            return None
        return found

    def status(self) -> dict[str, Any]:
        """What the engine says of itself."""
        answer = self.call("get_status")
        return cast("dict[str, Any]", answer) if isinstance(answer, dict) else {}

    def tools(self, conversation: Callable[[str], list[Message]], loop: AsyncLoop) -> list[Tool]:
        """What the engine offers to the model. ``conversation`` gives the messages of a session."""
        schemas = self.call("get_tool_schemas")
        if not isinstance(schemas, list):
            return []
        found: list[Tool] = []
        for schema in cast("list[Any]", schemas):
            try:
                found.append(self._tool(schema, conversation, loop))
            except Exception as error:
                self._complain("get_tool_schemas", describe(error))
        return found

    def _tool(self, schema: Any, conversation: Callable[[str], list[Message]], loop: AsyncLoop) -> Tool:
        name = check_name(schema.get("function", schema).get("name"))
        description, parameters = read_schema(name, schema, "")
        handle: Callable[..., Any] = self._engine.handle_tool_call
        names = accepted_names(handle)

        def handler(args: dict[str, Any], **keywords: Any) -> Any:
            known = {**keywords, "messages": isolate(conversation(keywords.get("session_id", "")))}
            return handle(name, args, **{key: known[key] for key in known if names is None or key in names})

        run = runner(name, self.plugin, handler, loop)
        return Tool(name, TOOLSET, description, parameters, run, plugin=self.plugin)

    def _complain(self, method: str, problem: str) -> None:
        level = logging.DEBUG if method in self._complaints else logging.WARNING
        self._complaints.add(method)
        log.log(level, "context engine %r of plugin %r: %s: %s", self.name, self.plugin, method, problem)


def _checked(answer: object, tokens_before: int) -> tuple[list[Message], str]:
    """What the engine returned, as far as it is a conversation; otherwise what is wrong with it."""
    if not isinstance(answer, list):
        return [], f"it returned {type(answer).__name__}; a list of messages is expected"
    items = cast("list[Any]", answer)
    if not all(isinstance(item, dict) for item in items):
        return [], "it returned a list with something else than messages"
    # The system prompt is the runtime's and is added to every request.
    messages = cast("list[Message]", isolate(items[1:] if items and items[0].get("role") == "system" else items))
    strange = next((one.get("role") for one in messages if one.get("role") not in ("user", "assistant", "tool")), "")
    if strange != "":
        return [], f"it returned a message with the role {strange!r}; user, assistant and tool are possible"
    if not any(message["role"] == "user" for message in messages):
        return [], "it returned a conversation without any message of the user"
    try:
        to_json(messages)
        problem = pairing_problem(messages)
        tokens = estimate(messages)
    except Exception as error:
        return [], f"it returned messages that cannot be sent: {describe(error)}"
    if problem:
        return [], f"it returned {problem}"
    if tokens >= tokens_before:
        return [], "it returned a conversation that is not shorter"
    return messages, ""
