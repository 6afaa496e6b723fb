"""Whole turns over each request format: tools, reasoning that goes back, hooks, the journal, another session."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from hermes.base.config.schema.sections import FallbackConfig
from hermes.host import Host
from hermes.journal.sessions import Sessions
from hermes.models.endpoint import ApiMode
from hermes.testing import ScriptedProvider, ScriptedReply, failure, text
from hermes.testing.scripted.replies import ScriptedCall
from support.configured import configured_host

MODES: tuple[ApiMode, ...] = get_args(ApiMode)
PATHS = {"chat_completions": "chat/completions", "codex_responses": "responses", "anthropic_messages": "messages"}

THINK_AND_LOOK = ScriptedReply(thoughts="I had better look", calls=(ScriptedCall("read_file", {"path": "a.txt"}),))


def sent_back(body: dict[str, Any]) -> str:
    return msgspec.json.encode(body.get("input") or body.get("messages")).decode()


@pytest.fixture(params=MODES)
def mode(request: pytest.FixtureRequest) -> ApiMode:
    return request.param


def host_at(home: Path, workdir: Path, provider: ScriptedProvider, mode: ApiMode, **sections: Any) -> Host:
    return configured_host(home, workdir, provider, model={"api_mode": mode}, **sections)


def test_a_turn_with_a_tool(home: Path, workdir: Path, mode: ApiMode) -> None:
    (workdir / "a.txt").write_text("forty-two\n")
    seen: list[dict[str, Any]] = []
    with (
        ScriptedProvider([THINK_AND_LOOK, text("It is 42.")]) as provider,
        host_at(home, workdir, provider, mode) as host,
    ):

        def watch(**fields: Any) -> None:
            seen.append(fields)

        host.hooks.subscribe("pre_api_request", "test", watch)
        result = host.new_session().run("What is in a.txt?")
    assert (result.status, result.answer, result.error) == ("completed", "It is 42.", None)
    assert [request.path for request in provider.requests] == [f"/v1/{PATHS[mode]}"] * 2
    last = provider.requests[1]
    assert [message["role"] for message in last.messages] == ["system", "user", "assistant", "tool"]
    assert "forty-two" in last.messages[3]["content"]
    assert last.step == 1
    assert {fields["api_mode"] for fields in seen} == {mode}
    assert (seen[0]["tool_count"], seen[0]["message_count"] > 0) == (len(last.body["tools"]), True)
    if mode == "codex_responses":
        assert '"encrypted_content":"encrypted-1"' in sent_back(last.body)
    elif mode == "anthropic_messages":
        assert '"signature":"signed-17"' in sent_back(last.body)


def test_reasoning_survives_a_new_process_and_is_for_its_own_model(home: Path, workdir: Path) -> None:
    """What is on record goes back to the model it came from, and to no other."""
    (workdir / "a.txt").write_text("x")
    mode: ApiMode = "anthropic_messages"
    with ScriptedProvider([THINK_AND_LOOK, text("One."), text("Two."), text("Three.")]) as provider:
        with host_at(home, workdir, provider, mode) as host:
            session = host.new_session()
            session.run("Look.")
        with host_at(home, workdir, provider, mode) as host:
            host.resume_session(session.id).run("And now?")
            messages = Sessions(host.store).messages(session.id)
        with configured_host(home, workdir, provider, model={"api_mode": mode, "default": "another"}) as host:
            host.resume_session(session.id).run("And you?")
    assert messages[1]["carry"]["items"][0]["signature"] == "signed-17"
    assert "signed-17" in sent_back(provider.requests[2].body)
    assert "signed-17" not in sent_back(provider.requests[3].body)


def test_a_fallback_that_speaks_another_format(home: Path, workdir: Path) -> None:
    (workdir / "a.txt").write_text("x")
    with (
        ScriptedProvider([THINK_AND_LOOK, failure(503)]) as first,
        ScriptedProvider([text("Done.")]) as second,
    ):
        spare = FallbackConfig(
            provider="custom", model="spare", base_url=second.base_url, api_key="k", api_mode="chat_completions"
        )
        with host_at(home, workdir, first, "anthropic_messages", fallback_providers=[spare]) as host:
            result = host.new_session().run("Look.")
    assert (result.answer, result.model) == ("Done.", "scripted")
    body = second.requests[0].body
    assert [message["role"] for message in body["messages"]] == ["system", "user", "assistant", "tool"]
    assert "carry" not in body["messages"][2]
    assert "signed" not in sent_back(body)


def test_a_reply_with_too_many_tool_calls_runs_none_of_them(home: Path, workdir: Path, mode: ApiMode) -> None:
    calls = tuple(ScriptedCall("write_file", {"path": f"{number}.txt", "content": "x"}) for number in range(257))
    with (
        ScriptedProvider([ScriptedReply(calls=calls), ScriptedReply(calls=calls[:-1]), text("done")]) as provider,
        host_at(home, workdir, provider, mode) as host,
    ):
        refused = host.new_session().run("go")
        assert refused.status == "failed" and "more than 256 tools" in (refused.error or "")
        assert not list(workdir.glob("*.txt"))
        assert host.new_session().run("go").answer == "done"
    assert len(list(workdir.glob("*.txt"))) == 256
