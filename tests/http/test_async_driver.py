"""What only an event loop can do: many calls at once, cancelled tasks, several loops."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
import time
from collections.abc import Coroutine, Generator
from typing import Any

import pytest

from hermes.errors import Interrupted, ProviderError
from hermes.models.endpoint import Endpoint, Timeouts
from hermes.models.http.async_driver import AsyncDriver, Interruptible, pursue_async
from hermes.models.reply import InterruptedReply, normalise
from hermes.models.retry import Failure, Send, attempts
from hermes.models.wires.chat.wire import ChatCompletions
from hermes.models.wires.wire import Delta, ModelRequest
from hermes.scope import Interrupt
from hermes.testing import RecordedRequest, ScriptedProvider, ScriptedReply, failure, hanging, text

WIRE = ChatCompletions()
PATIENCE = Timeouts(10, 20, 20, 30)


@pytest.fixture
def driver() -> Generator[AsyncDriver]:
    driver = AsyncDriver()
    yield driver
    driver.close()


async def ask(driver: AsyncDriver, base_url: str, question: str = "hello", **options: Any) -> str:
    endpoint = Endpoint(base_url, "scripted", "demo", timeouts=PATIENCE, ca_bundle=options.pop("ca_bundle", ""))
    kwargs = WIRE.kwargs(endpoint, ModelRequest([{"role": "user", "content": question}]))
    return normalise(await driver.send(endpoint, WIRE, kwargs, **options)).content


def run(work: Coroutine[Any, Any, Any]) -> Any:
    """Run in a loop that complains about everything."""
    return asyncio.run(work, debug=True)


def echo(request: RecordedRequest) -> ScriptedReply:
    return text(request.last_user_text, chunk_delay=0.001)


def test_two_hundred_calls_at_once_take_no_thread_each(driver: AsyncDriver) -> None:
    def together(request: RecordedRequest) -> ScriptedReply:
        return text(request.last_user_text, delay=0.5)  # so that all of them are really under way

    async def crowd(base_url: str) -> list[str]:
        return await asyncio.gather(*(ask(driver, base_url, f"question {number}") for number in range(200)))

    with ScriptedProvider(together) as provider:
        before = threading.active_count()
        assert asyncio.run(crowd(provider.base_url)) == [f"question {number}" for number in range(200)]
        assert threading.active_count() == before
        assert provider.connections == 200
        assert asyncio.run(crowd(provider.base_url)) == [f"question {number}" for number in range(200)]
        assert provider.connections == 200


def test_calls_over_tls_at_once(driver: AsyncDriver, server_tls: ssl.SSLContext, certificate: str) -> None:
    async def crowd(base_url: str) -> list[str]:
        asked = (ask(driver, base_url, f"{number} a b c", ca_bundle=certificate) for number in range(20))
        return await asyncio.gather(*asked)

    with ScriptedProvider(echo, tls=server_tls) as provider:
        for _ in range(2):
            assert run(crowd(provider.base_url)) == [f"{number} a b c" for number in range(20)]
        assert provider.connections == 20


def test_loops_in_several_threads_share_the_connections(driver: AsyncDriver) -> None:
    answers: list[str] = []

    async def chat(base_url: str, number: int) -> None:
        for step in range(3):
            answer = await ask(driver, base_url, f"{number} {step}")
            answers.append(answer)

    with ScriptedProvider(echo) as provider:
        threads = [threading.Thread(target=run, args=(chat(provider.base_url, number),)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert provider.connections <= 8
    assert sorted(answers) == sorted(f"{number} {step}" for number in range(8) for step in range(3))


def test_a_server_that_never_pauses_leaves_the_loop_to_others(driver: AsyncDriver) -> None:
    long = "word " * 20_000

    async def both(base_url: str) -> int:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                await asyncio.sleep(0)
                ticks += 1

        ticking = asyncio.create_task(tick())
        assert await ask(driver, base_url, "long") == long
        ticking.cancel()
        return ticks

    with ScriptedProvider(text(long, chunks=2000)) as provider:
        assert asyncio.run(both(provider.base_url)) > 10


# -- cancelling -----------------------------------------------------------------------------------------------------


def test_a_cancelled_task_ends_its_request_and_no_other(driver: AsyncDriver) -> None:
    async def scene(provider: ScriptedProvider) -> None:
        waiting = asyncio.create_task(ask(driver, provider.base_url))
        await asyncio.to_thread(provider.wait_for_request)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert await ask(driver, provider.base_url) == "next"

    with ScriptedProvider([hanging(), text("next")]) as provider:
        run(scene(provider))
        assert provider.connections == 2


def test_a_timeout_around_the_call(driver: AsyncDriver) -> None:
    async def scene(provider: ScriptedProvider) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await ask(driver, provider.base_url)
        task = asyncio.current_task()
        assert task is not None and task.cancelling() == 0

    with ScriptedProvider(hanging()) as provider:
        run(scene(provider))


def test_the_end_of_the_loop_ends_its_requests(driver: AsyncDriver) -> None:
    async def leave(provider: ScriptedProvider) -> None:
        left_behind = asyncio.create_task(ask(driver, provider.base_url))
        await asyncio.to_thread(provider.wait_for_request)
        assert not left_behind.done()

    with ScriptedProvider(hanging()) as provider:
        run(leave(provider))


def test_an_interrupt_of_another_thread(driver: AsyncDriver) -> None:
    interrupt = Interrupt()

    async def scene(provider: ScriptedProvider) -> None:
        arrived = asyncio.Event()

        def note(_delta: Delta) -> None:
            arrived.set()
            threading.Thread(target=interrupt.cancel, args=("enough",)).start()

        with pytest.raises(InterruptedReply, match="enough") as caught:
            await ask(driver, provider.base_url, interrupt=interrupt, on_delta=note)
        assert arrived.is_set()
        assert caught.value.partial.content.startswith("one")
        await asyncio.sleep(0)  # nothing of the cancellation is left over
        assert await ask(driver, provider.base_url) == "next"

    with ScriptedProvider([text("one two three", hang_after=500), text("next")]) as provider:
        run(scene(provider))


def test_a_cancelled_task_is_not_taken_for_an_interrupt() -> None:
    async def scene() -> None:
        interrupt = Interrupt()
        task = asyncio.current_task()
        assert task is not None
        with pytest.raises(asyncio.CancelledError), Interruptible(interrupt):
            interrupt.cancel()
            task.cancel()
            await asyncio.sleep(10)
        task.uncancel()

    run(scene())


def test_a_slow_look_up_of_a_name_holds_nobody_up(driver: AsyncDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, answer = threading.Event(), threading.Event()

    def slow_resolver(*_: object, **__: object) -> list[Any]:
        asked.set()
        answer.wait(20)
        return []

    async def scene() -> None:
        waiting = asyncio.create_task(ask(driver, "http://slow.invalid/v1"))
        while not asked.is_set():
            await asyncio.sleep(0.01)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    monkeypatch.setattr(socket, "getaddrinfo", slow_resolver)
    started = time.monotonic()
    run(scene())
    assert time.monotonic() - started < 5
    answer.set()


# -- the policy -----------------------------------------------------------------------------------------------------


async def pursue(driver: AsyncDriver, base_urls: list[str], retries: int, interrupt: Interrupt | None = None) -> str:
    endpoints = [Endpoint(url, "scripted", f"number {at}", timeouts=PATIENCE) for at, url in enumerate(base_urls)]

    async def attempt(send: Send) -> str | Failure:
        kwargs = WIRE.kwargs(send.endpoint, ModelRequest([{"role": "user", "content": "hello"}]))
        try:
            return normalise(await driver.send(send.endpoint, WIRE, kwargs, interrupt=interrupt)).content
        except ProviderError as error:
            return Failure(error)

    return await pursue_async(attempts(endpoints, retries, jitter=lambda: 0.0), interrupt, attempt)


def test_attempts_until_one_succeeds(driver: AsyncDriver) -> None:
    soon = {"retry-after": "0"}
    with (
        ScriptedProvider([failure(503, headers=soon), failure(503, headers=soon)]) as first,
        ScriptedProvider([failure(503, headers=soon), text("at last")]) as second,
    ):
        assert run(pursue(driver, [first.base_url, second.base_url], retries=1)) == "at last"
        assert (len(first.requests), len(second.requests)) == (2, 2)


def test_the_last_failure_is_raised(driver: AsyncDriver) -> None:
    with ScriptedProvider(failure(401)) as provider, pytest.raises(ProviderError) as caught:
        run(pursue(driver, [provider.base_url], retries=3))
    assert caught.value.reason == "auth"
    assert len(provider.requests) == 1


def test_a_wait_between_attempts_can_be_interrupted(driver: AsyncDriver) -> None:
    interrupt = Interrupt()
    with ScriptedProvider(failure(503, headers={"retry-after": "60"})) as provider:
        timer = threading.Timer(0.2, interrupt.cancel)
        timer.start()
        with pytest.raises(Interrupted):
            run(pursue(driver, [provider.base_url], retries=3, interrupt=interrupt))
        timer.join()
        assert len(provider.requests) == 1
