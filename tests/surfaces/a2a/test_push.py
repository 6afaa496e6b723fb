"""Webhooks hear of a task in order and soon, hold up nobody, and lead nowhere they must not."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from itertools import repeat
from typing import Any

import pytest
from a2a.server.context import ServerCallContext
from a2a.server.tasks import InMemoryPushNotificationConfigStore
from a2a.types import (
    Artifact,
    AuthenticationInfo,
    Part,
    Task,
    TaskArtifactUpdateEvent,
    TaskPushNotificationConfig,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)

from hermes.base.config import A2APushConfig
from hermes.base.errors import ConfigError
from hermes.surfaces.a2a.push import PushQueue, signature
from support.waiting import HANG
from support.webhook import webhook

HERE = ["127.0.0.1"]
SUBMITTED, WORKING, COMPLETED = (
    TaskState.TASK_STATE_SUBMITTED,
    TaskState.TASK_STATE_WORKING,
    TaskState.TASK_STATE_COMPLETED,
)


def status(state: TaskState, task_id: str = "t") -> TaskStatusUpdateEvent:
    return TaskStatusUpdateEvent(task_id=task_id, context_id="c", status=TaskStatus(state=state))


def chunk() -> TaskArtifactUpdateEvent:
    artifact = Artifact(artifact_id="a", parts=[Part(text="a piece")])
    return TaskArtifactUpdateEvent(task_id="t", context_id="c", artifact=artifact)


@asynccontextmanager
async def queue(
    *urls: str, env: dict[str, str] | None = None, token: str = "", **settings: Any
) -> AsyncGenerator[PushQueue]:
    """A queue that tells these webhooks of the task ``t``."""
    store = InMemoryPushNotificationConfigStore()
    for number, url in enumerate(urls):
        login = AuthenticationInfo(scheme="Bearer", credentials="hook-login")
        config = TaskPushNotificationConfig(id=str(number), task_id="t", url=url, token=token)
        if token:
            config.authentication.CopyFrom(login)
        await store.set_info("t", config, ServerCallContext())
    settings = {"allowed_hosts": HERE, **settings}
    made = PushQueue(store, A2APushConfig(**settings), env or {}, first_pause=0.01)
    try:
        yield made
    finally:
        await made.aclose()


def resolve_names(monkeypatch: pytest.MonkeyPatch, ending: str, answers: Iterator[list[str]]) -> None:
    """Answer look-ups of names with that ending, one after the other; all others as usual."""
    look_up = socket.getaddrinfo

    def resolve(host: str | bytes, port: int, *arguments: Any, **options: Any) -> list[Any]:
        if not (host if isinstance(host, str) else host.decode()).endswith(ending):
            return list(look_up(host, port, *arguments, **options))
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in next(answers)]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)


def test_only_changes_of_state_are_sent_and_in_order() -> None:
    async def main() -> None:
        async with queue(hook.url) as push:
            await push.send_notification("t", Task(id="t", status=TaskStatus(state=SUBMITTED)))
            for event in (status(WORKING), chunk(), status(WORKING), chunk(), status(COMPLETED)):
                await push.send_notification("t", event)
        assert (push.counts.sent, push.counts.failed, push.counts.dropped) == (3, 0, 0)

    with webhook() as hook:
        asyncio.run(main())
        assert hook.states == ["submitted", "working", "completed"]


def test_notifications_are_copies_of_the_event() -> None:
    async def main() -> None:
        async with queue(hook.url) as push:
            task = Task(id="t", status=TaskStatus(state=SUBMITTED))
            await push.send_notification("t", task)
            task.status.state = COMPLETED

    with webhook() as hook:
        asyncio.run(main())
        assert hook.states == ["submitted"]


def test_every_event_is_sent_when_configured() -> None:
    async def main() -> None:
        async with queue(hook.url, every_event=True) as push:
            for event in (status(WORKING), chunk(), status(WORKING)):
                await push.send_notification("t", event)

    with webhook() as hook:
        asyncio.run(main())
        assert hook.states == ["working", "artifact", "working"]


def test_the_headers_prove_who_calls() -> None:
    before = int(time.time())

    async def main() -> None:
        async with queue(hook.url, token="note-token", env={"PUSH_SECRET": "s3cret"}, secret_env="PUSH_SECRET") as push:
            await push.send_notification("t", status(WORKING))

    with webhook() as hook:
        asyncio.run(main())
        [headers], [body] = hook.headers, hook.bodies
    assert headers["x-a2a-notification-token"] == "note-token"
    assert headers["authorization"] == "Bearer hook-login"
    assert headers["x-hermes-signature"] == signature(b"s3cret", headers["x-hermes-timestamp"], body)
    assert before <= int(headers["x-hermes-timestamp"]) <= time.time()
    assert headers["content-type"] == "application/json"


def test_a_missing_secret_is_a_config_error() -> None:
    with pytest.raises(ConfigError, match=r"a2a\.push\.secret_env: PUSH_SECRET is not set"):
        PushQueue(InMemoryPushNotificationConfigStore(), A2APushConfig(secret_env="PUSH_SECRET"), {})


def test_reporting_an_event_does_not_wait_for_a_slow_webhook() -> None:
    async def main() -> None:
        async with queue(hook.url) as push:
            for number in range(50):
                await push.send_notification("t", status(WORKING if number % 2 else SUBMITTED))
            await asyncio.to_thread(hook.wait, 1)
            # All events are reported, and the webhook has not answered the first one.
            assert (len(hook.bodies), push.counts.sent, push.counts.failed) == (1, 0, 0)
            assert hook.hold is not None
            hook.hold.set()
        assert push.counts.sent == 50

    with webhook(hold=threading.Event()) as hook:
        asyncio.run(main())


def test_a_full_queue_drops_the_oldest_events() -> None:
    async def main() -> None:
        async with queue(hook.url, max_queued=2) as push:
            for state in (SUBMITTED, WORKING, SUBMITTED, WORKING, COMPLETED):
                await push.send_notification("t", status(state))
        assert (push.counts.sent, push.counts.dropped) == (2, 3)

    with webhook() as hook:
        asyncio.run(main())
        assert hook.states == ["working", "completed"]


def test_temporary_failures_are_retried() -> None:
    async def main() -> None:
        async with queue(hook.url) as push:
            await push.send_notification("t", status(WORKING))
            await push.send_notification("t", status(COMPLETED))
        assert (push.counts.sent, push.counts.failed) == (2, 0)

    with webhook(statuses=[503, 429]) as hook:
        asyncio.run(main())
        assert hook.states == ["working", "working", "working", "completed"]


@pytest.mark.parametrize(("statuses", "calls"), [([400], 1), ([404], 1), ([500, 500, 500], 3)])
def test_permanent_failures_are_not_retried(statuses: list[int], calls: int, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with queue(hook.url + "?key=in-the-url", max_tries=3) as push:
            await push.send_notification("t", status(WORKING))
        assert (push.counts.sent, push.counts.failed) == (0, 1)

    with webhook(statuses=[*statuses]) as hook:
        asyncio.run(main())
        assert len(hook.bodies) == calls
    assert f"status {statuses[0]}" in caplog.text and "in-the-url" not in caplog.text


def test_a_webhook_that_does_not_answer_is_given_up() -> None:
    async def main() -> None:
        # Time enough to be connected to on a busy machine: both tries have to get there.
        async with queue(hook.url, timeout=1.0, max_tries=2) as push:
            await push.send_notification("t", status(WORKING))
            async with asyncio.timeout(HANG):
                while not push.counts.failed:
                    await asyncio.sleep(0.02)
        assert (push.counts.sent, push.counts.failed) == (0, 1)

    with webhook(hold=threading.Event()) as hook:
        asyncio.run(main())
        assert len(hook.bodies) == 2


def test_a_dead_webhook_does_not_affect_the_others() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        dead = f"http://127.0.0.1:{listener.getsockname()[1]}/"

    async def main() -> None:
        async with queue(dead, hook.url, max_tries=2) as push:
            await push.send_notification("t", status(COMPLETED))
        assert (push.counts.sent, push.counts.failed) == (1, 1)

    with webhook() as hook:
        asyncio.run(main())
        assert hook.states == ["completed"]


def test_redirects_are_not_followed() -> None:
    async def main() -> None:
        async with queue(hook.url) as push:
            await push.send_notification("t", status(WORKING))
        assert (push.counts.sent, push.counts.failed) == (0, 1)

    with webhook() as elsewhere, webhook(statuses=[307, 307], location=elsewhere.url) as hook:
        asyncio.run(main())
        assert len(hook.bodies) == 1 and elsewhere.bodies == []


@pytest.mark.parametrize(
    ("url", "allowed", "expected"),
    [
        ("http://127.0.0.1:9/hook", [], False),
        ("http://127.0.0.1:9/hook", HERE, True),
        ("http://[::1]:9/hook", [], False),
        ("http://0x7f.1/hook", [], False),
        ("http://10.1.2.3/hook", [], False),
        ("http://169.254.169.254/latest/meta-data", [], False),
        ("http://[::ffff:10.0.0.1]/hook", [], False),
        ("https://8.8.8.8/hook?key=1", [], True),
        ("https://8.8.8.8/hook", HERE, False),
        ("ftp://8.8.8.8/hook", [], False),
        ("file:///etc/passwd", [], False),
        ("https://user:pass@8.8.8.8/", [], False),
        ("https://8.8.8.8:port/", [], False),
        ("", [], False),
        ("http://hooks.example.org/", ["*.example.org"], True),
        ("http://example.org/", ["*.example.org"], False),
        ("http://hooks.name.invalid/", ["*.name.invalid"], True),  # it cannot be looked up at this moment
        ("http://badexample.org/", ["*.example.org"], False),
    ],
)
def test_webhook_addresses_and_the_ssrf_guard(
    url: str, allowed: list[str], expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolve_names(monkeypatch, "example.org", repeat(["8.8.8.8"]))

    async def main() -> bool:
        async with queue(allowed_hosts=allowed) as push:
            return await push.accepts(url)

    assert asyncio.run(main()) is expected


def test_dns_rebinding_of_a_webhook_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """DNS rebinding. The first look-up, when the webhook is accepted, is public; the next one is this machine."""
    resolve_names(monkeypatch, "example.org", iter([["8.8.8.8"], ["127.0.0.1"], ["8.8.8.8", "127.0.0.1"]]))

    async def main() -> None:
        url = hook.url.replace("127.0.0.1", "rebinding.example.org")
        async with queue(url, allowed_hosts=[]) as push:
            assert await push.accepts(url)
            await push.send_notification("t", status(WORKING))
            await push.send_notification("t", status(COMPLETED))
        assert (push.counts.sent, push.counts.failed) == (0, 2)

    with webhook() as hook:
        asyncio.run(main())
        assert hook.bodies == []


def test_the_checked_address_is_the_one_that_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    resolve_names(monkeypatch, "hooks.invalid", repeat(["127.0.0.1"]))

    async def main() -> None:
        url = hook.url.replace("127.0.0.1", "hooks.invalid")
        async with queue(url, allowed_hosts=["hooks.invalid"]) as push:
            await push.send_notification("t", status(WORKING))
        assert push.counts.sent == 1

    with webhook() as hook:
        asyncio.run(main())
        assert hook.headers[0]["host"].startswith("hooks.invalid:")


def test_closing_does_not_wait_for_a_webhook_that_never_answers() -> None:
    async def main() -> None:
        async with queue(hook.url, timeout=60) as push:
            await push.send_notification("t", status(WORKING))
            await push.send_notification("t", status(COMPLETED))
            await asyncio.to_thread(hook.wait, 1)
            await push.aclose()
            # The webhook still holds its answer: the close came first.
            assert hook.hold is not None and not hook.hold.is_set()
            assert (push.counts.sent, push.counts.failed, push.counts.dropped) == (0, 1, 1)

    with webhook(hold=threading.Event()) as hook:
        asyncio.run(main())
