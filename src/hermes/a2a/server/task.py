"""One A2A task in this process: its stored state, its subscribers, and its turn of the agent."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator

from a2a.server.context import ServerCallContext
from a2a.server.events import Event, EventQueue
from a2a.server.tasks import TaskStore, TaskUpdater
from a2a.server.tasks.task_manager import append_artifact_to_task
from a2a.types import Message, Part, Task, TaskArtifactUpdateEvent, TaskState, TaskStatusUpdateEvent

from hermes.a2a.server.access.user import PrincipalUser
from hermes.a2a.server.content import WrittenFile
from hermes.a2a.server.store.contexts import ContextKey
from hermes.a2a.server.store.tasks import TERMINAL
from hermes.agent.events import TurnResult
from hermes.agent.workers import Workers
from hermes.http_server.principals import LOCAL, Principal
from hermes.journal.questions import QuestionRow
from hermes.scope import Interrupt

log = logging.getLogger("hermes.a2a")

#: Sends an event to the webhooks of a task.
Notify = Callable[[str, Task | TaskStatusUpdateEvent | TaskArtifactUpdateEvent], Awaitable[None]]
#: How a turn ended: with a result, with a question that waits for an answer, or with an error.
TurnOutcome = TurnResult | QuestionRow | Exception

#: Bound of a subscriber's queue. One that falls further behind is disconnected, and can subscribe again.
_MAX_QUEUED_EVENTS = 2_000
#: Time for a canceled turn to stop before its caller gets the answer anyway.
_CANCEL_SECONDS = 0.9
#: Time that a task whose job was canceled waits for its turn.
_ABANDON_SECONDS = 10.0
#: The most seconds that a job is given to end after its question was stored.
_SECONDS_TO_END = 10.0

CANCELED = "cancelled by the caller"


class TaskSubscriber:
    """A bounded queue of a task's events for one stream."""

    def __init__(self, *, until_idle: bool) -> None:
        #: Whether it ends when the turn stops to wait for its caller; otherwise only with the task.
        self.until_idle = until_idle
        self._events: asyncio.Queue[Event | None] = asyncio.Queue()
        self._is_closed = False

    def put(self, event: Event | None) -> None:
        """Add an event; None ends the stream."""
        if event is not None and self._events.qsize() >= _MAX_QUEUED_EVENTS:
            event = None
        if not self._is_closed:
            self._events.put_nowait(event)
        self._is_closed = self._is_closed or event is None

    async def events(self) -> AsyncGenerator[Event]:
        """The events, until the stream ends."""
        while (event := await self._events.get()) is not None:
            yield event


