"""Webhook notifications of tasks: a bounded queue for each task, off the path of its events."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import msgspec
from a2a.server.tasks import PushNotificationConfigStore, PushNotificationSender
from a2a.server.tasks.push_notification_sender import PushNotificationEvent
from a2a.types import StreamResponse, Task, TaskPushNotificationConfig, TaskState, TaskStatusUpdateEvent
from a2a.utils.proto_utils import to_stream_response
from google.protobuf.json_format import MessageToDict

from hermes.base.config.schema.sections import A2APushConfig
from hermes.surfaces.a2a.push.delivery import PushDelivery
from hermes.surfaces.a2a.server.transports.compat import old_task_document

log = logging.getLogger("hermes.a2a")

#: How long the remaining notifications may take when the server ends.
_SECONDS_TO_DRAIN = 2.0
#: Tasks whose last state is remembered; a state of a forgotten one may be sent twice.
_MOST_STATES = 10_000
_ENDED = (
    TaskState.TASK_STATE_COMPLETED,
    TaskState.TASK_STATE_FAILED,
    TaskState.TASK_STATE_CANCELED,
    TaskState.TASK_STATE_REJECTED,
)


@dataclass(slots=True)
class PushCounts:
    """Counts of notifications: one for each webhook and event."""

    sent: int = 0
    failed: int = 0
    #: Events dropped from a full queue.
    dropped: int = 0


@dataclass(frozen=True, slots=True)
class _Queued:
    """An event, and the task as it was then, for webhooks of protocol 0.3."""

    event: StreamResponse
    task: Task | None


@dataclass(slots=True)
class _TaskQueue:
    """The queued events of one task, in order."""

    waiting: deque[_Queued] = field(default_factory=deque["_Queued"])
    worker: asyncio.Task[None] | None = None


class PushQueue(PushNotificationSender):
    """A bounded queue for each task. Reporting an event never waits for a webhook."""

    def __init__(
        self,
        webhooks: PushNotificationConfigStore,
        settings: A2APushConfig,
        env: Mapping[str, str],
        *,
        first_pause: float = 0.5,
        is_old: Callable[[TaskPushNotificationConfig], bool] = lambda _webhook: False,
    ) -> None:
        """``is_old`` says whether a webhook expects the bodies of protocol 0.3: always the whole task."""
        self._is_old = is_old
        self.counts = PushCounts()
        self._webhooks = webhooks
        self._settings = settings
        self._delivery = PushDelivery(settings, env, first_pause)
        self._queues: dict[str, _TaskQueue] = {}
        self._states: OrderedDict[str, int] = OrderedDict()

    async def accepts(self, url: str) -> bool:
        """Whether a webhook may be at this URL; for the SDK's ``push_url_validator``. Each delivery checks again."""
        problem = await self._delivery.refusal(url)
        if problem:
            log.warning("a webhook is refused: %s", problem)
        return not problem

    async def send_notification(self, task_id: str, event: PushNotificationEvent, task: Task | None = None) -> None:
        """Put an event into the queue of its task. ``task`` is what it is about, unless it is the event itself."""
        if not (self._settings.every_event or self._is_news(task_id, event)):
            return
        queue = self._queues.setdefault(task_id, _TaskQueue())
        if len(queue.waiting) >= self._settings.max_queued:
            queue.waiting.popleft()  # the newest state matters most
            self.counts.dropped += 1
        # Copies: the originals may change before they are sent.
        whole = _copy(event if isinstance(event, Task) else task)
        queue.waiting.append(_Queued(to_stream_response(event), whole))
        if queue.worker is None:
            queue.worker = asyncio.create_task(self._work(task_id, queue))

    async def aclose(self) -> None:
        """Send the queued events within a moment, and stop."""
        workers = [queue.worker for queue in self._queues.values() if queue.worker is not None]
        if workers:
            _, late = await asyncio.wait(workers, timeout=_SECONDS_TO_DRAIN)
            for worker in late:
                worker.cancel()
            if late:
                await asyncio.wait(late)
        self.counts.dropped += sum(len(queue.waiting) for queue in self._queues.values())
        self._queues.clear()
        await self._delivery.aclose()

    # -- filter -------------------------------------------------------------------------------------------------

    def _is_news(self, task_id: str, event: PushNotificationEvent) -> bool:
        """Whether the task's state has changed. Pieces of the answer and status texts do not count."""
        if not isinstance(event, Task | TaskStatusUpdateEvent):
            return False
        state = event.status.state
        if self._states.get(task_id) == state:
            return False
        self._states.pop(task_id, None)
        if state not in _ENDED:
            self._states[task_id] = state
            if len(self._states) > _MOST_STATES:
                self._states.popitem(last=False)
        return True

    # -- delivery: in order within a task, tasks in parallel -----------------------------------------------------

    async def _work(self, task_id: str, queue: _TaskQueue) -> None:
        try:
            while queue.waiting:
                webhooks = await self._webhooks.get_info_for_dispatch(task_id)
                queued = queue.waiting.popleft()
                body = msgspec.json.encode(MessageToDict(queued.event))
                old = old_task_document(queued.task) if queued.task and any(map(self._is_old, webhooks)) else body
                bodies = [(webhook, old if self._is_old(webhook) else body) for webhook in webhooks]
                await asyncio.gather(*(self._deliver(webhook, chosen) for webhook, chosen in bodies))
        except Exception:
            log.exception("no more notifications for the webhooks of task %s", task_id)
            self.counts.dropped += len(queue.waiting)
            queue.waiting.clear()
        finally:
            queue.worker = None
            if not queue.waiting:
                self._queues.pop(task_id, None)

    async def _deliver(self, webhook: TaskPushNotificationConfig, body: bytes) -> None:
        problem = "the server ended"
        try:
            problem = await self._delivery.deliver(webhook, body)
        finally:
            if problem:
                self.counts.failed += 1
                # Not by its URL, which may hold a key.
                log.warning("webhook %s of task %s was not reached: %s", webhook.id, webhook.task_id, problem)
            else:
                self.counts.sent += 1


def _copy(task: Task | None) -> Task | None:
    if task is None:
        return None
    copied = Task()
    copied.CopyFrom(task)
    return copied
