"""A provider that insists on the reasoning behind tool calls gets it, also of another model's turns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hermes.testing import RecordedRequest, ScriptedProvider, ScriptedReply, failure, reasoning, text, tool_call
from support import run_hermes


def insisting(request: RecordedRequest) -> ScriptedReply:
    """A server with the documented rule: every assistant message with calls has its reasoning."""
    for message in request.messages:
        if message.get("tool_calls") and "reasoning_content" not in request_message(request, message):
            return failure(400, "reasoning_content must be passed back")
    if request.step == 0:
        return ScriptedReply(thoughts="I look.", calls=tool_call("todo", {}).calls)
    return reasoning("Now I know.", "done")


def request_message(request: RecordedRequest, message: dict[str, Any]) -> dict[str, Any]:
    return next(one for one in request.body["messages"] if one.get("tool_calls") == message["tool_calls"])


def write_homes(home: Path, first: str, second: str) -> None:
    home.mkdir(parents=True)
    config = {
        "model": {"provider": "deepseek", "default": "deepseek-v4-pro", "base_url": second, "api_key": "k"},
        "providers": {"deepseek": {"base_url": second, "api_key": "k"}, "other": {"base_url": first, "model": "m"}},
        "agent": {"api_max_retries": 0},
    }
    (home / "config.yaml").write_text(json.dumps(config))


@pytest.mark.parametrize("begin", [("-m", "deepseek-v4-flash"), ("--provider", "other")])
def test_a_session_goes_on_after_a_switch(home: Path, workdir: Path, begin: tuple[str, ...]) -> None:
    other = [ScriptedReply(thoughts="Hm.", calls=tool_call("todo", {}).calls), text("done")]
    with ScriptedProvider(other) as first, ScriptedProvider(insisting) as second:
        write_homes(home, first.base_url, second.base_url)
        done = run_hermes("chat", "-Q", "-q", "one", *begin, home=home, cwd=workdir)
        assert done.returncode == 0, done.stderr
        again = run_hermes("chat", "-Q", "-c", "-q", "two", home=home, cwd=workdir)
        assert again.returncode == 0, again.stderr
        sent = second.requests[-1].body["messages"]
    told = [message.get("reasoning_content") for message in sent if message["role"] == "assistant"]
    # With tool calls and with the answer that follows them.
    assert told == (["Hm.", None, "I look."] if "--provider" in begin else ["I look.", "Now I know.", "I look."])


def test_a_call_without_reasoning_has_an_empty_one(home: Path, workdir: Path) -> None:
    def silent(request: RecordedRequest) -> ScriptedReply:
        answer = insisting(request)
        return tool_call("todo", {}) if answer.calls else answer

    with ScriptedProvider(silent) as server:
        write_homes(home, server.base_url, server.base_url)
        done = run_hermes("chat", "-Q", "-q", "one", home=home, cwd=workdir)
    assert done.returncode == 0, done.stderr
    assert [one.get("reasoning_content") for one in server.requests[1].body["messages"][2:3]] == [""]
