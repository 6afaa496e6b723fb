"""What leaves an executor when a request fails or is cancelled: a class name, or a canceled task, and nothing else."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from hermes.surfaces.a2a import HermesA2AExecutor
from hermes.testing import FaultServer, ScriptedProvider, failure
from support.executor_rig import IS_V1, Answering, Events, ask, completion, request, silent_model, types

SECRET = "sk-sentinel-0123456789abcdef"


def test_only_the_class_of_a_failure_is_the_reply(caplog: pytest.LogCaptureFixture) -> None:
    with ScriptedProvider(failure(429, f"slow down, {SECRET}")) as provider:
        made = HermesA2AExecutor("hermes-4", base_url=provider.base_url, api_key=SECRET)
        assert ask(made, "hello") == "Agent error: RateLimitError"
        assert len(provider.requests) == 1
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert record.getMessage() == "hermes_executor: API error [model=hermes-4]: RateLimitError"
    assert record.exc_info is not None
    assert SECRET not in caplog.text


@pytest.mark.parametrize(
    ("fault", "name"),
    [
        ("echoed_key", "AuthenticationError"),
        ("error_as_success", "InternalServerError"),
        ("length_too_long", "APIConnectionError"),
        ("no_http", "APIResponseValidationError"),
        ("web_page", "APIResponseValidationError"),
        ("no_tls", "APIConnectionError"),
        ("redirect", "APIStatusError"),
    ],
)
def test_a_server_that_misbehaves(fault: str, name: str) -> None:
    with FaultServer(fault) as server:
        assert ask(HermesA2AExecutor("gpt-4o", base_url=server.base_url, api_key=SECRET), "hello") == (
            f"Agent error: {name}"
        )


def test_an_answer_without_choices() -> None:
    answer = completion("fine")
    answer.choices.clear()
    assert ask(HermesA2AExecutor("gpt-4o", _client=Answering(answer)), "hello") == "Agent error: IndexError"


@pytest.mark.parametrize("error", [ValueError(SECRET), RuntimeError(SECRET), KeyError(SECRET), OSError(SECRET)])
def test_no_exception_leaves(error: Exception) -> None:
    reply = ask(HermesA2AExecutor("gpt-4o", _client=Answering(error)), "hello")
    assert reply == f"Agent error: {type(error).__name__}"


def test_a_client_that_fails_before_it_waits() -> None:
    class Refusing:
        def __getattr__(self, name: str) -> Any:
            raise LookupError(SECRET)

    assert ask(HermesA2AExecutor("gpt-4o", _client=Refusing()), "hello") == "Agent error: LookupError"


# -- cancelling -----------------------------------------------------------------------------------------------------


def canceled_ids(event: Any) -> tuple[str, str]:
    """The ids of the event that ends a task as canceled."""
    assert isinstance(event, types.TaskStatusUpdateEvent)
    if IS_V1:
        assert event.status.state == types.TaskState.TASK_STATE_CANCELED
        assert event.status.timestamp.seconds > 0
    else:
        assert event.status.state == types.TaskState.canceled
        assert event.final and event.status.timestamp
    return event.task_id, event.context_id


def test_a_cancelled_task_passes_the_cancellation_on() -> None:
    async def run() -> None:
        async with silent_model() as model:
            made, events = HermesA2AExecutor("gpt-4o", base_url=model.base_url), Events()
            turn = asyncio.create_task(made.execute(request("hello"), events))
            await model.asked.get()
            turn.cancel()
            with pytest.raises(asyncio.CancelledError):
                await turn
            await model.gone.get()
            assert events.said == []

    asyncio.run(asyncio.wait_for(run(), 20), debug=True)


def test_cancel_ends_the_request_of_its_task_and_no_other() -> None:
    async def run() -> None:
        async with silent_model() as model:
            made = HermesA2AExecutor("gpt-4o", base_url=model.base_url)
            first, second, cancelling = Events(), Events(), Events()
            turns = [
                asyncio.create_task(made.execute(request("one", task_id="a"), first)),
                asyncio.create_task(made.execute(request("two", task_id="b"), second)),
            ]
            for _ in turns:
                await model.asked.get()
            await made.cancel(request(task_id="a", context_id="c", message=False), cancelling)
            assert [canceled_ids(event) for event in cancelling.said] == [("a", "c")]
            assert turns[0].cancelled() or (await asyncio.wait(turns[:1]))[0]
            assert turns[0].cancelled() and not turns[1].done()
            assert '"one"' in await model.gone.get()
            await made.cancel(request(task_id="b", message=False), cancelling)
            with pytest.raises(asyncio.CancelledError):
                await turns[1]
            assert first.said == second.said == []
            assert len(cancelling.said) == 2

    asyncio.run(asyncio.wait_for(run(), 20), debug=True)


def test_cancel_takes_the_ids_of_the_stored_task() -> None:
    async def run() -> None:
        state = types.TaskState.TASK_STATE_WORKING if IS_V1 else types.TaskState.working
        task = types.Task(id="stored", context_id="its context", status=types.TaskStatus(state=state))
        events = Events()
        made = HermesA2AExecutor("gpt-4o", _client=Answering(completion("fine")))
        await made.cancel(request(task_id="stored", context_id="", message=False, task=task), events)
        assert [canceled_ids(event) for event in events.said] == [("stored", "its context")]

    asyncio.run(run())


def test_cancel_without_a_running_request() -> None:
    async def run() -> None:
        events = Events()
        made = HermesA2AExecutor("gpt-4o", _client=Answering(completion("fine")))
        await made.execute(request("hello"), Events())
        await made.cancel(request(message=False), events)
        assert [canceled_ids(event) for event in events.said] == [("task-1", "context-1")]

    asyncio.run(run())
