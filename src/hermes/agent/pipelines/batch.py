"""The tool calls of one model reply: run in parallel where they are independent, each recorded and closed once."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections import deque
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from hermes.agent.approvals.guardrail import LoopGuardrail
from hermes.agent.events import ignore_events
from hermes.agent.workers import wait_for
from hermes.base.errors import Interrupted, TurnSuspended
from hermes.contract.events import CheckpointMissing, ToolEnded, ToolStarted
from hermes.hooks.execution_chain import culprit_of
from hermes.journal.turns.steps import NO_FIELDS, Message
from hermes.models.reply import ToolRequest
from hermes.tools.arguments import parse_arguments

if TYPE_CHECKING:
    from hermes.agent.context.parts import TurnParts
    from hermes.agent.pipelines.tool_call import ToolCall
    from hermes.agent.pipelines.tool_outcome import ToolOutcome

# The pipeline of tool calls is imported with the first call: a turn that is one answer does without it.

log = logging.getLogger("hermes.tool")

#: The most calls of one segment that run at the same time.
MAX_PARALLEL = 8


class _Slot(msgspec.Struct):
    """One call of the batch, with its journal key and, in the end, its message."""

    index: int
    key: str
    call: ToolCall
    #: How the call ended, as soon as that is settled.
    outcome: ToolOutcome | None = None
    message: Message | None = None
    finished: ToolEnded | None = None
    #: Why the claim could not be put on disk: the call did not run.
    claim_error: BaseException | None = None


class ToolBatch:
    """Runs the calls of one reply: independent ones in parallel, the others in order."""

    def __init__(self, parts: TurnParts, loop: LoopGuardrail, step: int) -> None:
        self._runtime = parts.runtime
        self._journal = parts.journal
        self._scope = parts.scope
        self._listener = parts.listener
        self._cwd = parts.cwd
        self._loop = loop
        self._step = step
        self._settling = threading.Lock()
        self._notifying = threading.Lock()
        self._slots: list[_Slot] = []

    def run(self, requests: list[ToolRequest], offered: frozenset[str]) -> None:
        """Run the calls and record their messages; those that an interrupt stops are closed as cancelled.

        A call to a tool that is not ``offered`` is a call to an unknown one. When the answer to a question comes
        later, the calls that plugins know of wait with it: none of them has ended.
        """
        self._slots = [self._make_slot(index, request, offered) for index, request in enumerate(requests)]
        if self._journal.was_left:
            self._recall_owed()
        if self._runtime.hooks.pre_tool_call is not None or self._runtime.hooks.tool_request is not None:
            self._journal.commit_soon()  # plugins may take their time
        try:
            waiting = [slot for slot in self._slots if not self._replay(slot)]
            for segment in self._segments(waiting):
                self._run_segment(segment)
            self._mention_missing_checkpoints()
            if self._scope.interrupt.cancelled:
                self._journal.commit()
        except TurnSuspended:
            self._suspend()
            raise
        except BaseException as error:
            self._give_up(error)
            raise

    def finished(self) -> list[ToolEnded]:
        """How the calls ended, in call order."""
        return [slot.finished for slot in self._slots if slot.finished is not None]

    # -- replay -------------------------------------------------------------------------------------------------

    def _recall_owed(self) -> None:
        """Plugins that a killed process told of a question are still told its answer."""
        owed = self._runtime.approvals.owed(self._scope)
        for slot in self._slots if owed else ():
            slot.call.owed = owed.get(slot.key, slot.call.owed)

    def _replay(self, slot: _Slot) -> bool:
        """Use what an earlier run of the turn recorded. False when the call has yet to run."""
        recorded = self._journal.steps.get(slot.key)
        if recorded is None:
            return False
        from hermes.agent.pipelines.file_changes import recall_undone
        from hermes.agent.pipelines.tool_outcome import ToolOutcome

        slot.call.announced = True
        if recorded.body.undone_changes:
            recall_undone(slot.call, recorded.body.undone_changes)
        outcome = ToolOutcome.recorded(recorded.body)
        slot.message = self._journal.messages.get((self._step, slot.index + 1))
        if slot.message is None:
            # The result was recorded, but its end event may not have been emitted.
            self._finish(slot, outcome)
        else:
            slot.outcome, slot.finished = outcome, slot.call.ended(outcome)
            # Only counted: its warning was part of the message then.
            self._loop.note(slot.call.request.name, outcome.args, outcome.status, outcome.result)
        return True

    # -- running ------------------------------------------------------------------------------------------------

    def _segments(self, slots: list[_Slot]) -> Iterator[list[_Slot]]:
        segment: list[_Slot] = []
        group = _ParallelGroup()
        for slot in slots:
            if not group.add(slot):
                yield segment
                segment, group = [], _ParallelGroup()
                group.add(slot)
            segment.append(slot)
        if segment:
            yield segment

    def _run_segment(self, segment: list[_Slot]) -> None:
        ready: list[_Slot] = []
        for slot in segment:
            outcome = self._prepare(slot)
            if outcome is None:
                ready.append(slot)
            else:
                self._close(slot, outcome)
        if len(ready) == 1 and ready[0].call.claims_itself:
            ready[0].call.context.command.claim = partial(self._claim_started, ready[0])
        else:
            self._claim([slot for slot in ready if slot.call.unsafe])
            if not all(_is_quick(slot) for slot in ready):
                self._journal.commit_soon()
        for slot in ready:
            self._notify(slot.call.started())
        if len(ready) > 1 and not all(_is_quick(slot) for slot in ready) and _can_run_together(ready):
            self._run_on_workers(ready, MAX_PARALLEL)
        else:
            for slot in ready:
                self._run_alone(slot)

    def _prepare(self, slot: _Slot) -> ToolOutcome | None:
        """Pass the gates. A call that is cancelled is closed, because every call needs its result message."""
        interrupt, tool = self._scope.interrupt, slot.call.tool
        if interrupt.cancelled:
            if slot.call.context.is_continued and tool is not None and tool.stop is not None:
                tool.stop(slot.call.args, slot.call.context)
            return slot.call.cancelled(interrupt.reason)
        try:
            return slot.call.prepare()
        except Interrupted as stop:
            return slot.call.cancelled(stop.reason)

    def _claim(self, slots: list[_Slot]) -> None:
        """Write-ahead claim: record that these calls are about to run, so that a crash never runs them twice.

        The reply that asked for them is in the same transaction. This is the one sync that a step waits for.
        """
        for slot in slots:
            self._journal.step(slot.key, "claimed", "unsafe", slot.call.claim())
        if slots:
            self._journal.commit()

    def _claim_started(self, slot: _Slot) -> None:
        """The claim of a tool that has started what it needs, and waits for this before its effect begins."""
        try:
            self._claim([slot])
        except BaseException as error:
            slot.claim_error = error
            raise

    def _run_alone(self, slot: _Slot) -> None:
        # A plugin's tool may ignore the interrupt; on a worker thread it can be abandoned.
        if slot.call.tool is not None and slot.call.tool.plugin:
            self._run_on_workers([slot], 1)
        else:
            self._execute(slot)

    def _run_on_workers(self, slots: list[_Slot], width: int) -> None:
        waiting = deque(slots)

        def drain() -> None:
            while waiting:
                try:
                    slot = waiting.popleft()
                except IndexError:
                    return
                self._execute(slot)

        interrupt = self._scope.interrupt
        tasks = [self._runtime.workers.submit(drain) for _ in range(min(width, len(slots)))]
        ended = wait_for(tasks, interrupt)
        if len(ended) < len(tasks):
            for slot in slots:
                self._abandon(slot)
        for task in ended:
            task.result()

    def _execute(self, slot: _Slot) -> None:
        try:
            outcome = slot.call.execute()
            if slot.claim_error is not None:
                raise slot.claim_error
        except TurnSuspended:
            # A call that can run again asks again once the answer is there; no record says that it ran.
            if not slot.call.unsafe:
                raise
            message = "This needs a question to the user, which cannot be asked in the middle of this call."
            outcome = slot.call.failed(message, "approval_denied")
        except BaseException as error:
            if slot.claim_error is not None:
                raise  # it did not run
            self._close(slot, slot.call.cancelled(culprit_of(error) or type(error).__name__))
            raise
        self._close(slot, outcome)

    # -- closing ------------------------------------------------------------------------------------------------

    def _close(self, slot: _Slot, outcome: ToolOutcome) -> None:
        """Record the result, emit the end, make the message. Only the first caller closes a call."""
        effect = slot.call.tool.effect if slot.call.tool is not None else "pure"
        with self._settling:
            if slot.outcome is not None:
                return
            if slot.call.unsafe or slot.call.is_observed:
                self._journal.step(slot.key, "done", effect, slot.call.record(outcome))
            else:
                self._journal.step_later(slot.key, effect, lambda: (slot.call.record(outcome), NO_FIELDS))
            slot.outcome = outcome
        if slot.call.unsafe and not self._may_write_later(slot):
            self._journal.commit_soon()
        self._finish(slot, outcome)

    def _may_write_later(self, slot: _Slot) -> bool:
        """Whether the result can be written while the next answer is awaited: no one is told of it before."""
        return (
            self._listener is ignore_events
            and not slot.call.is_observed
            and not slot.call.context.command.undone
            and all(other.outcome is not None for other in self._slots)
        )

    def _finish(self, slot: _Slot, outcome: ToolOutcome) -> None:
        if slot.call.context.command.undone:
            from hermes.agent.pipelines.file_changes import settle_undone

            outcome = settle_undone(slot.call, outcome)
        ended = slot.call.ended(outcome)
        content = slot.call.message(ended)
        warning = self._loop.note(slot.call.request.name, outcome.args, outcome.status, outcome.result)
        self._answer(slot, outcome, ended, f"{content}\n\n{warning}" if warning else content)

    def _answer(self, slot: _Slot, outcome: ToolOutcome, ended: ToolEnded, content: str) -> None:
        """Make the message, once: a later call comes from a thread that was abandoned."""
        with self._settling:
            if slot.message is not None:
                return
            slot.outcome, slot.finished = outcome, ended
            slot.message = {"role": "tool", "tool_call_id": slot.call.request.id, "content": content}
            self._journal.message(self._step, slot.index + 1, slot.message)
            slot.call.record_change(self._journal, slot.key)
        told = (slot.key, slot.call.request.name, outcome.status, outcome.duration_ms)
        self._journal.log_recorded(log, "%s %s: %s, %d ms", *told)
        self._notify(ended)

    def _abandon(self, slot: _Slot) -> None:
        """Close a call of a cancelled turn whose thread may be stuck in the tool or in an observer."""
        cancelled = slot.call.cancelled(self._scope.interrupt.reason)
        self._close(slot, cancelled)
        # The result itself may not be shown before the observers had their chance to change it.
        outcome = slot.outcome or cancelled
        self._answer(slot, outcome, slot.call.ended(outcome), cancelled.result)

    def _give_up(self, error: BaseException) -> None:
        """The batch failed: every call that was announced gets its end event, and every call a message."""
        message = f"The turn failed before this call had a result ({type(error).__name__})"
        for slot in self._slots:
            if slot.message is None:
                outcome = slot.outcome or slot.call.failed(message, "turn_failed")
                ended = slot.call.ended(outcome)
                content = slot.call.message(ended)
                # The listener may be the very thing that failed.
                with contextlib.suppress(Exception):
                    self._answer(slot, outcome, ended, content)

    def _suspend(self) -> None:
        """Record the calls that plugins know of and that have not ended: the process may end before the answer."""
        for slot in self._slots:
            if slot.message is None and slot.call.announced:
                self._journal.event("call_waits", slot.key, slot.call.waiting())
                self._journal.log_recorded(log, "%s %s: waits for an answer", slot.key, slot.call.request.name)
        self._journal.commit()

    def _notify(self, event: ToolStarted | ToolEnded) -> None:
        """One at a time: listeners need not be thread-safe."""
        with self._notifying:
            self._listener(event)

    def _mention_missing_checkpoints(self) -> None:
        checkpoints = self._runtime.checkpoints
        for text in () if checkpoints is None else checkpoints.take_notices():
            self._listener(CheckpointMissing(text))

    def _make_slot(self, index: int, request: ToolRequest, offered: frozenset[str]) -> _Slot:
        from hermes.agent.pipelines.tool_call import ToolCall
        from hermes.agent.pipelines.tool_context import tool_context

        if self._runtime.tools.declaration(request.name).forwards:
            from hermes.agent.tools.tool_search import unwrapped  # few sessions have so many tools

            request = unwrapped(request, offered)
        scope = self._scope.child(tool_call_id=request.id)
        tool = self._runtime.tools.get(request.name) if request.name in offered else None
        content = self._journal.messages[0, 0]["content"]
        task = content if isinstance(content, str) else ""
        context = tool_context(self._runtime, scope, self._cwd, task)
        context.key = f"tool:{self._step}.{index}"
        call = ToolCall(self._runtime, request, scope, tool, context, loop=self._loop)
        call.before_asking = self._journal.commit_soon
        waiting = self._journal.waiting.get(context.key)
        if waiting is not None:
            call.take_up(waiting)
        return _Slot(index, context.key, call)


class _ParallelGroup(msgspec.Struct):
    """Calls that may run together: those that only read, or writers of separate files. All else runs alone."""

    all_read: bool = True
    all_separate: bool = True
    _size: int = 0
    _files: set[Path] = msgspec.field(default_factory=set[Path])
    #: The parents of the files, so that one look-up finds whether a folder contains one of them.
    _folders: set[Path] = msgspec.field(default_factory=set[Path])

    def add(self, slot: _Slot) -> bool:
        """Add the call, unless it conflicts with those that are in. The first one always fits."""
        paths = _written_paths(slot)
        all_read = self.all_read and slot.call.tool is not None and slot.call.tool.parallel
        all_separate = self.all_separate and paths is not None and not any(map(self._holds, paths))
        if self._size and not (all_read or all_separate):
            return False
        self._size += 1
        self.all_read, self.all_separate = all_read, all_separate
        for path in paths or ():
            self._files.add(path)
            self._folders.update(path.parents)
        return True

    def _holds(self, path: Path) -> bool:
        return path in self._files or path in self._folders or not self._files.isdisjoint(path.parents)


def _can_run_together(slots: list[_Slot]) -> bool:
    group = _ParallelGroup()
    return all(group.add(slot) for slot in slots)


def _written_paths(slot: _Slot) -> list[Path] | None:
    """The files a call writes, or None when that is not known."""
    tool, call = slot.call.tool, slot.call
    if tool is None or tool.declares is None or not tool.parallel_by_file:
        return None
    try:
        return tool.declares.written_paths(call.args or parse_arguments(call.request.arguments), call.context.cwd)
    except Exception:
        return None  # arguments that make no sense will fail on their own, alone


def _is_quick(slot: _Slot) -> bool:
    return slot.call.tool is not None and slot.call.tool.quick
