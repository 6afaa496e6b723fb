"""Delegation: the children of one ``delegate_task`` call, a few at a time, with a report on each."""

from __future__ import annotations

import contextlib
import json
import logging
import queue
import time
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec.structs import asdict

from hermes.agent.children.assignments import AssignmentReader
from hermes.agent.children.child import TIMED_OUT, Child
from hermes.agent.children.report import ChildReport, report_on
from hermes.agent.events import Listener, ignore_events
from hermes.agent.pipelines.tool_outcome import MAX_RESULT_CHARS
from hermes.agent.workers import GRACE_SECONDS, POLL_SECONDS
from hermes.base.errors import HermesError, Interrupted, TurnSuspended
from hermes.contract.events import ChildActivity, ChildEnded, ChildStarted, ToolStarted, TurnEvent
from hermes.tools.registry import Args, ToolContext
from hermes.tools.results import tool_error, tool_result

if TYPE_CHECKING:
    from hermes.agent.llm.model_runtime import ModelRuntime
    from hermes.agent.runtime import Runtime
    from hermes.agent.session import Session

#: Added to the grace period of its tool calls, for each level below a child and for itself.
_MARGIN_SECONDS = 0.5

#: The error type of the call when all its children ended the same way.
_ERROR_TYPES = {"timeout": "tool_timeout", "interrupted": "interrupted"}

log = logging.getLogger("hermes.agent")


def delegate(args: Args, context: ToolContext, runtime: Runtime) -> str:
    """Run ``delegate_task``: the result of the call as JSON."""
    parent: Session | None = runtime.open_sessions.get(context.scope.session_id)
    if parent is None:
        return tool_error("delegate_task works in a conversation only, and this call belongs to none")
    started = time.monotonic()
    try:
        children = _children(args, context, runtime, parent)
        reports = Delegation(runtime, parent, context, children).run()
    except HermesError as error:
        return tool_error(str(error))
    provided = runtime.memory.of(parent.principal).provided
    if provided is not None:
        for child, report in zip(children, reports, strict=True):
            provided.delegated(child.assignment.goal, report.summary, child.session_id)
    results = [report.fields for report in reports]
    elapsed = round(time.monotonic() - started, 3)
    return tool_result(**_failure(reports), results=results, total_duration_seconds=elapsed)


def stop_children(args: Args, context: ToolContext, runtime: Runtime) -> None:
    """End the children of a ``delegate_task`` call that waited for one of them, and whose turn was stopped."""
    parent: Session | None = runtime.open_sessions.get(context.scope.session_id)
    if parent is None:
        return
    with contextlib.suppress(HermesError):  # arguments that make no sense have no children
        Delegation(runtime, parent, context, _children(args, context, runtime, parent)).stop()


def _children(args: Args, context: ToolContext, runtime: Runtime, parent: Session) -> list[Child]:
    settings = runtime.config.delegation
    agents = runtime.prompt_files.usable("agents", parent.cwd, parent.principal) if _names_agent(args) else ()
    reader = AssignmentReader(settings, runtime.tools, parent.offered, parent.level, agents)
    return [Child(parent, context.scope, context.key, assignment) for assignment in reader.assignments(args)]


def _names_agent(args: Args) -> bool:
    tasks = args.get("tasks")
    return bool(args.get("agent")) or (isinstance(tasks, list) and '"agent"' in json.dumps(tasks, default=str))


def _failure(reports: Sequence[ChildReport]) -> dict[str, str]:
    """The call failed when no child completed; their reports are in the result all the same."""
    statuses = {report.status for report in reports}
    if "completed" in statuses:
        return {}
    errors = dict.fromkeys(report.error or report.status for report in reports)
    message = f"No child completed its task: {'; '.join(errors)}"[:2000]
    kind = _ERROR_TYPES.get(statuses.pop(), "delegation_failed") if len(statuses) == 1 else "delegation_failed"
    return {"error": message, "error_type": kind}


