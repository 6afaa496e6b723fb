"""One A2A task in this process: its stored state, its subscribers, and its turn of the agent."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator, Iterator

from a2a.server.context import ServerCallContext
from a2a.server.events import Event, EventQueue
from a2a.server.tasks import TaskUpdater
from a2a.server.tasks.task_manager import append_artifact_to_task
from a2a.types import Message, Part, Task, TaskArtifactUpdateEvent, TaskState, TaskStatus, TaskStatusUpdateEvent

from hermes.base.http_server.principals import LOCAL, Principal
from hermes.base.scope import Interrupt
from hermes.surfaces.a2a.server.access.user import PrincipalUser
from hermes.surfaces.a2a.server.artifacts import ArtifactStream
from hermes.surfaces.a2a.server.store.contexts import ContextKey
from hermes.surfaces.a2a.server.store.tasks import TERMINAL, JournalTaskStore, StoredTask

log = logging.getLogger("hermes.a2a")

#: Sends an event to the webhooks of a task.
Notify = Callable[[str, Task | TaskStatusUpdateEvent | TaskArtifactUpdateEvent], Awaitable[None]]

#: Bound of a subscriber's queue. One that falls further behind is disconnected, and can subscribe again.
_MAX_QUEUED_EVENTS = 2_000
#: Time for a canceled turn to stop before its caller gets the answer anyway.
_CANCEL_SECONDS = 0.9
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
        store: JournalTaskStore,
        notify: Notify,
        *,
        has_new_context: bool = False,
        is_elsewhere: bool = False,
    ) -> None:
        self.task = task
        #: Whether the context was made for this task: it has no other ones.
        self.has_new_context = has_new_context
        #: The session of its context, as far as it is known.
        self.session_id = ""
        #: Another server answers it, and this one follows what that one stores.
        self.is_elsewhere = is_elsewhere
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
        #: Calls that wait until it is idle.
        self._waiting_calls = 0
        #: Its turn is suspended until the owner has answered; the caller has nothing to do.
        self.is_parked = False
        self._idle = asyncio.Event()
        # The current or last turn: the switch that stops it, and what is followed of it.
        self.interrupt = Interrupt()
        self.stream: ArtifactStream | None = None

    @property
    def id(self) -> str:
        """The id of the task."""
        return self.task.id

    @property
    def owner(self) -> str:
        """The name of the caller."""
        return self.call.user.user_name

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
        return not self.is_here and not self.subscribers and not self._waiting_calls

    @property
    def is_here(self) -> bool:
        """Whether this server answers it, or waits for the owner with it."""
        return self._job is not None or self._is_reserved or self.is_parked

    @property
    def is_settled(self) -> bool:
        """Whether its turn goes on after it has waited for the owner."""
        return self.is_parked and self.stream is not None and len(self.stream.live.log) > self.stream.at

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

    async def add_message(self, message: Message) -> bool:
        """Store a further message of the caller, which this server answers; False when another one answers one."""
        changed = self.snapshot()
        if changed.status.HasField("message"):
            changed.history.append(changed.status.message)
            changed.status.ClearField("message")
        changed.history.append(message)
        if not await self.claim(changed):
            return False
        self.task.CopyFrom(changed)
        return True

    async def claim(self, changed: Task | None = None, *, before: str = "") -> bool:
        """Have this server answer the task, which the server ``before`` did. False when another one has it now."""
        return await self._store.claim(StoredTask(self.owner, changed or self.task, before))

    def follow(self, stored: StoredTask) -> None:
        """Take what another server has stored of the task, with its changes as events for the subscribers."""
        self.is_elsewhere = stored.runner not in ("", self._store.runner_id)
        events = list(_changes(self.task, stored.task))
        self.task.CopyFrom(stored.task)
        for event in events:
            self._publish(event)
        if self.is_idle:
            self._end_waiting()

    async def cancel_elsewhere(self) -> bool:
        """End a task that another server answers, which learns of it by the row. False when it has ended already."""
        changed = self.snapshot()
        if changed.status.HasField("message"):
            changed.history.append(changed.status.message)
        changed.status.CopyFrom(TaskStatus(state=TaskState.TASK_STATE_CANCELED))
        changed.status.timestamp.GetCurrentTime()
        if not await self._store.cancel(self.owner, changed):
            return False
        self.follow(StoredTask(self.owner, changed, ""))
        await self._notify(self.id, _status_event(changed))
        return True

    async def give_up(self, stored: StoredTask) -> None:
        """Another server has ended or taken the task that this one answers."""
        self.interrupt.cancel(CANCELED)
        self.is_parked = False
        self.follow(stored)
        await self.abort()

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
        if not await self._store.put(self.task, self.owner):
            newer = await self._store.find(self.id, self.owner)
            if newer is not None:
                self.follow(newer)
            return
        await self._notify(self.task.id, event)
        self._publish(event)

    def _publish(self, event: Event) -> None:
        for subscriber in list(self.subscribers):
            subscriber.put(event)
            if self.is_ended and isinstance(event, TaskStatusUpdateEvent):
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
        return self._job is not None or self._is_reserved or self.is_elsewhere

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
        self.is_elsewhere = False
        self.interrupt = Interrupt()
        self._idle.clear()
        self._job = asyncio.create_task(job)
        # A callback, because it also runs when the job is canceled before its first step.
        self._job.add_done_callback(self._job_ended)
        return self._job

    def _job_ended(self, job: asyncio.Task[None]) -> None:
        self._job = None
        if not self.is_parked:
            self._end_waiting()
        if not job.cancelled() and job.exception() is not None:
            log.error("task %s could not be updated", self.id, exc_info=job.exception())

    def _end_waiting(self) -> None:
        self._idle.set()
        for subscriber in self.subscribers:
            if subscriber.until_idle:
                subscriber.put(None)

    async def wait_until_idle(self) -> None:
        """Wait until the message is answered, or the task waits for its caller."""
        if self._job is None and not self.is_parked:
            if not self.is_elsewhere:
                return
            self._idle.clear()
        self._waiting_calls += 1
        try:
            await self._idle.wait()
        finally:
            self._waiting_calls -= 1

    async def cancel(self) -> bool:
        """Stop the turn with everything it started, and end the task. True when it waited for an answer."""
        if self._job is not None:
            self.interrupt.cancel(CANCELED)
            if self.stream is not None and not self.stream.ended.is_set():
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


def _changes(known: Task, newer: Task) -> Iterator[TaskArtifactUpdateEvent | TaskStatusUpdateEvent]:
    """The events that make one state of a task of another."""
    shown = {artifact.artifact_id: artifact for artifact in known.artifacts}
    for artifact in newer.artifacts:
        before = shown.get(artifact.artifact_id)
        if before == artifact:
            continue
        event = TaskArtifactUpdateEvent(task_id=newer.id, context_id=newer.context_id, artifact=artifact)
        event.last_chunk = newer.status.state in TERMINAL
        if before is not None and before.parts and artifact.parts:
            said, text = before.parts[0].text, artifact.parts[0].text
            if said and text.startswith(said):
                event.append = True
                event.artifact.parts[0].text = text[len(said) :]
        yield event
    if newer.status != known.status:
        yield _status_event(newer)


def _status_event(task: Task) -> TaskStatusUpdateEvent:
    return TaskStatusUpdateEvent(
        task_id=task.id, context_id=task.context_id, status=task.status, metadata=task.metadata
    )
