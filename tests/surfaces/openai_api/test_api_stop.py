"""A server that is stopped while turns run: its clients get an error, and the next server continues the turns."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from hermes.testing import RecordedRequest, ScriptedProvider, ScriptedReply, text, tool_call
from support.api_rig import ServedApi, served_api, sse_documents
from support.waiting import wait_until


class Model:
    """Answers when the gate is open."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.asked = 0

    def __call__(self, request: RecordedRequest) -> ScriptedReply:
        self.asked += 1
        return text("the answer", hold=self.gate)


@pytest.fixture
def model() -> Generator[Model]:
    model = Model()
    yield model
    model.gate.set()


@pytest.fixture
def provider(model: Model) -> Generator[ScriptedProvider]:
    with ScriptedProvider(model) as provider:
        yield provider
        model.gate.set()


def stop_at_once(api: ServedApi, model: Model) -> None:
    """Two requests to stop while the model is being asked: the first waits for the turn."""
    wait_until(lambda: model.asked > 0, "the model is asked")
    api.stop()
    wait_until(lambda: bool(api.reported), "the owner is informed")
    api.stop()


def cut_off(api: ServedApi, model: Model, path: str, document: dict[str, Any]) -> httpx.Response:
    """The response to a request whose server is stopped."""
    with ThreadPoolExecutor() as pool:
        answer = pool.submit(api.post, path, document)
        stop_at_once(api, model)
        return answer.result(60)


@pytest.mark.parametrize(
    ("path", "document"),
    [("/chat/completions", {"messages": [{"role": "user", "content": "hi"}]}), ("/responses", {"input": "hi"})],
)
def test_the_client_is_answered_and_the_next_server_continues_the_turn(
    home: Path,
    workdir: Path,
    model: Model,
    provider: ScriptedProvider,
    caplog: pytest.LogCaptureFixture,
    path: str,
    document: dict[str, Any],
) -> None:
    with caplog.at_level(logging.WARNING), served_api(home, workdir, provider) as api:
        refused = cut_off(api, model, path, document)
    assert refused.status_code == 503
    assert refused.headers["x-should-retry"] == "false"
    error, run_id = refused.json()["error"], refused.headers["x-hermes-run-id"]
    assert (error["type"], error["code"]) == ("server_error", "server_stopped")
    assert error["message"].endswith(f"read the answer then at GET /v1/runs/{run_id}")
    assert "Exception in ASGI application" not in caplog.text
    (line,) = api.reported
    assert line.startswith("Stopping: waiting up to 5 s for 1 turn. Ctrl-C again stops at once.")
    model.gate.set()
    with served_api(home, workdir, provider) as api:
        wait_until(lambda: api.get(f"/runs/{run_id}").json()["status"] == "completed", "the turn is completed")
        assert api.get(f"/runs/{run_id}").json()["output"] == "the answer"


def test_streams_end_with_an_error(home: Path, workdir: Path, model: Model, provider: ScriptedProvider) -> None:
    streamed: dict[str, Any] = {"stream": True}
    messages = [{"role": "user", "content": "hi"}]
    with served_api(home, workdir, provider) as api, ThreadPoolExecutor() as pool:
        run = api.post("/runs", {"input": "hi"}).json()["run_id"]
        answers = [
            pool.submit(api.post, "/chat/completions", {"messages": messages, **streamed}),
            pool.submit(api.post, "/responses", {"input": "hi", **streamed}),
            pool.submit(api.get, f"/runs/{run}/events"),
        ]
        wait_until(lambda: model.asked == 3, "all turns run")
        stop_at_once(api, model)
        chat, response, events = [answer.result(60).text for answer in answers]
    assert chat.endswith("data: [DONE]\n\n")
    assert sse_documents(chat)[-1]["error"]["code"] == "server_stopped"
    last = sse_documents(response)[-1]
    assert (last["type"], last["code"]) == ("error", "server_stopped")
    last = sse_documents(events)[-1]
    assert (last["event"], last["run_id"], last["error"]["code"]) == ("error", run, "server_stopped")


def test_openais_client_does_not_run_the_turn_twice(
    home: Path, workdir: Path, model: Model, provider: ScriptedProvider
) -> None:
    with (
        served_api(home, workdir, provider) as api,
        openai.OpenAI(base_url=api.url, api_key="unused", max_retries=3) as client,
        ThreadPoolExecutor() as pool,
    ):
        ask = client.chat.completions.create
        answer = pool.submit(ask, model="hermes-agent", messages=[{"role": "user", "content": "hi"}])
        stop_at_once(api, model)
        with pytest.raises(openai.InternalServerError, match="the server was stopped"):
            answer.result(60)
    assert model.asked == 1


def test_a_turn_that_ends_in_time_is_answered(
    home: Path, workdir: Path, model: Model, provider: ScriptedProvider
) -> None:
    with served_api(home, workdir, provider) as api, ThreadPoolExecutor() as pool:
        answer = pool.submit(api.chat, "hi")
        wait_until(lambda: model.asked > 0, "the model is asked")
        api.stop()
        wait_until(lambda: bool(api.reported), "the owner is informed")
        model.gate.set()
        assert answer.result(60).json()["choices"][0]["message"]["content"] == "the answer"


def test_a_command_that_the_stop_has_killed_is_not_taken_for_one_that_failed(home: Path, workdir: Path) -> None:
    def answer(request: RecordedRequest) -> ScriptedReply:
        is_first = request.messages[-1]["role"] != "tool"
        command = f"echo begun; echo > {workdir}/begun; sleep 600"
        return tool_call("terminal", {"command": command}) if is_first else text("continued")

    with ScriptedProvider(answer) as provider:
        with served_api(home, workdir, provider) as api:
            api.post("/runs", {"input": "hi"})
            wait_until((workdir / "begun").exists, "the command runs")
            api.stop()
            wait_until(lambda: bool(api.reported), "the owner is informed")
            api.stop()
        # Here the thread of the turn outlives the server; otherwise the next one continues with the same record.
        wait_until(lambda: len(provider.requests) == 2, "the model gets the result")
        result = json.loads(provider.requests[1].messages[-1]["content"])
    assert result["error"] == "The call was cancelled (Hermes was stopped)"
    assert (result["outcome"], result["output"].strip()) == ("unknown", "begun")
