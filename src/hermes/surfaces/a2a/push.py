"""Webhooks: notifications about tasks for their callers.

Each task has a bounded queue, off the path of its events. Notifications are signed, sent behind the SSRF guard, and
retried with exponential backoff.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

import msgspec
from a2a.server.tasks import PushNotificationConfigStore, PushNotificationSender
from a2a.server.tasks.push_notification_sender import PushNotificationEvent
from a2a.types import StreamResponse, Task, TaskPushNotificationConfig, TaskStatusUpdateEvent
from a2a.utils.proto_utils import to_stream_response
from google.protobuf.json_format import MessageToDict

from hermes.base.config.schema.sections import A2APushConfig
from hermes.base.errors import ConfigError, HermesError
from hermes.base.http.address import Address
from hermes.base.http.client import HttpClient
from hermes.base.http.errors import AddressRefused, HttpError, InvalidUrl
from hermes.base.http.exchange import Timeouts
from hermes.base.http.threads import run_in_thread
from hermes.base.scope import Interrupt
from hermes.base.version import __version__
from hermes.surfaces.a2a.server.store.tasks import TERMINAL, copy_of
from hermes.surfaces.a2a.server.transports.compat import old_task_document
from hermes.tools.peers.addresses import base_of

log = logging.getLogger("hermes.a2a")

TOKEN_HEADER = "X-A2A-Notification-Token"
SIGNATURE_HEADER, TIMESTAMP_HEADER = "X-Hermes-Signature", "X-Hermes-Timestamp"

#: How long the remaining notifications may take when the server ends.
_SECONDS_TO_DRAIN = 2.0
#: Tasks whose last state is remembered; a state of a forgotten one may be sent twice.
_MOST_STATES = 10_000
_LONGEST_PAUSE = 30.0
_RETRIED_STATUSES = (408, 425, 429)
#: The answer of a webhook is read only to keep the connection, and only if it ends soon.
_MAX_ANSWER = 64 * 1024
_TAIL_SECONDS = 0.25

#: An event, and the task as it was then, for webhooks of protocol 0.3.
_Queued = tuple[StreamResponse, Task | None]


@dataclass(slots=True)
class PushCounts:
    """Counts of notifications: one for each webhook and event."""

    sent: int = 0
    failed: int = 0
    #: Events dropped from a full queue.
    dropped: int = 0


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
        #: The events of each task that has some, in order, and the workers that send them.
        self._queues: dict[str, deque[_Queued]] = {}
        self._workers: set[asyncio.Task[None]] = set()
        self._states: OrderedDict[str, int] = OrderedDict()

    async def accepts(self, url: str) -> bool:
        """Whether a webhook may be at this URL. Each delivery checks again."""
        problem = await self._delivery.refusal(url)
        if problem:
            log.warning("a webhook is refused: %s", problem)
        return not problem

    async def send_notification(self, task_id: str, event: PushNotificationEvent, task: Task | None = None) -> None:
        """Put an event into the queue of its task. ``task`` is what it is about, unless it is the event itself."""
        if not (self._settings.every_event or self._is_news(task_id, event)):
            return
        queue = self._queues.get(task_id)
        if queue is None:
            queue = self._queues[task_id] = deque()
            worker = asyncio.create_task(self._work(task_id, queue))
            self._workers.add(worker)
            worker.add_done_callback(self._workers.discard)
        if len(queue) >= self._settings.max_queued:
            queue.popleft()  # the newest state matters most
            self.counts.dropped += 1
        # Copies: the originals may change before they are sent.
        whole = event if isinstance(event, Task) else task
        queue.append((to_stream_response(event), None if whole is None else copy_of(whole)))

    async def aclose(self) -> None:
        """Send the queued events within a moment, and stop."""
        if self._workers:
            _, late = await asyncio.wait(self._workers, timeout=_SECONDS_TO_DRAIN)
            for worker in late:
                worker.cancel()
            if late:
                await asyncio.wait(late)
        self.counts.dropped += sum(map(len, self._queues.values()))
        self._queues.clear()
        await self._delivery.aclose()

    def _is_news(self, task_id: str, event: PushNotificationEvent) -> bool:
        """Whether the task's state has changed. Pieces of the answer and status texts do not count."""
        if not isinstance(event, Task | TaskStatusUpdateEvent):
            return False
        state = event.status.state
        if self._states.get(task_id) == state:
            return False
        self._states.pop(task_id, None)
        if state not in TERMINAL:
            self._states[task_id] = state
            if len(self._states) > _MOST_STATES:
                self._states.popitem(last=False)
        return True

    async def _work(self, task_id: str, queue: deque[_Queued]) -> None:
        """Deliver the events of a task in order; tasks are worked at in parallel."""
        try:
            while queue:
                webhooks = await self._webhooks.get_info_for_dispatch(task_id)
                event, task = queue.popleft()
                body = msgspec.json.encode(MessageToDict(event))
                old = old_task_document(task) if task and any(map(self._is_old, webhooks)) else body
                bodies = [(webhook, old if self._is_old(webhook) else body) for webhook in webhooks]
                await asyncio.gather(*(self._deliver(webhook, chosen) for webhook, chosen in bodies))
        except Exception:
            log.exception("no more notifications for the webhooks of task %s", task_id)
            self.counts.dropped += len(queue)
            queue.clear()
        if not queue:
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


