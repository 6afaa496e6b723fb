"""Tells callers of their tasks by webhook, off the path of the events: a queue for each task."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec
from a2a.server.tasks import PushNotificationConfigStore, PushNotificationSender
from a2a.server.tasks.push_notification_sender import PushNotificationEvent
from a2a.types import StreamResponse, Task, TaskPushNotificationConfig, TaskState, TaskStatusUpdateEvent
from a2a.utils.proto_utils import to_stream_response
from google.protobuf.json_format import MessageToDict

from hermes.a2a.push.delivery import PushDelivery
from hermes.config.sections import A2APushConfig

log = logging.getLogger("hermes.a2a")

#: How long what is left may take when the server ends.
_SECONDS_TO_DRAIN = 2.0
#: Tasks whose last state is remembered; of a forgotten one a state may be told twice.
_MOST_STATES = 10_000
_ENDED = (
    TaskState.TASK_STATE_COMPLETED,
    TaskState.TASK_STATE_FAILED,
    TaskState.TASK_STATE_CANCELED,
    TaskState.TASK_STATE_REJECTED,
)


@dataclass(slots=True)
class PushCounts:
    """What became of the notifications: one for each webhook and event."""

    sent: int = 0
    failed: int = 0
    #: Events that never left because too many waited.
    dropped: int = 0


@dataclass(slots=True)
class _Lane:
    """What waits to be told of one task, in order."""

    waiting: deque[StreamResponse] = field(default_factory=deque[StreamResponse])
    worker: asyncio.Task[None] | None = None


class PushQueue(PushNotificationSender):
    """A queue for each task. Whoever reports an event never waits for a webhook."""

    def __init__(
        self,
        webhooks: PushNotificationConfigStore,
        settings: A2APushConfig,
        env: Mapping[str, str],
        *,
        first_pause: float = 0.5,
    ) -> None:
        self.counts = PushCounts()
        self._webhooks = webhooks
        self._settings = settings
        self._delivery = PushDelivery(settings, env, first_pause)
        self._lanes: dict[str, _Lane] = {}
        self._states: OrderedDict[str, int] = OrderedDict()

    async def accepts(self, url: str) -> bool:
        """Whether a webhook may be at this URL; for the SDK's ``push_url_validator``. It is looked at again later."""
        problem = await self._delivery.refusal(url)
        if problem:
            log.warning("a webhook is refused: %s", problem)
        return not problem

    async def send_notification(self, task_id: str, event: PushNotificationEvent) -> None:
        """Put an event into the queue of its task."""
        if not (self._settings.every_event or self._is_news(task_id, event)):
            return
        lane = self._lanes.setdefault(task_id, _Lane())
        if len(lane.waiting) >= self._settings.max_queued:
            lane.waiting.popleft()  # the newest state is the one that counts
            self.counts.dropped += 1
        lane.waiting.append(to_stream_response(event))  # a copy: whose it is may change it before it is sent
        if lane.worker is None:
            lane.worker = asyncio.create_task(self._work(task_id, lane))

    async def aclose(self) -> None:
        """Send what can be sent in a moment, and stop."""
        workers = [lane.worker for lane in self._lanes.values() if lane.worker is not None]
        if workers:
            _, late = await asyncio.wait(workers, timeout=_SECONDS_TO_DRAIN)
            for worker in late:
                worker.cancel()
            if late:
                await asyncio.wait(late)
        self.counts.dropped += sum(len(lane.waiting) for lane in self._lanes.values())
        self._lanes.clear()
        await self._delivery.aclose()

    # -- which events -------------------------------------------------------------------------------------------

    def _is_news(self, task_id: str, event: PushNotificationEvent) -> bool:
        """Whether the task's state has changed. Pieces of the answer and words about tools are no news."""
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

    # -- one task after the other, all tasks side by side -------------------------------------------------------

    async def _work(self, task_id: str, lane: _Lane) -> None:
        try:
            while lane.waiting:
                webhooks = await self._webhooks.get_info_for_dispatch(task_id)
                body = msgspec.json.encode(MessageToDict(lane.waiting.popleft()))
                await asyncio.gather(*(self._deliver(webhook, body) for webhook in webhooks))
        except Exception:
            log.exception("the webhooks of task %s are not told any more", task_id)
            self.counts.dropped += len(lane.waiting)
            lane.waiting.clear()
        finally:
            lane.worker = None
            if not lane.waiting:
                self._lanes.pop(task_id, None)

    async def _deliver(self, webhook: TaskPushNotificationConfig, body: bytes) -> None:
        problem = "the server ended"
        try:
            problem = await self._delivery.deliver(webhook, body)
        finally:
            if problem:
                self.counts.failed += 1
                # Not by its URL, which may hold a key.
                log.warning("webhook %s of task %s was not told: %s", webhook.id, webhook.task_id, problem)
            else:
                self.counts.sent += 1
