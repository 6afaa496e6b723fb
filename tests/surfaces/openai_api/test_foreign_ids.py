"""Ids of another caller and of the owner, through every door of the API: they are answered like ids that never were."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from hermes.journal.questions import Questions
from hermes.testing import RecordedRequest, ScriptedProvider, ScriptedReply, text, tool_call
from support.api_rig import OTHER_KEY, ServedApi, answer_of, served_api
from support.waiting import wait_until

BOB = {"authorization": f"Bearer {OTHER_KEY}"}
SESSION = "X-Hermes-Session-Id"


def answer(request: RecordedRequest) -> ScriptedReply:
    if request.last_user_text == "remove" and request.messages[-1]["role"] != "tool":
        return tool_call("terminal", {"command": "rm -r folder"})
    return text(f"said {request.last_user_text}")


@pytest.fixture
def api(home: Path, workdir: Path) -> Generator[ServedApi]:
    with ScriptedProvider(answer) as provider, served_api(home, workdir, provider, with_keys=True) as served:
        yield served


def outcome(
    api: ServedApi, door: tuple[str, str, dict[str, str] | None], names: dict[str, str]
) -> tuple[int, Any, str]:
    """Status, code and words of a request, without the ids in it."""
    method, path, body = door
    document = None if body is None else {key: value.format(**names) for key, value in body.items()}
    response = api.send(method, path.format(**names), document, headers=BOB)
    words = response.text
    for name in names.values():
        words = words.replace(name, "ID")
    return response.status_code, response.json().get("error", {}).get("code"), words


DOORS: tuple[tuple[str, str, dict[str, str] | None], ...] = (
    ("GET", "/responses/{response}", None),
    ("DELETE", "/responses/{response}", None),
    ("POST", "/responses/{response}/cancel", {}),
    ("POST", "/responses", {"input": "x", "previous_response_id": "{response}"}),
    ("GET", "/runs/{run}", None),
    ("GET", "/runs/{run}/events", None),
    ("POST", "/runs/{run}/stop", {}),
    ("POST", "/runs/{run}/approval", {"choice": "approve"}),
    ("POST", "/runs/{run}/approval", {"choice": "approve", "approval_id": "{approval}"}),
    ("POST", "/runs/{completion}/approval", {"choice": "approve"}),
    ("POST", "/runs", {"input": "x", "session_id": "{session}"}),
    ("POST", "/runs", {"input": "x", "session_id": "{owners}"}),
)


def test_a_foreign_id_is_answered_like_one_that_never_was(api: ServedApi, workdir: Path) -> None:
    (workdir / "folder").mkdir()
    completion = api.chat("remember me")
    response = api.post("/responses", {"input": "my response"}).json()["id"]
    run = api.post("/runs", {"input": "remove"}).json()["run_id"]
    wait_until(lambda: api.get(f"/runs/{run}").json()["status"] == "waiting")
    [question] = Questions(api.host.store).pending()
    owners = api.host.new_session()
    owners.run("a secret of the owner")
    theirs = {
        "response": response,
        "run": run,
        "approval": question.id,
        "completion": completion.json()["id"],
        "session": completion.headers[SESSION],
        "owners": owners.id,
    }
    nothing = {
        "response": "resp_" + "0" * 32,
        "run": "run_" + "0" * 32,
        "approval": "appr_" + "0" * 12,
        "completion": "chatcmpl-" + "0" * 32,
        "session": "20200101_000000_abcdef",
        "owners": "20200101_000000_abcdef",
    }
    for door in DOORS:
        found = outcome(api, door, theirs)
        assert found == outcome(api, door, nothing), door
        assert found[0] == 404, door
    for session_id in (theirs["session"], theirs["owners"], nothing["session"]):
        refused = api.chat("hello", headers={**BOB, SESSION: session_id})
        assert (refused.status_code, refused.json()["error"]["code"]) == (404, "session_not_found")
    # What was tried changed nothing.
    assert [one.id for one in Questions(api.host.store).pending()] == [question.id]
    assert api.get(f"/responses/{response}").status_code == 200
    assert (workdir / "folder").exists()
    assert {row.principal for row in api.host.sessions.list()} == {"", "alice"}


def test_an_approval_is_not_answered_through_a_run_of_ones_own(api: ServedApi, workdir: Path) -> None:
    (workdir / "folder").mkdir()
    theirs = api.post("/runs", {"input": "remove"}).json()["run_id"]
    own = api.post("/runs", {"input": "remove"}, headers=BOB).json()["run_id"]
    questions = Questions(api.host.store)
    wait_until(lambda: len(questions.pending()) == 2)
    [foreign] = [one for one in questions.pending() if one.principal == "alice"]
    tried = {"choice": "approve", "approval_id": foreign.id}
    assert api.post(f"/runs/{own}/approval", tried, headers=BOB).status_code == 404
    assert len(questions.pending()) == 2 and (workdir / "folder").exists()
    for run, headers in ((theirs, {}), (own, BOB)):
        api.post(f"/runs/{run}/stop", {}, headers=headers)


def test_an_idempotency_key_is_the_callers_own(api: ServedApi) -> None:
    key = {"Idempotency-Key": "1"}
    assert answer_of(api.chat("hello", headers=key)) == "said hello"
    assert answer_of(api.chat("other words", headers={**BOB, **key})) == "said other words"
