"""Runs: accepted at once, followed by events, approved by those who may, stopped; questions; clients that go."""

from __future__ import annotations

import threading
from collections.abc import Generator
from pathlib import Path

import httpx
import pytest

from hermes.journal.questions import Questions
from hermes.testing import RecordedRequest, ScriptedProvider, ScriptedReply, text, tool_call
from support.a2a_rig import UNUSED_TLS
from support.api_rig import OTHER_KEY, ServedApi, served_api
from support.waiting import HANG, wait_until

BOB = {"authorization": f"Bearer {OTHER_KEY}"}


class Model:
    """``hold`` waits; ``remove`` deletes a folder; ``ask`` asks a question; everything else is repeated."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.asked = threading.Event()

    def __call__(self, request: RecordedRequest) -> ScriptedReply:
        said = request.last_user_text
        is_first = request.messages[-1]["role"] != "tool"
        self.asked.set()
        if said == "hold":
            return text("held", hold=self.gate)
        if said == "remove" and is_first:
            return tool_call("terminal", {"command": "rm -r folder"})
        if said == "ask" and is_first:
            return tool_call("clarify", {"question": "Which colour?", "choices": ["red", "blue"]})
        return text(f"said {said}" if is_first else f"told {request.messages[-1]['content']}")


@pytest.fixture
def model() -> Generator[Model]:
    model = Model()
    yield model
    model.gate.set()


@pytest.fixture
def api(home: Path, workdir: Path, model: Model) -> Generator[ServedApi]:
    (workdir / "folder").mkdir()
    with ScriptedProvider(model) as provider, served_api(home, workdir, provider, with_keys=True) as served:
        yield served
        model.gate.set()


def start(api: ServedApi, said: str, headers: dict[str, str] | None = None) -> str:
    accepted = api.post("/runs", {"input": said}, headers=headers or {})
    assert accepted.status_code == 202, accepted.text
    assert accepted.headers["location"] == f"/v1/runs/{accepted.json()['run_id']}"
    return accepted.json()["run_id"]


def status(api: ServedApi, run_id: str) -> str:
    return api.get(f"/runs/{run_id}").json()["status"]


def test_a_run_is_accepted_and_followed_to_its_end(api: ServedApi) -> None:
    run_id = start(api, "hello")
    events = api.events(run_id)
    *deltas, end = events
    assert {event["event"] for event in deltas} == {"message.delta"}
    assert "".join(event["delta"] for event in deltas) == end["output"] == "said hello"
    assert end["event"] == "run.completed"
    run = api.get(f"/runs/{run_id}").json()
    assert (run["status"], run["output"], run["error"]) == ("completed", "said hello", None)
    assert run["usage"]["total_tokens"] > 0
    # A client that lost the connection continues after the last event that it has.
    last = {"Last-Event-ID": str(len(deltas) - 1)}
    assert [event["event"] for event in api.events(run_id, headers=last)] == ["run.completed"]
    again = api.post("/runs", {"input": "more", "session_id": run["session_id"]}).json()
    assert again["session_id"] == run["session_id"]


def test_events_have_the_time_at_which_they_happened(api: ServedApi, model: Model) -> None:
    run_id = start(api, "hello")
    wait_until(lambda: status(api, run_id) == "completed")
    first, later = [[event["timestamp"] for event in api.events(run_id)] for _ in range(2)]
    assert first == later == sorted(first)


@pytest.mark.parametrize("path", ["/responses", "/runs"])
def test_a_turn_that_has_started_is_in_progress(api: ServedApi, model: Model, path: str) -> None:
    begun = api.post(path, {"input": "hold", "background": True}).json()
    model.asked.wait(60)
    assert api.get(f"{path}/{begun['id']}").json()["status"] == "in_progress"
    health = httpx.get(f"{api.url.removesuffix('/v1')}/health/detailed", headers=api.headers, verify=UNUSED_TLS).json()
    assert health["runs"] == {"queued": 0, "in_progress": 1, "waiting": 0}


def test_a_run_is_stopped(api: ServedApi, model: Model) -> None:
    run_id = start(api, "hold")
    model.asked.wait(60)
    stopped = api.post(f"/runs/{run_id}/stop", {})
    assert stopped.json()["status"] == "cancelled"
    assert api.events(run_id)[-1]["event"] == "run.cancelled"
    assert api.post(f"/runs/{run_id}/stop", {}).json()["status"] == "cancelled"


def test_runs_of_others_do_not_exist(api: ServedApi) -> None:
    run_id = start(api, "hello")
    for method, path in (("GET", ""), ("GET", "/events"), ("POST", "/stop"), ("POST", "/approval")):
        assert api.send(method, f"/runs/{run_id}{path}", headers=BOB).status_code == 404


@pytest.mark.parametrize(("choice", "is_there"), [("approve", False), ("deny", True)])
def test_a_caller_with_the_scope_answers_its_approvals(
    api: ServedApi, workdir: Path, choice: str, is_there: bool
) -> None:
    run_id = start(api, "remove")
    wait_until(lambda: status(api, run_id) == "waiting")
    for wrong, param in (
        ({"choice": "yes"}, "choice"),
        ({"answer": "approve"}, "answer"),
        ({"choice": "approve", "answer": "approve"}, "answer"),
        ({}, "choice"),
    ):
        bad = api.post(f"/runs/{run_id}/approval", wrong)
        assert (bad.status_code, bad.json()["error"]["param"]) == (400, param)
        assert "allowed: approve, session and deny" in bad.json()["error"]["message"]
    (waits_for,) = api.get(f"/runs/{run_id}").json()["waiting_for"]
    assert api.post(f"/runs/{run_id}/approval", {"choice": choice}).status_code == 200
    events = api.events(run_id)
    asked = next(event for event in events if event["event"] == "approval.request")
    assert (asked["tool"], asked["summary"], asked["answered_by"]) == ("terminal", "rm -r folder", "caller")
    assert waits_for == {name: asked[name] for name in waits_for}
    assert events[-1]["event"] == "run.completed"
    assert (workdir / "folder").exists() is is_there
    nothing = api.post(f"/runs/{run_id}/approval", {"choice": "approve"})
    assert (nothing.status_code, nothing.json()["error"]["code"]) == (404, "no_pending_question")
    assert api.get(f"/runs/{run_id}").json()["waiting_for"] == []


def test_the_owner_is_asked_about_the_calls_of_others(api: ServedApi, workdir: Path) -> None:
    run_id = start(api, "remove", BOB)
    wait_until(lambda: api.get(f"/runs/{run_id}", headers=BOB).json()["status"] == "waiting")
    refused = api.post(f"/runs/{run_id}/approval", {"choice": "approve"}, headers=BOB)
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "owner_is_asked")
    questions = Questions(api.host.store)
    (question,) = questions.pending()
    assert question.surface == "owner"
    questions.answer(question.id, "once")  # as 'hermes approvals approve' does
    assert api.events(run_id, headers=BOB)[-1]["event"] == "run.completed"
    assert not (workdir / "folder").exists()


def test_a_question_of_the_model_is_answered(api: ServedApi) -> None:
    run_id = start(api, "ask")
    wait_until(lambda: status(api, run_id) == "waiting")
    (waits_for,) = api.get(f"/runs/{run_id}").json()["waiting_for"]
    assert (waits_for["question"], waits_for["choices"]) == ("Which colour?", ["red", "blue"])
    bad = api.post(f"/runs/{run_id}/approval", {"choice": "approve"})
    assert (bad.status_code, bad.json()["error"]["param"]) == (400, "choice")
    assert api.post(f"/runs/{run_id}/approval", {"answer": "blue"}).status_code == 200
    events = api.events(run_id)
    asked = next(event for event in events if event["event"] == "approval.request")
    assert (asked["question"], asked["choices"]) == ("Which colour?", ["red", "blue"])
    assert "blue" in events[-1]["output"]


def test_a_chat_completion_does_not_wait_for_an_answer_to_a_question(api: ServedApi) -> None:
    found = api.chat("ask")
    assert found.status_code == 200


def test_an_approval_that_is_not_answered_in_time_is_denied(home: Path, workdir: Path, model: Model) -> None:
    (workdir / "folder").mkdir()
    with (
        ScriptedProvider(model) as provider,
        served_api(home, workdir, provider, with_keys=True, gateway={"approval_timeout": 0.2}) as api,
    ):
        run_id = start(api, "remove")
        assert api.events(run_id)[-1]["event"] == "run.completed"
        assert (workdir / "folder").exists()


def test_a_question_survives_the_server(home: Path, workdir: Path, model: Model) -> None:
    (workdir / "folder").mkdir()
    with ScriptedProvider(model) as provider:
        with served_api(home, workdir, provider, with_keys=True) as api:
            run_id = start(api, "remove")
            wait_until(lambda: status(api, run_id) == "waiting")
        with served_api(home, workdir, provider, with_keys=True) as api:
            wait_until(lambda: status(api, run_id) == "waiting")
            assert api.post(f"/runs/{run_id}/approval", {"choice": "approve"}).status_code == 200
            assert api.events(run_id)[-1]["event"] == "run.completed"
    assert not (workdir / "folder").exists()


def test_a_suspended_run_is_stopped(api: ServedApi, workdir: Path) -> None:
    run_id = start(api, "remove")
    wait_until(lambda: status(api, run_id) == "waiting")
    assert api.post(f"/runs/{run_id}/stop", {}).json()["status"] == "cancelled"
    assert (workdir / "folder").exists()
    assert Questions(api.host.store).pending() == []


# -- clients that go ------------------------------------------------------------------------------------------------


def leave(api: ServedApi, model: Model, headers: dict[str, str] | None = None, *, stream: bool) -> str:
    """Send a chat completion and close the connection before its end; the id of its session."""
    document = {"messages": [{"role": "user", "content": "hold"}], "stream": stream}
    seconds = HANG if stream else 0.5  # a stream begins at once, an answer as a whole does not come
    with httpx.Client(verify=UNUSED_TLS, headers={**api.headers, **(headers or {})}) as client:
        try:
            with client.stream("POST", f"{api.url}/chat/completions", json=document, timeout=seconds) as response:
                for _ in response.iter_bytes():
                    model.asked.wait(60)
                    break
        except httpx.ReadTimeout:
            assert not stream
    wait_until(lambda: api.host.sessions.list(), "its session")
    (row,) = api.host.sessions.list()
    return row.id


@pytest.mark.parametrize("stream", [True, False])
def test_a_turn_ends_when_its_client_has_gone(api: ServedApi, model: Model, stream: bool) -> None:
    session_id = leave(api, model, stream=stream)
    wait_until(lambda: api.host.sessions.get(session_id).state == "interrupted")


@pytest.mark.parametrize("stream", [True, False])
def test_a_turn_with_an_idempotency_key_goes_on_and_is_asked_for_again(
    api: ServedApi, model: Model, stream: bool
) -> None:
    key = {"Idempotency-Key": "k"}
    session_id = leave(api, model, key, stream=stream)
    model.gate.set()
    wait_until(lambda: api.host.sessions.get(session_id).state == "completed")
    again = api.chat("hold", headers=key, stream=stream)
    assert "held" in again.text
    assert len(api.host.sessions.list()) == 1


def test_the_setting_lets_every_turn_go_on(home: Path, workdir: Path, model: Model) -> None:
    with (
        ScriptedProvider(model) as provider,
        served_api(home, workdir, provider, cancel_on_disconnect=False) as api,
    ):
        session_id = leave(api, model, stream=True)
        model.gate.set()
        wait_until(lambda: api.host.sessions.get(session_id).state == "completed")
