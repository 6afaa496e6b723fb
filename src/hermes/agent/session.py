"""A session: one conversation, and the turns that extend it."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections import deque
from collections.abc import Callable, Collection, Generator, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from hermes.agent.context.parts import TurnParts
from hermes.agent.context.project import ProjectInstructions, files_of_call
from hermes.agent.context.tokens import estimate
from hermes.agent.context.transcript import SessionTranscript
from hermes.agent.events import Listener, MaskedListener, TurnResult, ignore_events, recorded_result
from hermes.agent.llm.model_runtime import ModelRuntime
from hermes.agent.memory.memory import Memory
from hermes.agent.runtime import ParentCall, Runtime
from hermes.base.errors import SessionBusy, SessionNotFound, UnfinishedTurn
from hermes.base.sanitize import Memo
from hermes.base.scope import Interrupt, Scope, new_id
from hermes.contract.events import SessionFinalized, SessionResumed, ToolEnded, TurnEvent
from hermes.journal.bodies import message_text
from hermes.journal.history.rows import TurnFacts, find_turn
from hermes.journal.leases import SessionInfo
from hermes.journal.sessions import Sessions
from hermes.journal.turns.lifecycle import (
    begin_turn,
    claim_turn,
    close_children,
    error_type_of,
    finish_reason_of,
    reopen_turn,
    unfinished_state,
)
from hermes.journal.turns.recovery import GIVEN_UP, MAX_TAKE_UPS, close_turn
from hermes.journal.turns.steps import Message, TurnJournal, TurnState
from hermes.tools.registry import Tool

if TYPE_CHECKING:
    from hermes.agent.context.requests import CompressionReport
    from hermes.journal.history.branching import UndoneTurn
    from hermes.journal.store.port import Store
    from hermes.journal.turns.lifecycle import Submission

log = logging.getLogger("hermes.turn")

#: The class of the failure of a dead letter.
TAKEN_UP_TOO_OFTEN = "TakenUpTooOften"


class Session:
    """A conversation on one host. One turn runs at a time; a second caller gets ``SessionBusy``."""

    def __init__(
        self,
        runtime: Runtime,
        session_id: str,
        *,
        models: ModelRuntime,
        offered: list[Tool],
        max_steps: int,
        cwd: Path,
        platform: str = "cli",
        principal: str = "",
        history: list[Message] | None = None,
        is_new: bool = True,
        parent: ParentCall | None = None,
    ) -> None:
        self.id = session_id
        self.cwd = cwd
        self.platform = platform
        #: The caller it belongs to; empty is the owner of the home.
        self.principal = principal
        #: Who sent the message that is answered; the caller it belongs to, unless the surface knows better.
        self.sender_id = principal
        #: A title for a session that is not stored yet; empty names it after its first message.
        self.title = ""
        self.transcript = SessionTranscript(history or [])
        #: The models that answer, and the tools that are offered; both may change between turns.
        self.models = models
        self.offered = offered
        #: The only tools of the next turn; None for all that are offered.
        self._narrowed: frozenset[str] | None = None
        #: The tools that the registry had when ``offered`` was chosen: others are new.
        self._known_tools = frozenset(runtime.tools.all())
        #: The models of the next turn alone; None for those of the session.
        self._next_models: ModelRuntime | None = None
        self.max_steps = max_steps
        self.runtime = runtime
        self.parent = parent
        self._was_stored = not is_new
        #: How many turns the transcript covers, all of them ended; None when that is not known.
        self._turns_known: int | None = 0 if is_new else None
        #: The fencing token under which the transcript was last complete.
        self._epoch_known = 0
        #: The turn that released the session with its end.
        self.released = ""
        #: What sanitising the conversation has cost already, so that only new messages cost again.
        self.memo = Memo()
        #: How full the model's window is.
        self.window = runtime.contexts.window(session_id, platform)
        #: The memory of its principal; None for a child, which knows only its task and reports to its parent.
        self.memory: Memory | None = runtime.memory.of(principal) if parent is None else None
        #: The journal of the running turn.
        self.journal: TurnJournal | None = None
        #: Whether the surface can show that text which it has shown does not count.
        self.can_withdraw_text = False
        self._steering: deque[str] = deque()
        self._running = threading.Lock()
        self._listener: Listener = ignore_events
        #: Called when a turn is on disk, before it runs: a new message was accepted, or an earlier turn is continued.
        self.when_accepted: Callable[[], None] | None = None
        self.closed = False

    @cached_property
    def instructions(self) -> ProjectInstructions | None:
        """The instruction files of the project; None when they are switched off."""
        if not self.runtime.config.context.project_instructions:
            return None
        is_caller = bool(self.principal)
        return ProjectInstructions(
            self.cwd, user_folder=None if is_caller else self.runtime.home, is_confined=is_caller
        )

    def renew_tools(self, wanted: Sequence[Tool]) -> None:
        """Follow the registry from the next turn on: drop tools that are gone, add those of ``wanted`` that are new."""
        registry = self.runtime.tools
        known = self._known_tools
        self._known_tools = frozenset(registry.all())
        kept = [tool for held in self.offered if (tool := registry.get(held.name)) is not None]
        names = {tool.name for tool in kept}
        new = [
            tool for tool in wanted if tool.name not in names and tool.name not in known and not self._is_closed(tool)
        ]
        self.offered = sorted([*kept, *new], key=lambda tool: tool.name)

    def _is_closed(self, tool: Tool) -> bool:
        return self.runtime.memory.is_closed_to(self.principal, tool)

    @property
    def level(self) -> int:
        """How many delegations lie between the user and this session."""
        return 0 if self.parent is None else self.parent.level

    def run(
        self,
        message: str | list[dict[str, Any]],
        *,
        listener: Listener = ignore_events,
        interrupt: Interrupt | None = None,
        request_key: str | None = None,
        task_id: str = "",
        context: str = "",
        is_structured: bool = False,
    ) -> TurnResult:
        """Answer a message. A turn that an earlier process left unfinished is finished first.

        ``request_key`` is an idempotency key: the same key again gives the answer of the first time and runs nothing.
        ``task_id`` is the id of the work at the surface, for hooks; it must be new. ``context`` is added to the
        message for this turn only, as ``pre_llm_call`` may do. ``is_structured``: the answer is to be data, so one that
        is cut off is not continued.
        """
        with self._exclusive(), self._with_next_models():
            interrupt = interrupt or Interrupt()
            task_id = task_id or new_id()
            if self._turns_known is None:
                self._finish(("running",), listener, interrupt)
            begin = partial(
                begin_turn,
                self.runtime.store,
                self.runtime.runner,
                self._info(),
                turn_id=self._new_turn_id(task_id),
                task_id=task_id,
                request_key=request_key or task_id,
                message={"role": "user", "content": self.runtime.redactor.mask_data(message)},
                environment=self.runtime.environment(),
            )
            journal = self._begun(begin, listener, interrupt)
            if journal.state != "running":
                return _recorded(journal)
            return self._run_turn(journal, listener, interrupt, context, is_structured=is_structured)

    def run_accepted(
        self,
        submission: Submission,
        *,
        listener: Listener = ignore_events,
        interrupt: Interrupt | None = None,
        releases: bool = False,
    ) -> TurnResult:
        """Run a turn of this session that was accepted before, by this process or another (``journal.turns``).

        One that a process left unfinished is continued, one that has ended gives its recorded result. Turns that were
        left before it are finished first. With ``releases`` the end of the turn releases the session too; then
        ``released`` is the id of the turn.
        """
        runtime, interrupt = self.runtime, interrupt or Interrupt()
        with self._exclusive(), self._with_next_models():
            endpoint = self.models.endpoints[0]
            claim = partial(
                claim_turn,
                runtime.store,
                runtime.runner,
                submission.turn_id,
                endpoint=(endpoint.provider, endpoint.model),
                environment=runtime.environment(),
            )
            journal = self._begun(claim, listener, interrupt)
            if journal.state != "running":
                return _recorded(journal)
            if journal.lease.epoch != self._epoch_known + 1:
                self._turns_known = None  # another process may have continued the conversation
            options = submission.options
            journal.releases = releases and runtime.seal is None  # a seal is for what this process recorded last
            result = self._run_turn(
                journal,
                listener,
                interrupt,
                options.get("context", ""),
                is_structured=options.get("is_structured", False),
            )
            self.released = journal.id if journal.releases else ""
            return result

    # -- turns that an earlier run left -------------------------------------------------------------------------
    #
    # The only ways to take one up, for every surface. Taking it up settles its started calls (``recovery.py``)
    # before anything else can happen; one that was taken up too often ends as failed instead.

    def unfinished_turn(self) -> TurnState | None:
        """The state of the last turn when it has no answer and can be continued."""
        return unfinished_state(self.runtime.store, self.id)

    def finish_open_turn(
        self, *, listener: Listener = ignore_events, interrupt: Interrupt | None = None
    ) -> TurnResult | None:
        """Continue the last turn when it has no answer: crashed, interrupted or failed. None when there is none."""
        with self._exclusive():
            return self._finish(("running", "interrupted", "failed"), listener, interrupt or Interrupt())

    def abandon_open_turn(self, reason: str) -> TurnResult | None:
        """Give up the last turn when a process that died left it: no call and no request of it runs, now or later.

        The conversation keeps what it did; a call that had started is reported to the model as unknown.
        """
        interrupt = Interrupt()
        interrupt.cancel(f"{GIVEN_UP}: {reason}")
        with self._exclusive():
            return self._finish(("running",), ignore_events, interrupt)

    def steer(self, text: str) -> bool:
        """Add a message to the running turn, before its next model call. False when no turn runs."""
        if not self._running.locked():
            return False
        self._steering.append(text)
        return True

    def narrow_next_turn(self, names: Collection[str]) -> None:
        """Offer the next turn no tools but these, of those that are offered. Without any of them nothing changes."""
        kept = frozenset(names).intersection(tool.name for tool in self.offered)
        self._narrowed = kept or None

    def use_next_turn(self, models: ModelRuntime) -> None:
        """Answer the next message with these models, and the later ones with those of the session."""
        self._next_models = models

    @contextlib.contextmanager
    def _with_next_models(self) -> Generator[None]:
        once, self._next_models = self._next_models, None
        if once is None:
            yield
            return
        before, self.models = self.models, once
        try:
            yield
        finally:
            if self.models is once:  # nothing else was chosen meanwhile
                self.models = before

    def take_offered(self) -> list[Tool]:
        """The tools of the turn that begins."""
        narrowed, self._narrowed = self._narrowed, None
        return self.offered if narrowed is None else [tool for tool in self.offered if tool.name in narrowed]

    def take_steering(self) -> list[str]:
        """What was said to the agent since this was last called."""
        return [self._steering.popleft() for _ in range(len(self._steering))]

    def added_texts(self, turn_id: str, step: int, calls: Sequence[ToolEnded]) -> list[str]:
        """What joins a turn after a step: the instructions of folders that its calls entered, and what was said."""
        inputs = self.runtime.inputs
        if inputs is not None:
            return inputs.texts(self.id, turn_id, step)
        found: list[str] = []
        if calls and self.instructions is not None:
            declaration = self.runtime.tools.declaration
            paths = [path for call in calls for path in files_of_call(call, declaration(call.tool_name), self.cwd)]
            found = self.instructions.below(paths, self._was_said)
        return [*found, *self.take_steering()]

    def _was_said(self, text: str) -> bool:
        return any(text in message_text(message) for message in self.messages())

    @property
    def is_watched(self) -> bool:
        """Whether the running turn has a listener."""
        return self._listener is not ignore_events

    def notify(self, event: TurnEvent) -> None:
        """Send an event to the listener of the running turn. To be called in the turn's own thread."""
        self._listener(event)

    def messages(self) -> list[Message]:
        """What the model sees of the conversation, the running turn included."""
        return self.transcript.messages()

    def context_use(self) -> tuple[int, int]:
        """The tokens of the last request, or an estimate of the next one, and how many the model sees."""
        length = self.runtime.contexts.seen_by(self.models.endpoints[0])
        tokens = self.window.status()["last_prompt_tokens"]
        return tokens or min(estimate(self.messages()), length), length

    def compress(self, instructions: str = "", interrupt: Interrupt | None = None) -> CompressionReport:
        """Compact the conversation now, between two turns; ``instructions`` say what to keep above all.

        Raises ``HermesError`` when there is nothing to gain. The journal keeps every message.
        """
        from hermes.agent.context.requests import compress_now

        scope = self._scope(interrupt or Interrupt())
        with self._exclusive():
            self.transcript.earlier, report = compress_now(
                self.runtime, scope, self.window, self.models.endpoints, self.memory, instructions
            )
            return report

    def last_result(self) -> TurnResult:
        """The stored result of the last turn."""
        turn = Sessions(self.runtime.store).last_turn(self.id)
        if turn is None:
            raise SessionNotFound(f"session {self.id} has no message yet; give one with --query")
        return self._stored_result(turn)

    def result_of(self, request_key: str) -> TurnResult:
        """The stored result of the turn with that idempotency key."""
        turn = Sessions(self.runtime.store).turn_of(self.id, request_key)
        if turn is None:
            raise SessionNotFound(f"session {self.id} has no turn {request_key!r}")
        return self._stored_result(turn)

    def _stored_result(self, turn: TurnFacts) -> TurnResult:
        finish_reason = finish_reason_of(self.runtime.store, self.id, turn.id)
        return recorded_result(self.id, turn.id, turn.state, turn.answer, turn.error, finish_reason)

    def undo(self, count: int = 1) -> list[UndoneTurn]:
        """Undo the last turns, as many as there are; returns them, oldest first. Files stay as they are."""
        from hermes.journal.history.branching import undo_turns  # few conversations need it

        with self._exclusive():
            undone = undo_turns(self.runtime.store, self.runtime.runner, self.id, count)
            self._turns_known = None
            self.transcript.earlier = Sessions(self.runtime.store).context(self.id)
            return undone

    def close(self, reason: str = "shutdown", *, new_session_id: str = "") -> None:
        """End the session on this host, once; ``new_session_id`` is the session that replaces it, if any."""
        if self.closed:
            return
        self.closed = True
        self.runtime.begun.discard(self.id)
        if self.memory is not None and self.memory.provided is not None:
            self.memory.provided.session_closed(self.id, self.transcript.earlier)
        emit = self.runtime.hooks.on_session_finalize
        if emit is not None:
            emit(
                SessionFinalized(
                    session_id=self.id,
                    platform=self.platform,
                    reason=reason,
                    old_session_id=self.id,
                    new_session_id=new_session_id,
                )
            )
        self.window.close(self.transcript.earlier, is_replaced=bool(new_session_id))
        self.runtime.hooks.end_session(self.id)

    def unload(self) -> bool:
        """Free the memory of a session that continues later, read from the journal; False while a turn runs.

        The conversation is not over: no plugin hears of it.
        """
        if not self._running.acquire(blocking=False):
            return False
        try:
            if not self.closed:
                self.closed = True
                self.runtime.hooks.end_session(self.id)
        finally:
            self._running.release()
        return True

    # -- inside -------------------------------------------------------------------------------------------------

    def _begun(self, begin: Callable[[], TurnJournal], listener: Listener, interrupt: Interrupt) -> TurnJournal:
        """The journal of a turn that begins. One that another process left meanwhile is finished first."""
        try:
            return begin()
        except UnfinishedTurn:
            self._finish(("running",), listener, interrupt)
            return begin()

    def _finish(self, states: tuple[TurnState, ...], listener: Listener, interrupt: Interrupt) -> TurnResult | None:
        runtime = self.runtime
        journal = reopen_turn(runtime.store, runtime.runner, self.id, states=states, environment=runtime.environment())
        if journal is None:
            return None
        self._turns_known = None
        return self._run_turn(journal, listener, interrupt)

    def _give_up(self, journal: TurnJournal) -> TurnResult:
        """Dead letter: end a turn whose every run ended its process, without any code that could do so again."""
        error = (
            f"the turn was taken up {MAX_TAKE_UPS} times, and each time the process ended before another step was "
            f"recorded; it is not tried again. 'hermes logs' may show why. Send another message to continue"
        )
        log.error("turn %d of session %s failed: %s", journal.ordinal + 1, self.id, error)
        withhold = self.runtime.hooks.transform_tool_result is not None
        close_turn(journal, "failed", error, withhold_results=withhold, error_type=TAKEN_UP_TOO_OFTEN)
        journal.commit()
        close_children(self.runtime.store, self.runtime.runner, self.id)
        if self.runtime.seal is not None:
            self.runtime.seal(self.id)
        self._turns_known = None
        self.transcript.earlier = Sessions(self.runtime.store).context(self.id)
        return replace(_recorded(journal), error_type=TAKEN_UP_TOO_OFTEN)

    def _catch_up(self, journal: TurnJournal) -> None:
        """Read the transcript again when another process may have continued the session."""
        if self._turns_known != journal.ordinal:
            self.transcript.earlier = Sessions(self.runtime.store).context(self.id, before_turn=journal.ordinal)
        self._turns_known = None  # until the running turn has ended

    def _run_turn(
        self,
        journal: TurnJournal,
        listener: Listener,
        interrupt: Interrupt,
        context: str = "",
        *,
        is_structured: bool = False,
    ) -> TurnResult:
        journal.redactor = self.runtime.redactor
        if journal.is_exhausted:
            return self._give_up(journal)
        if self.when_accepted is not None:
            self.when_accepted()
        if listener is not ignore_events:
            listener = MaskedListener(listener, self.runtime.redactor)
        self._catch_up(journal)
        if self.runtime.hooks.on_session_resume is not None:
            self._tell_resumed(journal)
        scope = self._scope(interrupt, task_id=journal.task_id, turn_id=journal.id)
        self.window.use(self.models.endpoints[0])
        self._listener, self.journal = listener, journal
        self.transcript.begin(journal)
        budgets = self.runtime.models.budgets
        if budgets is not None:
            budgets.enter(scope, "" if self.parent is None else self.parent.session_id)
        try:
            from hermes.agent.turn import Turn  # brings the loop along, which a session that waits does not need

            parts = self._parts(journal, scope, listener)
            result = Turn(replace(parts, context=context, is_structured=is_structured)).run()
            self._turns_known, self._epoch_known = journal.ordinal + 1, journal.lease.epoch
            provided = None if self.memory is None else self.memory.provided
            if result.status in ("completed", "incomplete") and provided is not None:
                said = message_text(journal.messages[0, 0])
                provided.keep(scope, said, result.answer, self.transcript.messages())
            return result
        finally:
            if self.runtime.checkpoints is not None:
                self.runtime.checkpoints.turn_ended(journal.id)
            self.transcript.end()
            self._listener, self.journal = ignore_events, None
            if budgets is not None:
                budgets.leave(self.id, journal.id)
            if self.runtime.seal is not None:
                self.runtime.seal(self.id)

    def _tell_resumed(self, journal: TurnJournal) -> None:
        """Tell that a stored conversation is continued, once in this process however often its memory was freed."""
        emit, begun = self.runtime.hooks.on_session_resume, self.runtime.begun
        if emit is None or self.id in begun:
            return
        begun.add(self.id)
        if self._was_stored and (journal.ordinal > 0 or journal.was_left):
            emit(SessionResumed(session_id=self.id, model=self.models.model, platform=self.platform))

    def _scope(self, interrupt: Interrupt, **ids: str) -> Scope:
        scope = Scope(session_id=self.id, platform=self.platform, principal=self.principal, interrupt=interrupt)
        return scope.child(**ids)

    def _parts(self, journal: TurnJournal, scope: Scope, listener: Listener) -> TurnParts:
        """What the session gives to one of its turns."""
        return TurnParts(
            runtime=self.runtime,
            journal=journal,
            scope=scope,
            listener=listener,
            models=self.models,
            transcript=self.transcript,
            window=self.window,
            memo=self.memo,
            cwd=self.cwd,
            offered=self.offered,
            take_offered=self.take_offered,
            max_steps=self.max_steps,
            memory=self.memory,
            instructions=self.instructions,
            rules="" if self.parent is None else self.parent.rules,
            added_texts=self.added_texts,
            sender_id=self.sender_id,
            can_withdraw_text=self.can_withdraw_text,
        )

    def _new_turn_id(self, task_id: str) -> str:
        inputs = self.runtime.inputs
        if inputs is not None:
            recorded = inputs.turn_id(self.id, Sessions(self.runtime.store).turn_count(self.id))
            if recorded is not None:
                return recorded
        return f"{self.id}:{task_id}:{new_id()[:8]}"

    def _info(self) -> SessionInfo:
        endpoint = self.models.endpoints[0]
        parent = self.parent
        return SessionInfo(
            self.id,
            str(self.cwd),
            self.platform,
            endpoint.provider,
            endpoint.model,
            None if parent is None else parent.session_id,
            None if parent is None else parent.tool_call_id,
            self.title,
            self.principal,
            self.runtime.approvals.modes.chosen(self.id),
        )

    @contextlib.contextmanager
    def _exclusive(self) -> Generator[None]:
        if not self._running.acquire(blocking=False):
            raise SessionBusy(f"session {self.id} is answering another message; wait for it to end")
        try:
            yield
        finally:
            self._running.release()


def _recorded(journal: TurnJournal) -> TurnResult:
    """The result of a turn that ended before."""
    answer, reason = journal.answer, journal.finish_reason
    return recorded_result(journal.session_id, journal.id, journal.state, answer, journal.error, reason)


def stored_result(store: Store, turn_id: str) -> TurnResult | None:
    """The recorded result of a turn of any session; None when there is none, or when it has not ended."""
    turn = store.read(lambda connection: find_turn(connection, turn_id))
    if turn is None or turn.state in ("queued", "running"):
        return None
    reason = finish_reason_of(store, turn.session_id, turn_id)
    result = recorded_result(turn.session_id, turn_id, turn.state, turn.answer, turn.error, reason)
    if turn.state != "failed":
        return result
    return replace(result, error_type=error_type_of(store, turn.session_id, turn_id))
