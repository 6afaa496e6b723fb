"""A task that something happens to: takes its events, keeps it on record, tells those who watch."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine

from a2a.server.context import ServerCallContext
from a2a.server.events import Event, EventQueue
from a2a.server.tasks import TaskStore
from a2a.server.tasks.task_manager import append_artifact_to_task
from a2a.types import Message, Task, TaskArtifactUpdateEvent, TaskStatusUpdateEvent

from hermes.a2a.server.store.tasks import TERMINAL

#: Tells those who are not connected what happened to a task.
Notify = Callable[[str, Task | TaskStatusUpdateEvent | TaskArtifactUpdateEvent], Awaitable[None]]

#: Events that a watcher may be behind; one that is slower is let go, and can take up the task again.
_MOST_BEHIND = 2_000


class Watcher:
    """Somebody who is told what happens, from now on."""

    def __init__(self, *, stays: bool) -> None:
        #: Whether it goes on watching when the task waits for its caller.
        self.stays = stays
        self._events: asyncio.Queue[Event | None] = asyncio.Queue()
        self._is_let_go = False

    def tell(self, event: Event | None) -> None:
        """Say what happened; None says that there is nothing more."""
        if event is not None and self._events.qsize() >= _MOST_BEHIND:
            event = None
        if not self._is_let_go:
            self._events.put_nowait(event)
        self._is_let_go = self._is_let_go or event is None

    async def events(self) -> AsyncGenerator[Event]:
        """What happens, until there is nothing more."""
        while (event := await self._events.get()) is not None:
            yield event


class LiveTask(EventQueue):
    """One task in this process, while somebody works on it or watches it."""

    def __init__(self, task: Task, context: ServerCallContext, store: TaskStore, notify: Notify) -> None:
        self.task = task
        #: The call it is worked on for; its user owns the task.
        self.context = context
        #: The work on it, while there is some.
        self.run: asyncio.Task[None] | None = None
        self.watchers: set[Watcher] = set()
        self._at_rest = asyncio.Event()
        self._store = store
        self._notify = notify

    @property
    def is_over(self) -> bool:
        """Whether nothing can happen to it any more."""
        return self.task.status.state in TERMINAL

    @property
    def is_forgotten(self) -> bool:
        """Whether nobody has to do with it now."""
        return self.run is None and not self.watchers

    def is_watched(self) -> bool:
        """Whether somebody sees what happens while it happens."""
        return bool(self.watchers)

    def snapshot(self) -> Task:
        """The task as it is now."""
        made = Task()
        made.CopyFrom(self.task)
        return made

    async def begin(self) -> None:
        """Put the task on record for the first time."""
        await self._store.save(self.task, self.context)
        await self._notify(self.task.id, self.task)

    async def take(self, message: Message) -> None:
        """Add what its caller says."""
        if self.task.status.HasField("message"):
            self.task.history.append(self.task.status.message)
            self.task.status.ClearField("message")
        self.task.history.append(message)
        await self._store.save(self.task, self.context)

    async def enqueue_event(self, event: Event) -> None:
        """Let the event happen. What comes after the end is nobody's business any more."""
        if self.is_over:
            return
        if isinstance(event, TaskStatusUpdateEvent):
            self._change_status(event)
        elif isinstance(event, TaskArtifactUpdateEvent):
            append_artifact_to_task(self.task, event)
        else:
            raise TypeError(f"a task has no {type(event).__name__}")
        await self._store.save(self.task, self.context)
        await self._notify(self.task.id, event)
        for watcher in list(self.watchers):
            watcher.tell(event)
            if self.is_over:
                watcher.tell(None)

    def start(self, work: Coroutine[None, None, None]) -> None:
        """Have somebody work on it."""
        self._at_rest.clear()
        self.run = asyncio.create_task(work)

    async def wait_for_rest(self) -> None:
        """Wait until nobody works on it."""
        if self.run is not None:
            await self._at_rest.wait()

    def rest(self) -> None:
        """The work is over, or waits for the caller."""
        self.run = None
        self._at_rest.set()
        for watcher in self.watchers:
            if not watcher.stays:
                watcher.tell(None)

    def _change_status(self, event: TaskStatusUpdateEvent) -> None:
        if self.task.status.HasField("message"):
            self.task.history.append(self.task.status.message)
        self.task.metadata.MergeFrom(event.metadata)
        self.task.status.CopyFrom(event.status)