class ActiveTask(EventQueue):
    """One task while a turn runs for it or subscribers follow it. All methods are for the server's loop."""

    def __init__(
        self,
        task: Task,
        call: ServerCallContext,
        store: TaskStore,
        notify: Notify,
        *,
        has_new_context: bool = False,
    ) -> None:
        self.task = task
        #: Whether the context was made for this task: it has no session yet.
        self.has_new_context = has_new_context
        #: The call with the message that is being answered; its user is the owner of the task.
        self.call = call
        self.updater = TaskUpdater(self, task.id, task.context_id)
        #: The media types that the caller accepts; empty is any.
        self.output_modes: tuple[str, ...] = ()
        self.subscribers: set[TaskSubscriber] = set()
        self._store = store
        self._notify = notify
        #: The coroutine that answers a message, while there is one.
        self._job: asyncio.Task[None] | None = None
        self._is_reserved = False
        #: Its turn is suspended until the owner has answered; the caller has nothing to do.
        self.is_parked = False
        self._idle = asyncio.Event()
        # The current or last turn: the switch that stops it, its state, and whether it has ended or waits.
        self.interrupt = Interrupt()
        self.outcome: TurnOutcome = RuntimeError("the turn did not run")
        self.files: list[WrittenFile] = []
        self._turn_ended = asyncio.Event()
        self._turn_ended.set()

    @property
    def id(self) -> str:
        """The id of the task."""
        return self.task.id

    @property
    def principal(self) -> Principal:
        """The caller."""
        user = self.call.user
        return user.principal if isinstance(user, PrincipalUser) else LOCAL

    @property
    def context(self) -> ContextKey:
        """The conversation that the task belongs to: owner and context id."""
        return self.principal.name, self.task.context_id

    # -- state and events ---------------------------------------------------------------------------------------

    @property
    def is_ended(self) -> bool:
        """Whether the task is in a terminal state."""
        return self.task.status.state in TERMINAL

    @property
    def is_waiting(self) -> bool:
        """Whether the task waits for an answer of its caller."""
        return self.task.status.state == TaskState.TASK_STATE_INPUT_REQUIRED

    @property
    def is_unused(self) -> bool:
        """Whether no turn runs for the task or waits for the owner, and no subscriber follows it."""
        return not self.is_running and not self.is_parked and not self.subscribers

    @property
    def is_idle(self) -> bool:
        """Whether no message is being answered, and no turn waits for the owner."""
        return not self.is_running and not self.is_parked

    def end_streams(self) -> None:
        """End the streams of all subscribers, and the calls that wait for the task."""
        for subscriber in self.subscribers:
            subscriber.put(None)
        if self.is_parked:
            self._idle.set()

    def has_subscribers(self) -> bool:
        """Whether anyone follows the task now."""
        return bool(self.subscribers)

    def snapshot(self) -> Task:
        """A copy of the task as it is now."""
        copy = Task()
        copy.CopyFrom(self.task)
        return copy

    async def create(self, message: Message) -> None:
        """Store a new task with its first message."""
        message.task_id, message.context_id = self.task.id, self.task.context_id
        self.task.history.append(message)
        await self._store.save(self.task, self.call)
        await self._notify(self.task.id, self.task)

    async def add_message(self, message: Message) -> None:
        """Store a further message of the caller."""
        if self.task.status.HasField("message"):
            self.task.history.append(self.task.status.message)
            self.task.status.ClearField("message")
        self.task.history.append(message)
        await self._store.save(self.task, self.call)

    async def enqueue_event(self, event: Event) -> None:
        """Apply an event, store the task, and pass the event to webhooks and subscribers. Ignored after the end."""
        if self.is_ended:
            return
        if isinstance(event, TaskStatusUpdateEvent):
            if self.task.status.HasField("message"):
                self.task.history.append(self.task.status.message)
            self.task.metadata.MergeFrom(event.metadata)
            self.task.status.CopyFrom(event.status)
        elif isinstance(event, TaskArtifactUpdateEvent):
            append_artifact_to_task(self.task, event)
        else:
            raise TypeError(f"a task has no {type(event).__name__}")
        await self._store.save(self.task, self.call)
        await self._notify(self.task.id, event)
        for subscriber in list(self.subscribers):
            subscriber.put(event)
            if self.is_ended:
                subscriber.put(None)

    async def finish(self, state: TaskState, text: str = "", metadata: dict[str, object] | None = None) -> None:
        """Set the terminal state, unless the task has one."""
        if not self.is_ended:
            message = self.updater.new_agent_message([Part(text=text)]) if text else None
            await self.updater.update_status(state, message, metadata=metadata)

    # -- the job: answers one message ---------------------------------------------------------------------------

    @property
    def is_running(self) -> bool:
        """Whether a message is being answered, or is about to be."""
        return self._job is not None or self._is_reserved

    async def wait_for_end_of_question(self) -> None:
        """A question is stored a moment before the job that asked it ends: an answer may come in between."""
        if self._job is not None and self.is_waiting:
            await asyncio.wait([self._job], timeout=_SECONDS_TO_END)

    @contextlib.contextmanager
    def reserved(self) -> Generator[None]:
        """Accept no other message in the block, which stores one and starts the job that answers it."""
        self._is_reserved = True
        try:
            yield
        finally:
            self._is_reserved = False

    def start(self, job: Coroutine[None, None, None], call: ServerCallContext) -> asyncio.Task[None]:
        """Run the coroutine that answers a message of ``call``."""
        self.call = call
        self.interrupt = Interrupt()
        self.files = []
        self._idle.clear()
        self._job = asyncio.create_task(job)
        # A callback, because it also runs when the job is canceled before its first step.
        self._job.add_done_callback(self._job_ended)
        return self._job

    def _job_ended(self, job: asyncio.Task[None]) -> None:
        self._job = None
        if not self.is_parked:
            self._idle.set()
            for subscriber in self.subscribers:
                if subscriber.until_idle:
                    subscriber.put(None)
        if not job.cancelled() and job.exception() is not None:
            log.error("task %s could not be updated", self.id, exc_info=job.exception())

    async def wait_until_idle(self) -> None:
        """Wait until the message is answered, or the task waits for its caller."""
        if self._job is not None or self.is_parked:
            await self._idle.wait()

    async def cancel(self) -> bool:
        """Stop the turn with everything it started, and end the task. True when it waited for an answer."""
        if self._job is not None:
            self.interrupt.cancel(CANCELED)
            if not self._turn_ended.is_set():
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._idle.wait(), _CANCEL_SECONDS)
        was_waiting = self.is_waiting or self.is_parked
        await self.finish(TaskState.TASK_STATE_CANCELED)
        if self._job is not None:
            self._job.cancel()
        elif self.is_parked:
            self.is_parked = False
            self._idle.set()
        return was_waiting

    async def abort(self) -> None:
        """Cancel the job without a new state."""
        job = self._job
        if job is not None:
            job.cancel()
            await asyncio.gather(job, return_exceptions=True)

    # -- the turn: runs elsewhere -------------------------------------------------------------------------------

    def start_turn(
        self,
        workers: Workers,
        begin: Callable[[Callable[[TurnResult | QuestionRow], None]], None],
        on_end: Callable[[], None],
    ) -> None:
        """Begin a turn on a worker thread: ``begin`` gets the function to report its end to, from any thread.

        ``on_end`` is called on the loop once ``outcome`` is set.
        """
        loop = asyncio.get_running_loop()
        self._turn_ended.clear()

        def ended(outcome: TurnOutcome) -> None:
            self.outcome = outcome
            self._turn_ended.set()
            on_end()

        def report(outcome: TurnOutcome) -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended before the turn
                loop.call_soon_threadsafe(ended, outcome)

        def run() -> None:
            try:
                begin(report)
            except Exception as error:
                report(error)

        workers.submit(run)

    async def abandon_turn(self) -> None:
        """Interrupt the turn and wait for its end, within limits: the conversation stays locked until then."""
        self.interrupt.cancel(CANCELED)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._turn_ended.wait(), _ABANDON_SECONDS)