class Delegation:
    """Starts children, waits for them, and closes each exactly once. All of it in the thread of the parent's turn."""

    def __init__(self, runtime: Runtime, parent: Session, context: ToolContext, children: Sequence[Child]) -> None:
        self._runtime = runtime
        self._parent = parent
        self._scope = context.scope
        #: The call goes on after a wait: plugins know of the children that have a turn.
        self._is_continued = context.is_continued
        self._settings = settings = runtime.config.delegation
        self._models = runtime.models.children(parent.models)
        self._children = children
        self._waiting = deque(children)
        self._running: dict[str, Child] = {}
        self._reports: dict[int, ChildReport] = {}
        #: Children that have ended, and what the others do, in that order.
        self._news: queue.SimpleQueue[Child | ChildActivity] = queue.SimpleQueue()
        levels_below = max(settings.max_spawn_depth - parent.level, 1)
        self._grace = GRACE_SECONDS + _MARGIN_SECONDS * levels_below

    def run(self) -> list[ChildReport]:
        """The reports in the order of the tasks."""
        try:
            while self._waiting or self._running:
                self._start_some()
                self._collect_finished()
                self._enforce_deadlines()
        finally:
            for child in list(self._running.values()):  # something failed here: nothing else closes them
                child.stop("the delegating call ended", 0)
                self._close(child)
        waiting = [child.waits for child in self._children if child.waits is not None]
        if waiting:  # the others have ended, and are not run again when the call continues
            raise TurnSuspended(min((one.deadline for one in waiting if one.deadline is not None), default=None))
        return [self._reports[child.assignment.index] for child in self._children]

    def stop(self) -> None:
        """End the children that wait; the others have ended, or never began."""
        for child in self._children:
            if child.state() == "running":
                self._open(child)
                child.abandon(self._scope.interrupt.reason)
                self._close(child)

    # -- starting -----------------------------------------------------------------------------------------------

    def _start_some(self) -> None:
        while self._waiting and len(self._running) < self._settings.max_concurrent_children:
            child = self._waiting.popleft()
            if self._scope.interrupt.cancelled:
                child.interrupt.cancel(self._scope.interrupt.reason)
                self._report(child)
            elif child.state() in (None, "running"):
                self._start(child)
            else:
                self._report(child)  # it ended before the process that started it died: nothing runs again

    def _start(self, child: Child) -> None:
        is_known = self._is_continued and child.state() is not None
        self._open(child)
        # A child has no responder of its own. It works in the mode of its parent; a caller's asks as the caller does.
        unasked = self._settings.subagent_auto_approve
        agent = child.assignment.agent
        self._runtime.approvals.lets_child_run(
            child.session_id, self._parent.id, unasked=unasked, narrowed=agent.mode if agent else ""
        )
        started = self._started(child)
        emit = self._runtime.hooks.subagent_start
        if emit is not None and not is_known:
            with contextlib.suppress(Interrupted):
                emit(started)
        self._parent.notify(started)
        listener = self._watch(child) if self._parent.is_watched else ignore_events
        child.start(self._settings.child_timeout_seconds, self._news.put, listener)

    def _open(self, child: Child) -> None:
        """Have a session for a child, in which it works or is given up."""
        self._running[child.session_id] = child
        self._runtime.open_sessions.add(child.build(self._models_of(child), self._settings.max_iterations))

    def _models_of(self, child: Child) -> ModelRuntime:
        """The models of a child; those that its agent's file names, when the user trusts the file."""
        agent = child.assignment.agent
        if agent is None or not agent.model:
            return self._models
        if not self._runtime.prompt_files.is_trusted(agent, self._parent.principal):
            log.warning(
                "agent %s: its model %s is not used, %s is not a trusted folder", agent.name, agent.model, agent.root
            )
            return self._models
        provider, _, model = agent.model.rpartition(":")
        return self._runtime.models.conversation(provider=provider or self._models.endpoints[0].provider, model=model)

    def _watch(self, child: Child) -> Listener:
        """Reports the calls of a child to the thread of the parent's turn."""

        def listen(event: TurnEvent) -> None:
            if isinstance(event, ToolStarted):
                self._news.put(ChildActivity(child.session_id, child.assignment.index, event.tool_name, event.args))

        return listen

    # -- waiting ------------------------------------------------------------------------------------------------

    def _collect_finished(self) -> None:
        if not self._running:
            return
        deadline = min(child.deadline for child in self._running.values())
        # Short waits: a signal that arrives right before a wait is handled after it.
        seconds = max(min(deadline - time.monotonic(), POLL_SECONDS), 0)
        with contextlib.suppress(queue.Empty):
            news = self._news.get(timeout=seconds)
            if isinstance(news, ChildActivity):
                self._parent.notify(news)
            elif news.session_id in self._running:
                self._close(news)

    def _enforce_deadlines(self) -> None:
        """Stop the children that are past their deadline, and abandon those that did not stop in time."""
        interrupt, now = self._scope.interrupt, time.monotonic()
        for child in list(self._running.values()):
            if interrupt.cancelled and not child.stopping:
                child.stop(interrupt.reason, self._grace)
            elif now >= child.deadline and not child.stopping:
                child.stop(f"{TIMED_OUT} after {self._settings.child_timeout_seconds:g} s", self._grace)
            elif now >= child.deadline:
                self._close(child)

    # -- closing ------------------------------------------------------------------------------------------------

    def _close(self, child: Child) -> None:
        """The one place where a child that was started ends, whichever way it went. One that waits has not ended."""
        del self._running[child.session_id]
        if child.waits is not None:
            child.leave()
            self._runtime.open_sessions.remove(child.session_id)
            return
        child.close()
        self._runtime.open_sessions.remove(child.session_id)
        report = self._report(child)
        ended = ChildEnded(
            **asdict(self._started(child)),
            child_summary=report.summary,
            child_status=report.status,
            duration_ms=report.duration_ms,
            child_error=report.error,
        )
        emit = self._runtime.hooks.subagent_stop
        if emit is not None:
            with contextlib.suppress(Interrupted):
                emit(ended)
        self._parent.notify(ended)

    def _report(self, child: Child) -> ChildReport:
        room = MAX_RESULT_CHARS * 4 // 5 // len(self._children)  # the text around it needs the rest
        runtime, longest = self._runtime, self._settings.max_summary_chars
        report = report_on(child, runtime.store, runtime.redactor, room=room, longest=longest)
        self._reports[child.assignment.index] = report
        return report

    def _started(self, child: Child) -> ChildStarted:
        scope = self._scope
        return ChildStarted(
            **scope.ids("tool_call_id"),
            parent_session_id=scope.session_id,
            parent_turn_id=scope.turn_id,
            parent_subagent_id=self._parent.parent.subagent_id if self._parent.parent else "",
            child_session_id=child.session_id,
            child_subagent_id=child.subagent_id,
            child_role=child.assignment.role,
            child_goal=child.assignment.goal,
            task_index=child.assignment.index,
        )
