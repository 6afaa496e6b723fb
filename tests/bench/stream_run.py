"""Reads streams with the drivers and with the bare client, by turns, and prints what each took: the program behind
the rows of ``streams``."""

from __future__ import annotations

import asyncio
import resource
import sys
import time
from collections.abc import Callable

import httpx2
import msgspec

from hermes.base.http.threads import run_in_thread
from hermes.base.scope import Interrupt
from hermes.models.driver import Driver
from hermes.models.endpoint import Endpoint
from hermes.models.reply import Completion, normalise
from hermes.models.wires.chat.wire import ChatCompletions
from hermes.models.wires.wire import ModelRequest

from .server import Plan, answer_text, raise_file_limit

_WIRE = ChatCompletions()


class Figures(msgspec.Struct):
    """CPU seconds for one stream, best of all rounds, by who read it."""

    ours: float = float("inf")
    bare: float = float("inf")
    ours_async: float = float("inf")
    bare_async: float = float("inf")


class Gathering(msgspec.Struct):
    """What streams cost that were all open at the same time."""

    cpu_per_stream: float
    errors: list[str]


def compare(address: str, rounds: int) -> Figures:
    """Read the same stream with all four, round after round."""
    url = f"{address}/v1/chat/completions"
    endpoint = Endpoint(f"{address}/v1", "bench", api_key="bench")
    kwargs = _WIRE.kwargs(endpoint, ModelRequest([{"role": "user", "content": "go"}]))
    body = msgspec.json.encode(kwargs)
    headers = {"authorization": "Bearer bench", "content-type": "application/json"}
    figures = Figures()
    driver, interrupt = Driver(), Interrupt()
    pieces = 0

    def count(_delta: object) -> None:
        nonlocal pieces
        pieces += 1

    def ours() -> None:
        driver.send(endpoint, _WIRE, kwargs, interrupt=interrupt, on_delta=count)

    with httpx2.Client(verify=False) as client:

        def bare() -> None:
            with client.stream("POST", url, content=body, headers=headers) as response:
                for _ in response.iter_raw():
                    pass

        for _ in range(rounds):
            figures.ours = min(figures.ours, _cost(ours))
            figures.bare = min(figures.bare, _cost(bare))
    driver.close()
    asyncio.run(_compare_async(url, endpoint, kwargs, body, headers, rounds, figures))
    return figures


async def _compare_async(
    url: str,
    endpoint: Endpoint,
    kwargs: dict[str, object],
    body: bytes,
    headers: dict[str, str],
    rounds: int,
    figures: Figures,
) -> None:
    driver = Driver()
    async with httpx2.AsyncClient(verify=False) as client:
        for _ in range(rounds):
            started = time.process_time()
            await _send(driver, endpoint, kwargs)
            figures.ours_async = min(figures.ours_async, time.process_time() - started)
            started = time.process_time()
            async with client.stream("POST", url, content=body, headers=headers) as response:
                async for _ in response.aiter_raw():
                    pass
            figures.bare_async = min(figures.bare_async, time.process_time() - started)
    driver.close()


async def _send(driver: Driver, endpoint: Endpoint, kwargs: dict[str, object]) -> Completion:
    """A request from an event loop, on a worker thread."""
    return await run_in_thread(
        lambda own: driver.send(endpoint, _WIRE, kwargs, interrupt=own, on_delta=lambda _delta: None)
    )


def gather(base_url: str, at_once: int, streams: int) -> Gathering:
    """So many streams on one event loop, all of them open before the first is answered."""
    driver = Driver()
    endpoint = Endpoint(base_url, "bench", api_key="bench")
    kwargs = _WIRE.kwargs(endpoint, ModelRequest([{"role": "user", "content": Plan(hold=at_once).query()}]))
    errors: list[str] = []

    async def one() -> None:
        try:
            answer = normalise(await _send(driver, endpoint, kwargs)).content
        except Exception as error:
            errors.append(f"{type(error).__name__}: {error}")
        else:
            if answer != answer_text("nothing"):
                errors.append(f"the answer was {answer!r}")

    async def all_of_them() -> None:
        for _ in range(0, streams, at_once):
            await asyncio.gather(*(one() for _ in range(at_once)))

    before = _cpu()
    asyncio.run(all_of_them())
    cost = (_cpu() - before) / streams
    driver.close()
    return Gathering(cost, errors)


def _cost(work: Callable[[], None]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def _cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    """``compare ADDRESS ROUNDS`` or ``gather BASE_URL AT_ONCE STREAMS``; the figures go to stdout as JSON."""
    raise_file_limit()
    what, address, *numbers = sys.argv[1:]
    run = compare if what == "compare" else gather
    sys.stdout.write(msgspec.json.encode(run(address, *map(int, numbers))).decode() + "\n")


if __name__ == "__main__":
    main()
