"""Sessions of requests: by history, by header and by previous response; forks; idempotency keys; principals."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import httpx
import pytest

from hermes.base.config import PrincipalConfig
from hermes.testing import RecordedRequest, ScriptedProvider, ScriptedReply, by_step, text, tool_call, tool_calls
from support.api_rig import KEY, OTHER_KEY, ServedApi, answer_of, served_api, sse_documents

SESSION = "x-hermes-session-id"


class Model:
    """Repeats what was said, and counts; ``look`` uses a tool in between."""

    def __init__(self) -> None:
        self.requests: list[RecordedRequest] = []

    def __call__(self, request: RecordedRequest) -> ScriptedReply:
        self.requests.append(request)
        said = request.last_user_text.partition("\n")[0]
        if said == "look" and request.messages[-1]["role"] != "tool":
            return tool_calls([("search_files", {"pattern": "*", "target": "files"})], content="I look.")
        return text(f"{len(self.requests)}: {said}")

    def conversation(self) -> list[str]:
        """The texts of the last request, without the system prompt."""
        return [str(message["content"]) for message in self.requests[-1].messages if message["role"] != "system"]


def streamed_text(response: httpx.Response) -> str:
    """The text of a streamed chat completion."""
    return "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in sse_documents(response.text))


@pytest.fixture
def model() -> Model:
    return Model()


@pytest.fixture
def api(home: Path, workdir: Path, model: Model) -> Generator[ServedApi]:
    with ScriptedProvider(model) as provider, served_api(home, workdir, provider, with_keys=True) as served:
        yield served


# -- by history -----------------------------------------------------------------------------------------------------


def test_a_conversation_continues_in_its_session(api: ServedApi, model: Model) -> None:
    first = api.chat("hello")
    second = api.chat("hello", answer_of(first), "and then?")
    third = api.chat("hello", answer_of(first), "and then?", answer_of(second), "more")
    assert first.headers[SESSION] == second.headers[SESSION] == third.headers[SESSION]
    assert model.conversation() == ["hello", "1: hello", "and then?", "2: and then?", "more"]
    assert len(api.host.sessions.list(principal="alice")) == 1


def test_a_streamed_answer_is_recognised_with_what_was_said_between_tools(api: ServedApi) -> None:
    first = api.chat("look", stream=True)
    said = streamed_text(first)
    assert said == "I look.\n\n2: look"
    assert api.chat("look", said, "more").headers[SESSION] == first.headers[SESSION]


def test_another_system_prompt_is_the_same_conversation_and_reaches_the_model(api: ServedApi, model: Model) -> None:
    def asked(system: str, *texts: str) -> Any:
        roles = ("user", "assistant")
        messages = [{"role": roles[number % 2], "content": said} for number, said in enumerate(texts)]
        return api.post("/chat/completions", {"messages": [{"role": "system", "content": system}, *messages]})

    first = asked("It is Monday.", "hello")
    second = asked("It is Tuesday.", "hello", first.json()["choices"][0]["message"]["content"], "again")
    assert first.headers[SESSION] == second.headers[SESSION]
    assert "It is Tuesday." in model.conversation()[-1]
    assert not any("It is Monday." in said for said in model.conversation()), "it counts for its own turn alone"


def test_an_edited_question_forks_the_conversation(api: ServedApi, model: Model) -> None:
    first = api.chat("hello")
    second = api.chat("hello", answer_of(first), "and then?")
    edited = api.chat("hello", answer_of(first), "something else")
    assert edited.headers[SESSION] != second.headers[SESSION]
    assert model.conversation() == ["hello", "1: hello", "something else"]
    # Both lines continue, each in its own session.
    later = api.chat("hello", answer_of(first), "and then?", answer_of(second), "one")
    assert later.headers[SESSION] == second.headers[SESSION]
    later = api.chat("hello", answer_of(first), "something else", answer_of(edited), "two")
    assert later.headers[SESSION] == edited.headers[SESSION]
    assert model.conversation() == ["hello", "1: hello", "something else", answer_of(edited), "two"]


def test_an_edited_answer_is_what_the_model_sees(api: ServedApi, model: Model) -> None:
    first = api.chat("hello")
    second = api.chat("hello", answer_of(first), "and then?")
    edited = api.chat("hello", answer_of(first), "and then?", "I never said that.", "go on")
    assert edited.headers[SESSION] != second.headers[SESSION]
    assert model.conversation() == ["hello", "1: hello", "and then?", "I never said that.", "go on"]
    again = api.chat(*model.conversation(), answer_of(edited), "further")
    assert again.headers[SESSION] == edited.headers[SESSION]


def test_an_unknown_history_is_imported(api: ServedApi, model: Model) -> None:
    first = api.chat("from elsewhere", "said elsewhere", "hello")
    assert model.conversation() == ["from elsewhere", "said elsewhere", "hello"]
    second = api.chat("from elsewhere", "said elsewhere", "hello", answer_of(first), "again")
    assert second.headers[SESSION] == first.headers[SESSION]
    assert model.conversation()[:2] == ["from elsewhere", "said elsewhere"]


def test_the_same_words_of_another_caller_are_another_conversation(api: ServedApi, model: Model) -> None:
    first = api.chat("hello")
    bob = {"authorization": f"Bearer {OTHER_KEY}"}
    second = api.chat("hello", answer_of(first), "secret?", headers=bob)
    assert second.headers[SESSION] != first.headers[SESSION]
    assert {row.principal for row in api.host.sessions.list()} == {"alice", "bob"}


# -- by header and by id --------------------------------------------------------------------------------------------


def test_headers_name_a_session(api: ServedApi, model: Model) -> None:
    first = api.chat("hello", headers={"X-Hermes-Session-Key": "my chat"})
    second = api.chat("again", headers={"X-Hermes-Session-Key": "my chat"})
    third = api.chat("more", headers={"X-Hermes-Session-Id": first.headers[SESSION]})
    assert first.headers[SESSION] == second.headers[SESSION] == third.headers[SESSION]
    assert model.conversation() == ["hello", "1: hello", "again", "2: again", "more"]
    other = api.chat("hello", headers={"X-Hermes-Session-Key": "another"})
    assert other.headers[SESSION] != first.headers[SESSION]


def test_a_session_of_another_caller_does_not_exist(api: ServedApi) -> None:
    first = api.chat("hello", headers={"X-Hermes-Session-Key": "chat"})
    bob = {"authorization": f"Bearer {OTHER_KEY}"}
    for session_id in (first.headers[SESSION], "20200101_000000_abcdef", first.headers[SESSION][:12]):
        refused = api.chat("hello", headers={**bob, "X-Hermes-Session-Id": session_id})
        assert (refused.status_code, refused.json()["error"]["code"]) == (404, "session_not_found")
    own = api.chat("hello", headers={**bob, "X-Hermes-Session-Key": "chat"})
    assert own.headers[SESSION] != first.headers[SESSION]


def test_without_a_key_no_session_can_be_named(home: Path, workdir: Path, model: Model) -> None:
    with ScriptedProvider(model) as provider, served_api(home, workdir, provider) as api:
        refused = api.chat("hello", headers={"X-Hermes-Session-Key": "chat"})
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "key_required")
        assert answer_of(api.chat("hello")) == "1: hello"


def test_a_response_that_was_continued_already_is_forked(api: ServedApi, model: Model) -> None:
    first = api.post("/responses", {"input": "one"}).json()
    second = api.post("/responses", {"input": "two", "previous_response_id": first["id"]})
    other = api.post("/responses", {"input": "three", "previous_response_id": first["id"]})
    assert model.conversation() == ["one", "1: one", "three"]
    assert other.headers[SESSION] != second.headers[SESSION]
    missing = api.post("/responses", {"input": "four", "previous_response_id": "resp_none"})
    assert (missing.status_code, missing.json()["error"]["code"]) == (404, "previous_response_not_found")
    bob = {"authorization": f"Bearer {OTHER_KEY}"}
    assert api.post("/responses", {"input": "x", "previous_response_id": first["id"]}, headers=bob).status_code == 404
    assert api.get(f"/responses/{first['id']}", headers=bob).status_code == 404


def test_a_response_that_is_not_stored_cannot_be_read(api: ServedApi) -> None:
    made = api.post("/responses", {"input": "one", "store": False}).json()
    assert made["status"] == "completed"
    assert api.get(f"/responses/{made['id']}").status_code == 404


# -- idempotency keys -----------------------------------------------------------------------------------------------


def test_the_same_key_gives_the_same_answer_and_runs_nothing(api: ServedApi, model: Model) -> None:
    key = {"Idempotency-Key": "abc"}
    first, again = api.chat("hello", headers=key), api.chat("hello", headers=key)
    assert first.json() == again.json()
    assert len(model.requests) == 1
    streamed = api.chat("hello", headers={"Idempotency-Key": "s"}, stream=True)
    repeated = api.chat("hello", headers={"Idempotency-Key": "s"}, stream=True)
    said = [
        "".join(c["choices"][0]["delta"].get("content", "") for c in sse_documents(r.text))
        for r in (streamed, repeated)
    ]
    assert said == ["2: hello", "2: hello"]
    other = api.chat("something else", headers=key)
    assert (other.status_code, other.json()["error"]["code"]) == (422, "idempotency_key_reused")
    bob = {"authorization": f"Bearer {OTHER_KEY}"}
    assert answer_of(api.chat("hello", headers={**key, **bob})) == "3: hello", "keys are of one caller"


def test_servers_that_share_a_journal_know_each_others_requests(
    home: Path, tmp_path: Path, workdir: Path, model: Model, postgres_url: str
) -> None:
    with (
        ScriptedProvider(model) as provider,
        served_api(home, workdir, provider, with_keys=True, journal=postgres_url) as one,
        served_api(tmp_path / "other", workdir, provider, with_keys=True, journal=postgres_url) as other,
    ):
        key = {"Idempotency-Key": "abc"}
        first = one.chat("hello", headers=key)
        assert other.chat("hello", headers=key).json() == first.json()
        second = other.chat("hello", answer_of(first), "again")
        assert second.headers[SESSION] == first.headers[SESSION]
        forked = one.chat("hello", answer_of(first), "something else")
        assert forked.headers[SESSION] != first.headers[SESSION]
        imported = one.chat("from elsewhere", "said elsewhere", "hello")
        assert model.conversation() == ["from elsewhere", "said elsewhere", "hello"]
        assert answer_of(imported) == "4: hello"
        response = one.post("/responses", {"input": "one"}).json()
        assert other.get(f"/responses/{response['id']}").json()["usage"] == response["usage"]


# -- principals -----------------------------------------------------------------------------------------------------


def test_a_caller_that_is_the_owner_works_as_the_owner(home: Path, workdir: Path, model: Model) -> None:
    me = {"me": PrincipalConfig(token_env="ME", owner=True)}
    key = "key-of-the-owner-0123456789"
    with (
        ScriptedProvider(model) as provider,
        served_api(home, workdir, provider, with_keys=True, principals=me, env={"ME": key}) as api,
    ):
        api.chat("hello", headers={"authorization": f"Bearer {key}"})
        (row,) = api.host.sessions.list()
        assert (row.principal, row.cwd, row.platform) == ("", str(workdir), "api_server")


def test_scopes_are_needed(home: Path, workdir: Path, model: Model) -> None:
    reader = {"reader": PrincipalConfig(token_env="READER", scopes=["read"], workspace=str(workdir))}
    key = "key-of-a-reader-0123456789"
    with (
        ScriptedProvider(model) as provider,
        served_api(home, workdir, provider, with_keys=True, principals=reader, env={"READER": key}) as api,
    ):
        told = {"authorization": f"Bearer {key}"}
        for path in ("/chat/completions", "/responses", "/runs"):
            refused = api.post(path, {"messages": [], "input": "x"}, headers=told)
            assert (refused.status_code, refused.json()["error"]["code"]) == (403, "insufficient_permissions")
        assert api.get("/models", headers=told).status_code == 200
        wrong = api.get("/models", headers={"authorization": f"Bearer {KEY}x"})
        assert (wrong.status_code, wrong.json()["error"]["code"]) == (401, "invalid_api_key")
        assert wrong.json()["error"]["message"].startswith("this key is not known here")
        without = api.get("/models", headers={"authorization": ""})
        assert without.json()["error"]["message"].startswith("send your key")
        assert model.requests == []


def test_a_caller_that_is_the_owner_no_longer_has_lost_the_sessions_of_the_owner(
    home: Path, workdir: Path, model: Model
) -> None:
    scopes: list[Any] = ["send", "read"]
    key = {"x-hermes-session-key": "daily"}
    with ScriptedProvider(model) as provider:
        owner = PrincipalConfig(token_env="ALICE", owner=True, scopes=scopes)
        with served_api(home, workdir, provider, with_keys=True, principals={"alice": owner}) as api:
            said = answer_of(api.chat("the key is under the mat"))
            api.chat("remember", headers=key)
            response = api.post("/responses", {"input": "remember"}).json()["id"]
        with served_api(home, workdir, provider, with_keys=True) as api:
            forked = api.chat("the key is under the mat", said, "and now?")
            named = api.chat("hello", headers=key)
            continued = api.post("/responses", {"input": "hello", "previous_response_id": response})
            session = api.host.sessions.get(forked.headers[SESSION])
            read = api.get(f"/responses/{response}")
    assert session.principal == "alice"
    assert (named.status_code, continued.status_code, read.status_code) == (404, 404, 404)


def test_hooks_know_the_caller_also_when_it_is_the_owner_and_in_children(home: Path, workdir: Path) -> None:
    seen: list[tuple[str, str]] = []

    def note(sender_id: str, platform: str) -> None:
        seen.append((sender_id, platform))

    script = {"go": by_step(tool_call("delegate_task", {"goal": "work"}), text("ok")), "work": text("done")}
    owner = {"boss": PrincipalConfig(token_env="BOSS", owner=True)}
    key = "key-of-boss-0123456789abcdef"
    with (
        ScriptedProvider(script) as provider,
        served_api(home, workdir, provider, with_keys=True, principals=owner, env={"BOSS": key}) as api,
    ):
        api.host.hooks.subscribe("pre_llm_call", "watch", note)
        for token in (KEY, OTHER_KEY, key):
            assert answer_of(api.chat("go", headers={"authorization": f"Bearer {token}"})) == "ok"
    assert seen == [(name, "api_server") for name in ("alice", "alice", "bob", "bob", "boss", "boss")]
