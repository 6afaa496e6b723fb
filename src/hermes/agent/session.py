"""One conversation: its id, its history, and the turns that extend it."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hermes.agent.context.spill import spill
from hermes.agent.context.view import View
from hermes.agent.context.window import BeforeCompress
from hermes.agent.events import Listener, TurnResult, ignore_events
from hermes.agent.memory.memory import Memory
from hermes.agent.model_call import ModelRuntime
from hermes.agent.prompt import system_prompt
from hermes.agent.runtime import Runtime
from hermes.agent.tool_call import tool_context
from hermes.agent.turn import Setup, Turn
from hermes.contract.events import SessionFinalized, TurnEvent
from hermes.errors import SessionBusy, SessionNotFound
from hermes.journal.bodies import message_text
from hermes.journal.sessions import Sessions
from hermes.journal.turns import Message, SessionInfo, TurnJournal, TurnState, begin_turn, reopen_turn
from hermes.models.usage import Usage
from hermes.sanitize import Memo
from hermes.scope import Interrupt, Scope, new_id
from hermes.tools.registry import Tool

if TYPE_CHECKING:
    from hermes.agent.context.compress_now import CompressionReport


@dataclass(frozen=True, slots=True)
class ParentCall:
    """The ``delegate_task`` call that a child session works for."""

    session_id: str
    tool_call_id: str
    subagent_id: str
    #: How many delegations lie between the user and the child.
    level: int
    #: What the system prompt of the child says about its role.
    rules: str


class Session:
    """A conversation on one host. One turn runs at a time; a second caller is told so."""

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
        history: list[Message] | None = None,
        is_new: bool = True,
        parent: ParentCall | None = None,
    ) -> None:
        self.id = session_id
        self.cwd = cwd
        self.platform = platform
        #: A name for a session that is not on record yet; empty names it after its first message.
        self.title = ""
        self.history = history if history is not None else []
        #: The models that answer, and the tools the model is told about; both may change between turns.
        self.models = models
        self.offered = offered
        self.max_steps = max_steps
        self.runtime = runtime
        self.parent = parent
        self._is_new = is_new
        #: How many turns ``history`` covers; None when nobody counted them.
        self._turns_known: int | None = 0 if is_new else None
        self._memo = Memo()
        #: How full the model's window is.
        self.window = runtime.contexts.window(session_id, platform)
        #: What the model sees while a turn runs, and where the turn is put on record.
        self._view: View | None = None
        self.journal: TurnJournal | None = None
        self._steering: deque[str] = deque()
        self._running = threading.Lock()
        self._listener: Listener = ignore_events
        self.closed = False

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
    ) -> TurnResult:
        """Answer a message. A turn that an earlier process left unfinished is finished first.

        The same ``request_key`` again gives the answer of the first time and runs nothing. ``task_id`` is what the
        surface calls the work, for hooks to name it; it must be new. ``context`` is added to the message for this turn
        only, as ``pre_llm_call`` may do.
        """
        with self._one_at_a_time():
            interrupt = interrupt or Interrupt()
            if not self._is_new:
                self._finish(("running",), listener, interrupt)
            task_id = task_id or new_id()
            user_message: Message = {"role": "user", "content": message}
            journal = begin_turn(
                self.runtime.store,
                self.runtime.runner,
                self._info(),
                turn_id=f"{self.id}:{task_id}:{new_id()[:8]}",
                task_id=task_id,
                request_key=request_key or task_id,
                message=user_message,
            )
            if journal.state != "running":
                return _recorded_result(self.id, journal.id, journal.state, journal.answer, journal.error)
            return self._run_turn(journal, user_message, listener, interrupt, context)

    def finish_open_turn(
        self, *, listener: Listener = ignore_events, interrupt: Interrupt | None = None
    ) -> TurnResult | None:
        """Go on with the last turn when it has no answer: cut off, interrupted or failed. None when there is none."""
        with self._one_at_a_time():
            return self._finish(("running", "interrupted", "failed"), listener, interrupt or Interrupt())

    def steer(self, text: str) -> bool:
        """Say something to the agent while it works: it hears it before its next model call. False when it is idle."""
        if not self._running.locked():
            return False
        self._steering.append(text)
        return True

    def tell(self, event: TurnEvent) -> None:
        """Show something to whoever watches the turn in hand. To be called in the turn's own thread."""
        self._listener(event)

    def conversation(self) -> list[Message]:
        """What the model sees of the conversation, the turn in hand included."""
        view = self._view
        return self.history if view is None else view.conversation()

    def compress(self, instructions: str = "", interrupt: Interrupt | None = None) -> CompressionReport:
        """Make the conversation shorter now, between two turns; ``instructions`` say what to keep above all.

        Raises ``HermesError`` when there is nothing to gain. The journal keeps every message.
        """
        from hermes.agent.context.compress_now import compress_now  # only when somebody asks for it

        with self._one_at_a_time():
            self.history, report = compress_now(self, instructions, interrupt or Interrupt())
            return report

    @property
    def before_compress(self) -> BeforeCompress | None:
        """Says what of the messages that are about to be condensed should be kept in mind."""
        memory = self._memory
        return None if memory is None else memory.before_compress

    def last_result(self) -> TurnResult:
        """The answer that is on record already."""
        turn = Sessions(self.runtime.store).last_turn(self.id)
        if turn is None:
            raise SessionNotFound(f"session {self.id} has no message yet; give one with --query")
        return _recorded_result(self.id, turn["id"], turn["state"], turn["answer"], turn["error"])

    def undo(self, count: int = 1) -> list[Message]:
        """Take back the last turns, as many as there are; returns what the user had said in them, oldest first."""
        from hermes.journal.history.undoing import undo_turns  # few conversations need it

        with self._one_at_a_time():
            undone = undo_turns(self.runtime.store, self.runtime.runner, self.id, count)
            self._turns_known = None
            self.history = Sessions(self.runtime.store).context(self.id)
            return [turn.message for turn in undone]

    def close(self, reason: str = "shutdown", *, new_session_id: str = "") -> None:
        """Give up the session's identity on this host, once; ``new_session_id`` takes its place, if any does."""
        if self.closed:
            return
        self.closed = True
        if (memory := self._memory) is not None:
            memory.session_closed(self.id, self.history)
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
        self.window.close(self.history, is_replaced=bool(new_session_id))

    # -- inside -------------------------------------------------------------------------------------------------

    def _take_steering(self) -> list[str]:
        return [self._steering.popleft() for _ in range(len(self._steering))]

    def _finish(self, states: tuple[TurnState, ...], listener: Listener, interrupt: Interrupt) -> TurnResult | None:
        journal = reopen_turn(self.runtime.store, self.runtime.runner, self.id, states=states)
        if journal is None:
            return None
        self._turns_known = None
        return self._run_turn(journal, journal.messages[0, 0], listener, interrupt)

    def _catch_up(self, journal: TurnJournal) -> None:
        """Another process may have gone on with the session since its history was read."""
        if self._turns_known != journal.ordinal:
            self.history = Sessions(self.runtime.store).context(self.id, before_turn=journal.ordinal)
        self._turns_known = None  # until the turn in hand is over

    def _run_turn(
        self, journal: TurnJournal, message: Message, listener: Listener, interrupt: Interrupt, context: str = ""
    ) -> TurnResult:
        self._catch_up(journal)
        self._listener = listener
        runtime = self.runtime
        scope = Scope(
            session_id=self.id,
            task_id=journal.task_id,
            turn_id=journal.id,
            platform=self.platform,
            interrupt=interrupt,
        )
        task = message["content"] if isinstance(message["content"], str) else ""
        self.window.use(self.models.endpoints[0])
        self.journal = journal
        self._view = view = View(
            journal, scope, self.window, self.models.endpoints, self.history, message, self.before_compress, listener
        )
        turn = Turn(
            hooks=runtime.hooks,
            models=self.models,
            runtime=runtime,
            make_context=lambda scope: tool_context(runtime, scope, self.cwd, task),
            journal=journal,
            scope=scope,
            view=view,
            make_setup=lambda: self._make_setup(scope, journal, message, context),
            max_nudges=runtime.config.agent.max_verify_nudges,
            listener=listener,
            is_first=journal.ordinal == 0,
            memo=self._memo,
            take_steering=self._take_steering,
            shorten=self._shorten,
        )
        try:
            result = turn.run()
            self._turns_known = journal.ordinal + 1
            if result.status == "completed" and (memory := self._memory) is not None:
                memory.keep(scope, message_text(message), result.answer, view.conversation())
            return result
        finally:
            self._is_new = False
            self._listener = ignore_events
            self.history, self._view, self.journal = view.conversation(), None, None

    @property
    def _memory(self) -> Memory | None:
        """The memory of the host; None for a child, which knows only its task and reports to its parent."""
        return self.runtime.memory if self.parent is None else None

    def _shorten(self, text: str) -> str:
        """Text that plugins add to the conversation: a very long one goes to a file."""
        return spill(text, self.runtime.home / "spill", self.runtime.config.hooks.output_spill.max_chars)

    def _make_setup(self, scope: Scope, journal: TurnJournal, message: Message, context: str) -> Setup:
        runtime, memory = self.runtime, self._memory
        extra = [runtime.config.agent.system_prompt.strip(), self.parent.rules if self.parent else ""]
        if memory is not None:
            block, recalled = memory.recall(scope, journal.ordinal + 1, message_text(message))
            extra += memory.prompt_block(), block
            recalled = recalled and self._shorten(recalled)
            context = "\n\n".join(filter(None, (recalled, context)))
        stand_ins = runtime.vision.stand_ins(self.models.endpoints, self.history, message, scope)
        tools = [tool.definition() for tool in self.offered]
        prompt = system_prompt(self.cwd, extra="\n\n".join(text for text in extra if text))
        return Setup(prompt, tools, self.max_steps, context, stand_ins)

    def _info(self) -> SessionInfo:
        endpoint = self.models.endpoints[0]
        parent = self.parent
        return SessionInfo(
            *(self.id, str(self.cwd), self.platform, endpoint.provider, endpoint.model),
            None if parent is None else parent.session_id,
            None if parent is None else parent.tool_call_id,
            self.title,
        )

    @contextlib.contextmanager
    def _one_at_a_time(self) -> Generator[None]:
        if not self._running.acquire(blocking=False):
            raise SessionBusy(f"session {self.id} is answering another message; wait for it to end")
        try:
            yield
        finally:
            self._running.release()


def _recorded_result(
    session_id: str, turn_id: str, state: TurnState, answer: str | None, error: str | None
) -> TurnResult:
    """The result of a turn that ended before, as far as it is asked for again."""
    return TurnResult(
        session_id=session_id,
        turn_id=turn_id,
        status="failed" if state == "running" else state,
        answer=answer or "",
        error=error,
        usage=Usage(request_count=0),
        model="",
        provider="",
        steps=0,
        tool_calls=[],
        duration=0.0,
    )
