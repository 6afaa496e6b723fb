"""The API as OpenAI's own client uses it: completions, streams, responses, models and errors."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import openai
import pytest

from hermes.testing import RecordedRequest, ScriptedProvider, ScriptedReply, failure, text, tool_calls
from support.api_rig import ServedApi, served_api


def reply(request: RecordedRequest) -> ScriptedReply:
    """Looks at the folder when asked to, and repeats everything else."""
    said = request.last_user_text.partition("\n\nInstructions of the client:")[0]
    if said == "look":
        if request.messages[-1]["role"] == "tool":
            return text("One file: notes.txt.")
        return tool_calls([("search_files", {"pattern": "*", "target": "files"})], content="I look. ")
    if said == "leak":
        return text("It is test-key-1234. <think>hidden</think> fine", chunks=4)
    if said == "fail":
        return failure(400, "secret detail")
    return text(f"You said: {said}")


@pytest.fixture
def api(home: Path, workdir: Path) -> Generator[ServedApi]:
    (workdir / "notes.txt").write_text("hello")
    with ScriptedProvider(reply) as provider, served_api(home, workdir, provider) as served:
        yield served


@pytest.fixture
def client(api: ServedApi) -> Generator[openai.OpenAI]:
    with openai.OpenAI(base_url=api.url, api_key="unused", timeout=60) as found:
        yield found


def test_a_completion(client: openai.OpenAI) -> None:
    found = client.chat.completions.create(model="hermes-agent", messages=[{"role": "user", "content": "hello"}])
    assert found.id.startswith("chatcmpl-")
    assert found.choices[0].message.content == "You said: hello"
    assert found.choices[0].finish_reason == "stop"
    assert found.usage is not None and found.usage.total_tokens > 0


def test_a_stream_with_tool_progress(client: openai.OpenAI) -> None:
    chunks = list(
        client.chat.completions.create(
            model="hermes-agent",
            messages=[{"role": "user", "content": "look"}],
            stream=True,
            stream_options={"include_usage": True},
        )
    )
    said = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert said.replace("\n", "") == "I look. One file: notes.txt."
    progress = [chunk.model_extra["hermes"] for chunk in chunks if chunk.model_extra and "hermes" in chunk.model_extra]
    assert [event["event"] for event in progress] == ["hermes.tool.started", "hermes.tool.completed"]
    assert progress[0]["tool"] == "search_files" and progress[1]["status"] == "ok"
    assert chunks[-2].choices[0].finish_reason == "stop"
    assert chunks[-1].usage is not None and chunks[-1].usage.completion_tokens > 0


def test_responses_continue_each_other(client: openai.OpenAI) -> None:
    first = client.responses.create(model="hermes-agent", input="one", instructions="Be brief.")
    second = client.responses.create(model="hermes-agent", input="two", previous_response_id=first.id)
    assert (first.output_text, second.output_text) == ("You said: one", "You said: two")
    assert second.previous_response_id == first.id
    again = client.responses.retrieve(second.id)
    assert again.output_text == "You said: two"
    assert again.usage is not None and again.usage.total_tokens > 0
    client.responses.delete(first.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(first.id)


def test_a_streamed_response(client: openai.OpenAI) -> None:
    with client.responses.stream(model="hermes-agent", input="look") as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_response()
    assert final.output_text.replace("\n", "") == "I look. One file: notes.txt."
    assert kinds[0] == "response.created" and kinds[-1] == "response.completed"
    assert "response.hermes.tool.started" in kinds


@pytest.mark.parametrize("stream", [True, False])
def test_reasoning_and_secrets_are_not_sent(api: ServedApi, stream: bool) -> None:
    told = api.chat("leak", stream=stream).text
    assert "fine" in told
    assert "test-key-1234" not in told and "hidden" not in told


def test_models(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["hermes-agent", "scripted"]
    assert client.models.retrieve("hermes-agent").owned_by == "hermes"


def test_failures_are_openais_errors_and_are_not_tried_again(api: ServedApi, client: openai.OpenAI) -> None:
    with pytest.raises(openai.InternalServerError) as failed:
        client.chat.completions.create(model="hermes-agent", messages=[{"role": "user", "content": "fail"}])
    assert "secret detail" not in str(failed.value)
    assert failed.value.code == "agent_error"
    assert len(api.host.sessions.list()) == 1
    with pytest.raises(openai.NotFoundError, match="allowed: hermes-agent and scripted"):
        client.chat.completions.create(model="gpt-9", messages=[{"role": "user", "content": "hello"}])
    with pytest.raises(openai.APIError):
        list(
            client.chat.completions.create(
                model="hermes-agent", messages=[{"role": "user", "content": "fail"}], stream=True
            )
        )
