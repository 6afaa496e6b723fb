"""One A2A task in this process: its stored state, its subscribers, and the job that answers it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterator

from a2a.server.context import ServerCallContext
from a2a.server.events import Event, EventQueue
from a2a.server.tasks import TaskUpdater
from a2a.server.tasks.task_manager import append_artifact_to_task
from a2a.types import Message, Part, Task, TaskArtifactUpdateEvent, TaskState, TaskStatus, TaskStatusUpdateEvent

from hermes.base.http_server.principals import LOCAL, Principal
from hermes.base.http_server.rate_limits import Admission
from hermes.base.scope import Interrupt
from hermes.surfaces.a2a.server.access.middleware import PrincipalUser
from hermes.surfaces.a2a.server.store.contexts import ContextKey
from hermes.surfaces.a2a.server.store.tasks import TERMINAL, JournalTaskStore, StoredTask, copy_of

log = logging.getLogger("hermes.a2a")

#: Sends an event to the webhooks of a task.
Notify = Callable[[str, Task | TaskStatusUpdateEvent | TaskArtifactUpdateEvent], Awaitable[None]]

#: Bound of a subscriber's queue. One that falls further behind is disconnected, and can subscribe again.
_MAX_QUEUED_EVENTS = 2_000
#: Time for a canceled turn to stop before its caller gets the answer anyway.
_CANCEL_SECONDS = 0.9

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
    """One task while this server answers it or subscribers follow it. All methods are for the server's loop."""

    def __init__(self, stored: StoredTask, call: ServerCallContext, store: JournalTaskStore, notify: Notify) -> None:
        self.task = stored.task
        #: The server that answers it. Any other one follows what that one stores.
        self.runner = stored.runner
        #: Whether the context was made for this task: it has no other ones.
        self.has_new_context = False
        #: The session of its context, as far as it is known.
        self.session_id = ""
        #: The call with its first message; its user is the owner of the task.
        self.call = call
        self.updater = TaskUpdater(self, self.task.id, self.task.context_id)
        #: The media types that the caller accepts; empty is any.
        self.output_modes: tuple[str, ...] = ()
        self.subscribers: set[TaskSubscriber] = set()
        self._store = store
        self._notify = notify
        #: The coroutine that answers it, while this server does.
        self._job: asyncio.Task[None] | None = None
        #: This server answers it, or is about to.
        self.is_kept = False
        #: No server answers it now: its job has ended, or the server stops. No call waits for it.
        self.is_left = self._is_left_by_all
        #: The message that is being answered counts as one of its caller's.
        self._admission: Admission | None = None
        #: Calls that wait until it is idle.
        self._waiting_calls = 0
        #: Its turn is suspended until the owner has answered; the caller has nothing to do.
        self.is_parked = False
        #: Its turn was handed over.
        self.is_begun = False
        self._changed = asyncio.Event()
        self.interrupt = Interrupt()

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
    def is_asked(self) -> bool:
        """Whether the task has asked its caller, and has not gone on."""
        return self.task.status.state == TaskState.TASK_STATE_INPUT_REQUIRED

    @property
    def is_waiting(self) -> bool:
        """Whether the task waits for an answer of its caller: with the answer the prompt becomes history."""
        return self.is_asked and self.task.status.HasField("message")

    @property
    def is_running(self) -> bool:
        """Whether it is being answered, here or by another server, or waits for the owner."""
        return not self.is_ended and not self.is_waiting and not self.is_left

    @property
    def is_here(self) -> bool:
        """Whether this server answers it, or waits for an answer with it."""
        return self._job is not None

    @property
    def _is_left_by_all(self) -> bool:
        return not self.is_kept and self.runner in ("", self._store.runner_id)

    @property
    def is_changed_elsewhere(self) -> bool:
        """Whether another server may change it."""
        return not self.is_ended and (not self.is_here or self.is_asked)

    @property
    def is_unused(self) -> bool:
        """Whether this server does not answer the task, and no one follows it."""
        return not self.is_here and not self.subscribers and not self._waiting_calls

    def leave(self) -> None:
        """End the streams of all subscribers, and the calls that wait for the task: the server stops."""
        for subscriber in self.subscribers:
            subscriber.put(None)
        self.is_left = True
        self._changed.set()

    def has_subscribers(self) -> bool:
        """Whether anyone follows the task now."""
        return bool(self.subscribers)

    def snapshot(self) -> Task:
        """A copy of the task as it is now."""
        return copy_of(self.task)

    async def add_answer(self, message: Message, prompt: Message | None) -> bool:
        """Store an answer of the caller; a ``prompt`` asks again. False when another message came first."""
        if not self.is_waiting:
            return False
        before = StoredTask(self.owner, self.snapshot(), self.runner)
        self.task.history.extend((self.task.status.message, message))
        self.task.status.CopyFrom(TaskStatus(state=TaskState.TASK_STATE_INPUT_REQUIRED, message=prompt))
        self.task.status.timestamp.GetCurrentTime()
        if not await self._store.add_answer(before, self.task):
            await self.refresh()
            return False
        if prompt is not None:
            await self._report(_status_event(self.task))
        return True

    async def claim(self) -> bool:
        """Have this server answer the task. False when another one has it now."""
        self.is_kept, self.is_left = True, False  # a call that comes now waits for the answer
        is_claimed = False
        try:
            is_claimed = await self._store.claim(StoredTask(self.owner, self.task, self.runner))
        finally:
            self.is_kept = is_claimed
            self.is_left = self._is_left_by_all
        if is_claimed:
            self.runner = self._store.runner_id
        return is_claimed

    async def refresh(self) -> None:
        """Take what another server may have stored of the task."""
        newer = await self._store.find(self.id, self.owner) if self._store.is_shared else None
        if newer is not None:
            self.follow(newer)

    def follow(self, stored: StoredTask) -> None:
        """Take what another server has stored of the task, with its changes as events for the subscribers."""
        self.runner = stored.runner
        self.is_left = self._is_left_by_all
        events = list(_changes(self.task, stored.task))
        self.task.CopyFrom(stored.task)
        for event in events:
            self._publish(event)

    async def cancel_elsewhere(self) -> None:
        """End a task that another server answers, which learns of it by the row."""
        changed = self.snapshot()
        if changed.status.HasField("message"):
            changed.history.append(changed.status.message)
        changed.status.CopyFrom(TaskStatus(state=TaskState.TASK_STATE_CANCELED))
        changed.status.timestamp.GetCurrentTime()
        if await self._store.cancel(self.owner, changed):
            self.follow(StoredTask(self.owner, changed, ""))
            await self._notify(self.id, _status_event(changed))

    async def give_up(self, stored: StoredTask) -> None:
        """Another server has ended or taken the task that this one answers."""
        self.interrupt.cancel(CANCELED)
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
        if await self._store.put(self.task, self.owner):
            await self._report(event)
        else:
            await self.refresh()

    async def _report(self, event: TaskStatusUpdateEvent | TaskArtifactUpdateEvent) -> None:
        await self._notify(self.id, event)
        self._publish(event)

    def _publish(self, event: Event) -> None:
        is_idle = isinstance(event, TaskStatusUpdateEvent) and not self.is_running
        for subscriber in list(self.subscribers):
            subscriber.put(event)
            if is_idle and (self.is_ended or subscriber.until_idle):
                subscriber.put(None)
        if is_idle:
            self.release()
            self._changed.set()

    async def finish(self, state: TaskState, text: str = "", metadata: dict[str, object] | None = None) -> None:
        """Set the terminal state, unless the task has one."""
        if not self.is_ended:
            message = self.updater.new_agent_message([Part(text=text)]) if text else None
            await self.updater.update_status(state, message, metadata=metadata)

    # -- the job: answers the task to its end -------------------------------------------------------------------

    def start(self, job: Coroutine[None, None, None]) -> asyncio.Task[None]:
        """Run the coroutine that answers the task."""
        self.is_kept, self.is_left = True, False
        self._job = asyncio.create_task(job)
        # A callback, because it also runs when the job is canceled before its first step.
        self._job.add_done_callback(self._job_ended)
        return self._job

    def hold(self, admission: Admission | None) -> None:
        """Count the message that is being answered until ``release``."""
        if admission is not None:
            admission.take()
        self._admission = admission

    def release(self) -> None:
        """Count the message no longer: it is answered, or the task waits."""
        if self._admission is not None:
            self._admission.release()

    def _job_ended(self, job: asyncio.Task[None]) -> None:
        self._job, self.is_kept, self.is_left = None, False, True
        self.release()
        for subscriber in self.subscribers:
            if subscriber.until_idle:
                subscriber.put(None)
        self._changed.set()
        if not job.cancelled() and job.exception() is not None:
            log.error("task %s could not be updated", self.id, exc_info=job.exception())

    async def wait_until_idle(self) -> None:
        """Wait until the message is answered, or the task waits for its caller."""
        self._waiting_calls += 1
        try:
            while self.is_running:
                self._changed.clear()
                await self._changed.wait()
        finally:
            self._waiting_calls -= 1

    async def cancel(self) -> None:
        """Stop the turn with everything it started, and end the task."""
        self.interrupt.cancel(CANCELED)
        job = self._job
        if job is not None and self.is_begun:
            await asyncio.wait([job], timeout=_CANCEL_SECONDS)
        await self.finish(TaskState.TASK_STATE_CANCELED)
        if job is not None:
            job.cancel()

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