class PushDelivery:
    """Sends one notification to one webhook."""

    def __init__(self, settings: A2APushConfig, env: Mapping[str, str], first_pause: float) -> None:
        self._settings = settings
        self._secret = _secret(settings, env)
        self._first_pause = first_pause
        self._timeouts = Timeouts.within(settings.timeout)
        self._http = HttpClient()

    async def refusal(self, url: str) -> str:
        """Why no webhook may be at this URL; empty when one may. A host that the settings name is not looked up yet."""

        def check(interrupt: Interrupt) -> None:
            base_of(url.partition("?")[0])
            if not self._is_named(urlsplit(url).hostname or ""):
                self._http.check(url, self._guard, timeouts=self._timeouts, interrupt=interrupt)

        try:
            await run_in_thread(check)
        except HermesError as error:
            return str(error) or type(error).__name__
        return ""

    async def aclose(self) -> None:
        """Close the idle connections."""
        self._http.close()

    async def deliver(self, webhook: TaskPushNotificationConfig, body: bytes) -> str:
        """Send, and retry with exponential backoff while that may help. Returns the last problem, empty for none."""
        pause = self._first_pause
        for _ in range(self._settings.max_tries - 1):
            problem, may_pass = await self._post(webhook, body)
            if not problem or not may_pass:
                return problem
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)
        return (await self._post(webhook, body))[0]

    async def _post(self, webhook: TaskPushNotificationConfig, body: bytes) -> tuple[str, bool]:
        """One attempt: the problem, empty for none, and whether a retry may help."""
        headers = self._headers(webhook, body)

        def post(interrupt: Interrupt) -> int:
            with self._http.open(
                "POST", webhook.url, headers, body, timeouts=self._timeouts, interrupt=interrupt, guard=self._guard
            ) as response:
                response.expect_end(_TAIL_SECONDS)
                response.read_prefix(_MAX_ANSWER)
                return response.status

        try:
            status = await run_in_thread(post)
        except (AddressRefused, InvalidUrl, ConfigError) as error:
            return str(error), False
        except HttpError as error:
            return type(error).__name__, True
        if 200 <= status < 300:
            return "", False
        return f"it answered with status {status}", status >= 500 or status in _RETRIED_STATUSES

    def _headers(self, webhook: TaskPushNotificationConfig, body: bytes) -> list[tuple[str, str]]:
        headers = [("User-Agent", f"hermes/{__version__}"), ("Content-Type", "application/json")]
        if webhook.token:
            headers.append((TOKEN_HEADER, webhook.token))
        login = webhook.authentication
        if login.scheme and login.credentials:
            headers.append(("Authorization", f"{login.scheme} {login.credentials}"))
        if self._secret:
            at = str(int(time.time()))
            headers += [(TIMESTAMP_HEADER, at), (SIGNATURE_HEADER, signature(self._secret, at, body))]
        return headers

    def _is_named(self, host: str) -> bool:
        return any(_matches(host.lower(), name.strip().lower()) for name in self._settings.allowed_hosts)

    def _guard(self, server: Address, is_public: bool) -> str:
        host = server.host.lower()
        if self._is_named(host):
            return ""
        if self._settings.allowed_hosts:
            return f"{host} is not among a2a.push.allowed_hosts"
        if is_public:
            return ""
        return f"{host} is in a private network; a2a.push.allowed_hosts must name it if it may be called"


def signature(secret: bytes, timestamp: str, body: bytes) -> str:
    """Proof of origin and time of a notification: HMAC-SHA-256 over ``timestamp.body``."""
    digest = hmac.new(secret, timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()
    return f"sha256={digest}"


def _matches(host: str, pattern: str) -> bool:
    return host == pattern or (pattern.startswith("*.") and host.endswith(pattern[1:]))


def _secret(settings: A2APushConfig, env: Mapping[str, str]) -> bytes:
    if not settings.secret_env:
        return b""
    secret = env.get(settings.secret_env, "")
    if not secret:
        raise ConfigError(f"a2a.push.secret_env: {settings.secret_env} is not set; put the secret in .env")
    return secret.encode()
