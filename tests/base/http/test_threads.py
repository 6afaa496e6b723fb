"""Requests from an event loop, on worker threads: many at once, cancelled tasks, several loops."""

from __future__ import annotations

import asyncio
import itertools
import socket
import ssl
import threading
from collections.abc import Coroutine, Generator
from contextvars import ContextVar
from typing import Any

import pytest

from hermes.base.errors import Interrupted
from hermes.base.http.threads import run_in_thread
from hermes.base.scope import Interrupt
from hermes.models.driver import Driver
from hermes.models.endpoint import Endpoint, Timeouts
from hermes.models.reply import InterruptedReply, normalise
from hermes.models.wires.chat.wire import ChatCompletions
from hermes.models.wires.wire import Delta, ModelRequest
from hermes.testing import RecordedRequest, ScriptedProvider, ScriptedReply, hanging, text
from support.waiting import finish

WIRE = ChatCompletions()
PATIENCE = Timeouts(10, 20, 20, 30)


@pytest.fixture
def driver() -> Generator[Driver]:
    driver = Driver()
    yield driver
    driver.close()


async def ask(driver: Driver, base_url: str, question: str = "hello", **options: Any) -> str:
    endpoint = Endpoint(base_url, "scripted", "demo", timeouts=PATIENCE, ca_bundle=options.pop("ca_bundle", ""))
    kwargs = WIRE.kwargs(endpoint, ModelRequest([{"role": "user", "content": question}]))
    parent = options.pop("interrupt", None)
    answer = await run_in_thread(lambda own: driver.send(endpoint, WIRE, kwargs, interrupt=own, **options), parent)
    return normalise(answer).content


def run(work: Coroutine[Any, Any, Any]) -> Any:
    """Run in a loop that complains about everything."""
    return asyncio.run(work, debug=True)


def echo(request: RecordedRequest) -> ScriptedReply:
    return text(request.last_user_text, chunk_delay=0.001)


def test_two_hundred_calls_at_once(driver: Driver) -> None:
    delays = itertools.chain(itertools.repeat(2.0, 200), itertools.repeat(0.0))

    def together(request: RecordedRequest) -> ScriptedReply:
        return text(request.last_user_text, delay=next(delays))  # at first, so that all of them are open together

    async def crowd(base_url: str) -> list[str]:
        return await asyncio.gather(*(ask(driver, base_url, f"question {number}") for number in range(200)))

    with ScriptedProvider(together) as provider:
        assert asyncio.run(crowd(provider.base_url)) == [f"question {number}" for number in range(200)]
        assert provider.connections == 200
        assert asyncio.run(crowd(provider.base_url)) == [f"question {number}" for number in range(200)]
        assert provider.connections == 200


def test_calls_over_tls_at_once(driver: Driver, server_tls: ssl.SSLContext, certificate: str) -> None:
    async def crowd(base_url: str) -> list[str]:
        asked = (ask(driver, base_url, f"{number} a b c", ca_bundle=certificate) for number in range(20))
        return await asyncio.gather(*asked)

    with ScriptedProvider(echo, tls=server_tls) as provider:
        for _ in range(2):
            assert run(crowd(provider.base_url)) == [f"{number} a b c" for number in range(20)]
        assert provider.connections <= 20  # fewer when an answer comes before the last call


def test_loops_in_several_threads_share_the_connections(driver: Driver) -> None:
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


def test_a_server_that_never_pauses_leaves_the_loop_to_others(driver: Driver) -> None:
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


def test_a_cancelled_task_ends_its_request_and_no_other(driver: Driver) -> None:
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


def test_a_timeout_around_the_call(driver: Driver) -> None:
    async def scene(provider: ScriptedProvider) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await ask(driver, provider.base_url)
        task = asyncio.current_task()
        assert task is not None and task.cancelling() == 0

    with ScriptedProvider(hanging()) as provider:
        run(scene(provider))


def test_the_end_of_the_loop_ends_its_requests(driver: Driver) -> None:
    async def leave(provider: ScriptedProvider) -> None:
        left_behind = asyncio.create_task(ask(driver, provider.base_url))
        await asyncio.to_thread(provider.wait_for_request)
        assert not left_behind.done()

    with ScriptedProvider(hanging()) as provider:
        run(leave(provider))


def test_an_interrupt_of_another_thread(driver: Driver) -> None:
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
    """Both at once: the task that was cancelled ends as cancelled."""

    async def scene() -> None:
        interrupt, started = Interrupt(), threading.Event()

        def work(own: Interrupt) -> None:
            started.set()
            own.wait(60)
            own.check()

        waiting = asyncio.create_task(run_in_thread(work, interrupt))
        await asyncio.to_thread(started.wait)
        waiting.cancel()
        interrupt.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    run(scene())


def test_the_result_the_error_and_the_context_of_the_work() -> None:
    number: ContextVar[int] = ContextVar("number", default=0)

    def fail(_own: Interrupt) -> None:
        raise ValueError("no")

    async def scene() -> None:
        number.set(7)
        assert await run_in_thread(lambda _own: number.get()) == 7
        with pytest.raises(ValueError, match="no"):
            await run_in_thread(fail)
        cancelled = Interrupt()
        cancelled.cancel("before")
        with pytest.raises(Interrupted, match="before"):
            await run_in_thread(lambda own: own.check(), cancelled)

    run(scene())


def test_a_slow_look_up_of_a_name_holds_nobody_up(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, answer = threading.Event(), threading.Event()

    def slow_resolver(*_: object, **__: object) -> list[Any]:
        asked.set()
        answer.wait(600)
        return []

    async def scene() -> None:
        waiting = asyncio.create_task(ask(driver, "http://slow.invalid/v1"))
        while not asked.is_set():
            await asyncio.sleep(0.01)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    monkeypatch.setattr(socket, "getaddrinfo", slow_resolver)
    finish(lambda: run(scene()))
    answer.set()
