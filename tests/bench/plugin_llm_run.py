"""Asks a model as a plugin does and with the bare client, by turns: the program behind the rows of ``plugin_llm``."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import msgspec

from hermes.base.config import hermes_home, load_config
from hermes.base.log import setup_logging
from hermes.host import Host
from hermes.plugins.llm.access import PluginLlm

from .server import Plan, answer_text, raise_file_limit


class Figures(msgspec.Struct):
    """CPU seconds for one call, best of all rounds, by who made it."""

    ours: float = float("inf")
    bare: float = float("inf")
    ours_async: float = float("inf")
    bare_async: float = float("inf")
    #: Threads that were there only while calls were made at once.
    threads: int = 0


def compare(rounds: int, calls: int, at_once: int) -> Figures:
    """Ask the same with all four, round after round."""
    home = hermes_home()
    setup_logging(home)  # a call writes a line, which is part of its cost
    config = load_config(home).config
    figures = Figures()
    url = f"{config.model.base_url}/chat/completions"
    headers = {"authorization": f"Bearer {config.model.api_key}", "content-type": "application/json"}
    messages, crowd = ([{"role": "user", "content": Plan(hold=hold).query()}] for hold in (1, at_once))
    with Host(home, config, cwd=Path.cwd()) as host, httpx2.Client() as client:
        llm = PluginLlm("bench", host.services.llm)

        def ours() -> None:
            for _ in range(calls):
                check(llm.complete(messages, purpose="bench").text)

        def bare() -> None:
            for _ in range(calls):
                client.post(url, content=_body(messages), headers=headers).raise_for_status()

        for _ in range(rounds):
            figures.ours = min(figures.ours, _cost(ours) / calls)
            figures.bare = min(figures.bare, _cost(bare) / calls)
            asyncio.run(_at_once(llm, crowd, url, headers, at_once, figures))
    return figures


async def _at_once(
    llm: PluginLlm, messages: Any, url: str, headers: dict[str, str], at_once: int, figures: Figures
) -> None:
    async def ask() -> None:
        check((await llm.acomplete(messages, purpose="bench")).text)
        figures.threads = max(figures.threads, threading.active_count() - before)

    before = threading.active_count()
    started = time.process_time()
    await asyncio.gather(*(ask() for _ in range(at_once)))
    figures.ours_async = min(figures.ours_async, (time.process_time() - started) / at_once)
    limits = httpx2.Limits(max_connections=at_once, max_keepalive_connections=at_once)
    async with httpx2.AsyncClient(limits=limits, timeout=60) as client:

        async def post() -> None:
            (await client.post(url, content=_body(messages), headers=headers)).raise_for_status()

        started = time.process_time()
        await asyncio.gather(*(post() for _ in range(at_once)))
        figures.bare_async = min(figures.bare_async, (time.process_time() - started) / at_once)


def check(text: str) -> None:
    """A call that was not answered has no cost."""
    if text != answer_text("nothing"):
        raise RuntimeError(f"the answer was {text!r}")


def _body(messages: Any) -> bytes:
    request = {"model": "bench", "messages": messages, "stream": True, "stream_options": {"include_usage": True}}
    return msgspec.json.encode(request)


def _cost(work: Callable[[], None]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def main() -> None:
    """``ROUNDS CALLS AT_ONCE``; the figures go to stdout as JSON."""
    raise_file_limit()
    sys.stdout.write(msgspec.json.encode(compare(*map(int, sys.argv[1:]))).decode() + "\n")


if __name__ == "__main__":
    main()
