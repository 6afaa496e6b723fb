"""Asking models from event loops and threads: many at once, each on a worker thread, and ended with the turn."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from hermes.base.errors import Interrupted
from hermes.base.scope import Interrupt, Scope
from hermes.testing import ScriptedProvider, failure, hanging, text
from support.configured import write_plugin
from support.llm_rig import PING, llm_host, recorded, working_in
from support.waiting import HANG, wait_until

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def test_the_async_methods_answer_like_the_others(home: Path, workdir: Path) -> None:
    options: Any = {"instructions": "Count.", "input": [{"type": "text", "text": "7"}], "json_schema": SCHEMA}
    with ScriptedProvider('{"n": 7}') as provider, llm_host(home, workdir, provider) as (host, llm):

        async def ask() -> list[Any]:
            return [await llm.acomplete(PING, purpose="a"), await llm.acomplete_structured(**options, purpose="b")]

        answers = asyncio.run(ask())
        assert answers == [llm.complete(PING, purpose="a"), llm.complete_structured(**options, purpose="b")]
        assert [row["purpose"] for row in recorded(host)] == ["a", "b", "a", "b"]
    bodies = [request.body for request in provider.requests]
    assert bodies[:2] == bodies[2:]


def test_fifty_calls_run_at_once(home: Path, workdir: Path) -> None:
    answer = threading.Event()
    with ScriptedProvider(text("pong", hold=answer)) as provider, llm_host(home, workdir, provider) as (host, llm):

        def answer_all() -> None:
            try:
                provider.wait_for_request(50, HANG)  # all of them arrive before any is answered
            finally:
                answer.set()

        async def ask() -> None:
            await asyncio.gather(*(llm.acomplete(PING) for _ in range(50)))

        answering = threading.Thread(target=answer_all)
        answering.start()
        asyncio.run(ask())
        answering.join()
        assert len(recorded(host)) == 50


def test_a_wait_between_two_attempts_ends_with_the_task(home: Path, workdir: Path) -> None:
    with (
        ScriptedProvider(failure(503, headers={"retry-after": "20"})) as provider,
        llm_host(home, workdir, provider) as (_, llm),
    ):

        async def ask() -> None:
            waiting = asyncio.create_task(llm.acomplete(PING))
            await asyncio.to_thread(provider.wait_for_request)
            await asyncio.sleep(0.2)  # the failure arrives, and the backoff begins
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting

        asyncio.run(ask())
        workers = [thread for thread in threading.enumerate() if thread.name == "hermes-http"]
        for worker in workers:
            worker.join(60)
        assert not any(worker.is_alive() for worker in workers)
        assert len(provider.requests) == 1


def test_several_loops_may_ask_one_after_the_other_and_at_once(home: Path, workdir: Path) -> None:
    with ScriptedProvider("pong") as provider, llm_host(home, workdir, provider) as (_, llm):
        answers: list[str] = []

        async def ask() -> None:
            answers.extend(one.text for one in await asyncio.gather(llm.acomplete(PING), llm.acomplete(PING)))

        threads = [threading.Thread(target=lambda: asyncio.run(ask())) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        asyncio.run(ask())
    assert answers == ["pong"] * 8


def test_a_synchronous_call_inside_a_running_loop_does_not_wait_for_that_loop(home: Path, workdir: Path) -> None:
    with ScriptedProvider("pong") as provider, llm_host(home, workdir, provider) as (_, llm):

        async def ask() -> str:
            return llm.complete(PING, timeout=10).text

        assert asyncio.run(ask()) == "pong"


def test_a_passing_failure_is_tried_again(home: Path, workdir: Path) -> None:
    busy = failure(503, "busy", headers={"retry-after": "0"})
    with ScriptedProvider([busy, text("pong")]) as provider, llm_host(home, workdir, provider) as (host, llm):
        assert asyncio.run(llm.acomplete(PING)).text == "pong"
        assert [row["status"] for row in recorded(host)] == ["error", "ok"]


def test_cancelling_the_task_ends_the_request(home: Path, workdir: Path) -> None:
    with ScriptedProvider(hanging()) as provider, llm_host(home, workdir, provider) as (host, llm):

        async def ask() -> None:
            task = asyncio.create_task(llm.acomplete(PING))
            await asyncio.to_thread(provider.wait_for_request)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        asyncio.run(ask())
        wait_until(lambda: recorded(host))  # the task did not wait for the thread
        assert [row["status"] for row in recorded(host)] == ["interrupted"]


def test_cancelling_the_turn_ends_the_request(home: Path, workdir: Path) -> None:
    with ScriptedProvider(hanging()) as provider, llm_host(home, workdir, provider) as (host, llm):
        for number, ask in enumerate((lambda: llm.complete(PING), lambda: asyncio.run(llm.acomplete(PING))), start=1):
            interrupt = Interrupt()

            def stop(number: int = number, interrupt: Interrupt = interrupt) -> None:
                provider.wait_for_request(number)
                interrupt.cancel("stop")

            thread = threading.Thread(target=stop)
            thread.start()
            with working_in(Scope(interrupt=interrupt)), pytest.raises(Interrupted):
                ask()
            thread.join()
        assert [row["status"] for row in recorded(host)] == ["interrupted"] * 2
        assert len(provider.requests) == 2


_HOOKS = """
def register(ctx):
    def rewrite(**event):
        return {"context": ctx.llm.complete([{"role": "user", "content": "from a hook"}]).text}
    async def watch(**event):
        answer = await ctx.llm.acomplete([{"role": "user", "content": "from an async hook"}])
        ctx.register_command("seen", lambda raw: answer.text)
    ctx.register_hook("pre_llm_call", rewrite)
    ctx.register_hook("post_llm_call", watch)
"""


def test_hooks_may_ask_during_a_turn_without_disturbing_it(home: Path, workdir: Path) -> None:
    write_plugin(home, "p", _HOOKS)
    script = {"hello": "hi", "hello\\n\\nadded": "hi", "from a hook": "added", "from an async hook": "watched"}

    def answer(request: Any) -> str:
        return next((reply for key, reply in script.items() if request.last_user_text.startswith(key)), "?")

    with (
        ScriptedProvider(answer) as provider,
        llm_host(home, workdir, provider, plugins={"enabled": ["p"]}) as (host, _),
    ):
        session = host.new_session()
        result = session.run("hello")
        assert (result.status, result.answer) == ("completed", "hi")
        assert host.plugins.commands["seen"].handler("") == "watched"
        rows = recorded(host)
        assert [(row["session_id"], row["turn_id"], row["key"]) for row in rows] == [
            (session.id, result.turn_id, "plugin:p")
        ] * 2
        assert host.sessions.model_calls(session.id)[-1]["api_request_id"].startswith(result.turn_id)
    assert len(provider.requests) == 3
