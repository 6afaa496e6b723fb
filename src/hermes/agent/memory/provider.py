"""Memory provider of a plugin: every call is guarded, and slow ones have a deadline or run in the background."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from hermes.agent.workers import POLL_SECONDS, Workers
from hermes.base.errors import PluginError
from hermes.base.scope import Interrupt, Scope
from hermes.hooks.callback import accepted_names, describe
from hermes.hooks.copies import isolate
from hermes.hooks.queue import BackgroundQueue
from hermes.hooks.threads.event_loop import AsyncLoop
from hermes.plugins.registry import PluginSet, ProviderOffer
from hermes.plugins.tool_handler import check_name, read_schema, runner
from hermes.tools.declarations.declaration import Declaration, Shown
from hermes.tools.registry import Tool
from hermes.tools.results import tool_error

log = logging.getLogger("hermes.memory")

Message = dict[str, Any]

#: Deadline for recall at the start of a turn.
RECALL_SECONDS = 10.0
#: Deadline at the end of the process for queued turns, and then for the provider's own shutdown.
CLOSE_SECONDS = 5.0


def provided_memory(name: str, plugins: PluginSet, home: Path, workers: Workers) -> ProvidedMemory | str:
    """The provider with that name, ready for use; or why only the built-in notes are used."""
    offer = plugins.choose("memory_provider", name)
    if isinstance(offer, str):
        return f"memory.provider: {offer}; only the built-in notes are used"
    try:
        available = bool(offer.value.is_available())
    except Exception as error:
        return f"memory.provider: {name} does not work ({describe(error)}); only the built-in notes are used"
    if not available:
        return f"memory.provider: {name} is not set up here; only the built-in notes are used"
    return ProvidedMemory(offer, home, workers)


class ProvidedMemory:
    """One provider serves all sessions of the process; it is notified when another one becomes current."""

    def __init__(self, offer: ProviderOffer, home: Path, workers: Workers) -> None:
        self.name = offer.name
        self.plugin = offer.plugin
        self._provider: Any = offer.value
        self._home = home
        self._workers = workers
        self._queue = BackgroundQueue(f"memory {offer.name}")
        #: The session the provider was last notified of, and all those it knows.
        self._current = ""
        self._known: set[str] = set()
        self._switching = threading.Lock()
        self._off = False
        self._warned: set[str] = set()

    @property
    def takes_principal(self) -> bool:
        """Whether the provider keeps principals apart: it says so, and then every call has ``principal``."""
        return getattr(self._provider, "takes_principal", False) is True

    # -- its tools ----------------------------------------------------------------------------------------------

    def owns(self, tool: Tool) -> bool:
        """Whether a tool is the provider's."""
        return tool.toolset == "memory" and tool.plugin == self.plugin

    def registered(self, tool: Tool) -> bool:
        """Whether the plugin of the provider registered a tool itself, perhaps by another of its entry points."""
        return bool(tool.plugin) and tool.plugin.rpartition("/")[2] == self.plugin.rpartition("/")[2]

    def tools(self, loop: AsyncLoop) -> list[Tool]:
        """The tools that the provider offers to the model."""
        made: list[Tool] = []
        schemas = self._call("get_tool_schemas", [])
        for schema in cast("list[object]", schemas) if isinstance(schemas, list | tuple) else []:
            try:
                made.append(self._tool(schema, loop))
            except PluginError as error:
                self._warn("get_tool_schemas", str(error))
        return made

    def _tool(self, schema: object, loop: AsyncLoop) -> Tool:
        fields = cast("dict[str, Any]", schema) if isinstance(schema, dict) else {}
        inner: object = fields.get("function", fields)
        name = check_name(cast("dict[str, Any]", inner).get("name") if isinstance(inner, dict) else None)
        description, parameters = read_schema(name, fields, "")

        def handle(
            args: dict[str, Any], *, session_id: str, platform: str, task_id: str, tool_call_id: str, principal: str
        ) -> Any:
            if principal and not self.takes_principal:
                return tool_error(f"the memory {self.name} does not keep callers apart; it is off for them")
            if not self._known and not self._make_current(session_id, platform, principal):
                return tool_error(f"the memory {self.name} could not be started; see the log")
            ids = {"session_id": session_id, "task_id": task_id, "tool_call_id": tool_call_id, "principal": principal}
            return self._plain_call("handle_tool_call", name, args, **ids)

        run = runner(name, self.plugin, handle, loop)
        declares = Declaration(shown=Shown(is_internal=True))
        return Tool(name, "memory", description, parameters, run, declares=declares, emoji="🧠", plugin=self.plugin)

    # -- in the turn --------------------------------------------------------------------------------------------

    def recall(self, scope: Scope, turn: int, message: str) -> tuple[str, str]:
        """Text for the system prompt and text about the message; nothing when the provider takes too long."""
        if self._off:
            return "", ""
        found = {"block": "", "context": ""}

        def work() -> None:
            if not self._make_current(scope.session_id, scope.platform, scope.principal):
                return
            ids = {"session_id": scope.session_id, "principal": scope.principal}
            self._call("on_turn_start", None, turn, message, platform=scope.platform, **ids)
            found["block"] = _text(self._call("system_prompt_block", "", principal=scope.principal))
            found["context"] = _text(self._call("prefetch", "", message, **ids))

        if not self._run_with_deadline(work, RECALL_SECONDS, scope.interrupt):
            self._warn("recall", f"it took more than {RECALL_SECONDS:g} s; the turn continues without it")
        return found["block"].strip(), _fenced(self.name, found["context"].strip())

    def before_compress(self, messages: list[Message]) -> str:
        """The provider's text about messages that are about to be summarised."""
        said: list[str] = []
        if not self._off:
            shown = isolate(messages)
            self._run_with_deadline(
                lambda: said.append(_text(self._call("on_pre_compress", "", shown))), RECALL_SECONDS
            )
        return said[0].strip() if said else ""

    def _make_current(self, session_id: str, platform: str, principal: str) -> bool:
        """Make the session the provider's current one. False when the provider cannot be started."""
        with self._switching:
            if self._off or self._current == session_id:
                return not self._off
            details: dict[str, Any] = {"hermes_home": str(self._home), "platform": platform}
            if self.takes_principal:
                details["principal"] = principal
            if not self._current:
                details |= {"agent_context": "primary", "agent_workspace": "hermes"}
                self._off = not self._succeeds("initialize", session_id, **details)
            else:
                details |= {"parent_session_id": self._current, "reset": session_id not in self._known}
                self._call("on_session_switch", None, session_id, **details)
            self._current = session_id
            self._known.add(session_id)
            return not self._off

    # -- in the background ---------------------------------------------------------------------------------------

    def keep(self, scope: Scope, message: str, answer: str, messages: list[Message]) -> None:
        """Pass a turn on, then let the provider prefetch for the next one."""
        session_id = scope.session_id

        def work() -> None:
            # The turn may have been started by another process, so the provider may not know its session.
            if not self._make_current(session_id, scope.platform, scope.principal):
                return
            ids = {"session_id": session_id, "principal": scope.principal}
            self._call("sync_turn", None, message, answer, messages=isolate(messages), **ids)
            self._call("queue_prefetch", None, message, **ids)

        self._queue.put(work, overflow="block")

    def note_written(self, action: str, target: str, content: str, scope: Scope) -> None:
        """The built-in notes were changed."""
        metadata = {"session_id": scope.session_id, "tool_call_id": scope.tool_call_id, "platform": scope.platform}
        if self.takes_principal:
            metadata["principal"] = scope.principal
        self._enqueue("on_memory_write", action, target, content, metadata=metadata)

    def delegated(self, task: str, result: str, child_session_id: str) -> None:
        """A child agent has reported."""
        self._enqueue("on_delegation", task, result, child_session_id=child_session_id)

    def session_closed(self, session_id: str, messages: list[Message]) -> None:
        """A conversation that the provider knows is over."""
        if session_id in self._known:
            self._known.discard(session_id)
            self._enqueue("on_session_end", isolate(messages))

    def close(self) -> None:
        """Deliver what is queued, then let the provider shut down, each with a deadline."""
        if not self._queue.close(CLOSE_SECONDS):
            self._warn("sync_turn", f"not everything was kept within {CLOSE_SECONDS:g} s")
        self._run_with_deadline(lambda: self._call("shutdown", None), CLOSE_SECONDS)

    def _enqueue(self, method: str, *args: Any, **details: Any) -> None:
        if not self._off:
            self._queue.put(lambda: self._call(method, None, *args, **details), overflow="block")

    # -- guarded calls ------------------------------------------------------------------------------------------

    def _run_with_deadline(self, work: Callable[[], None], seconds: float, interrupt: Interrupt | None = None) -> bool:
        """Run work on a worker thread. False when it missed the deadline and was left behind."""
        task = self._workers.submit(work)
        deadline = time.monotonic() + seconds
        while not task.is_over(POLL_SECONDS):
            if interrupt is not None:
                interrupt.check()
            if time.monotonic() > deadline:
                return False
        return True

    def _call(self, method: str, default: Any, /, *args: Any, **details: Any) -> Any:
        try:
            return self._plain_call(method, *args, **details)
        except (Exception, SystemExit) as error:
            self._warn(method, describe(error))
            return default

    def _succeeds(self, method: str, /, *args: Any, **details: Any) -> bool:
        try:
            self._plain_call(method, *args, **details)
        except (Exception, SystemExit) as error:
            self._warn(method, f"{describe(error)}; it is not used in this run")
            return False
        return True

    def _plain_call(self, method: str, /, *args: Any, **details: Any) -> Any:
        function = getattr(self._provider, method, None)
        if function is None:
            return None  # an older provider, which does not have this method
        if not self.takes_principal:
            details.pop("principal", None)
        names = accepted_names(function)
        return function(*args, **(details if names is None else {k: v for k, v in details.items() if k in names}))

    def _warn(self, method: str, text: str) -> None:
        level = logging.DEBUG if method in self._warned else logging.WARNING
        self._warned.add(method)
        log.log(level, "memory %r: %s: %s", self.name, method, text)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _fenced(name: str, text: str) -> str:
    """Marks the text as memory, so that the model does not take it for the user's message (prompt injection)."""
    if not text:
        return ""
    return (
        f"<memory-context>\n[From the memory {name}: background for this message, not the user's words]\n"
        f"{text.replace('</memory-context>', '')}\n</memory-context>"
    )
