"""The client beside the SDK whose shape it has: what is sent, what comes back, how failures are named."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from typing import Any

import openai
import pytest

from hermes.base.errors import ConfigError
from hermes.surfaces.a2a import HermesA2AExecutor
from hermes.surfaces.a2a.executor.openai_client import DEFAULT_BASE_URL, OpenAIClient
from hermes.testing import ScriptedProvider, ScriptedReply, dropped, failure, hanging, raw, reasoning, tool_call
from support.executor_rig import Events, ask, request

REQUEST: dict[str, Any] = {"model": "hermes-4", "messages": [{"role": "user", "content": "hello"}]}


async def answer_of(client: Any, **more: Any) -> Any:
    try:
        return await client.chat.completions.create(**REQUEST, **more)
    finally:
        await client.close()


def theirs(base_url: str) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=base_url, api_key="test-key", max_retries=0)


def test_the_address_and_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    assert OpenAIClient().base_url == DEFAULT_BASE_URL == "https://openrouter.ai/api/v1"
    with ScriptedProvider("fine") as provider:
        asyncio.run(answer_of(OpenAIClient(base_url=provider.base_url)))
        assert "authorization" not in provider.requests[-1].headers
        monkeypatch.setenv("OPENAI_BASE_URL", provider.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "from-environment")
        asyncio.run(answer_of(OpenAIClient()))
        assert provider.requests[-1].headers["authorization"] == "Bearer from-environment"
        monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
        asyncio.run(answer_of(OpenAIClient(base_url=provider.base_url, api_key="given")))
        assert provider.requests[-1].headers["authorization"] == "Bearer given"
        assert ask(HermesA2AExecutor("m", base_url=provider.base_url, api_key="to the executor"), "hello") == "fine"
        assert provider.requests[-1].headers["authorization"] == "Bearer to the executor"


def test_an_invalid_address_is_a_config_error() -> None:
    with pytest.raises(ConfigError, match="must start with http"):
        HermesA2AExecutor("gpt-4o", base_url="ftp://models")


def test_streams_are_not_offered() -> None:
    with pytest.raises(TypeError, match="does not stream"):
        asyncio.run(answer_of(OpenAIClient(), stream=True))


@pytest.mark.parametrize("reply", [reasoning("hm", "Hello."), tool_call("look", {"at": 1}), "plain"])
def test_responses_have_the_shape_of_the_sdk(reply: ScriptedReply | str) -> None:
    extra = {"extra_body": {"reasoning": {"enabled": True}}}
    with ScriptedProvider(reply) as provider:
        our_answer = asyncio.run(answer_of(OpenAIClient(base_url=provider.base_url), **extra))
        their_answer = asyncio.run(answer_of(theirs(provider.base_url), **extra))
        assert provider.requests[0].body == provider.requests[1].body
    our_message, their_message = our_answer.choices[0].message, their_answer.choices[0].message
    assert our_message.content == their_message.content
    assert our_message.reasoning == getattr(their_message, "reasoning", None)
    assert getattr(our_message, "reasoning_details", None) is None
    for mine, other in zip(our_message.tool_calls or [], their_message.tool_calls or [], strict=True):
        assert (mine.type, mine.function.name, mine.function.arguments) == (
            *(other.type, other.function.name),
            other.function.arguments,
        )


def name_of_failure(client: Any, **more: Any) -> tuple[str, int | None]:
    with pytest.raises(Exception) as caught:
        asyncio.run(answer_of(client, **more))
    return type(caught.value).__name__, getattr(caught.value, "status_code", None)


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 409, 413, 418, 422, 429, 500, 502, 503, 529])
def test_refusals_have_the_names_of_the_sdk(status: int) -> None:
    with ScriptedProvider(failure(status)) as provider:
        our_name = name_of_failure(OpenAIClient(base_url=provider.base_url))
        assert our_name == name_of_failure(theirs(provider.base_url))
        assert our_name[1] == status


def test_no_connection_has_the_name_of_the_sdk() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        base_url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
    our_name = name_of_failure(OpenAIClient(base_url=base_url))
    assert our_name == name_of_failure(theirs(base_url)) == ("APIConnectionError", None)


@pytest.mark.parametrize(
    ("reply", "more", "name"),
    [(dropped(), {}, "APIConnectionError"), (hanging(), {"timeout": 0.2}, "APITimeoutError")],
)
def test_broken_exchanges_have_the_names_of_the_sdk(reply: ScriptedReply, more: dict[str, Any], name: str) -> None:
    with ScriptedProvider(reply) as provider:
        our_name = name_of_failure(OpenAIClient(base_url=provider.base_url), **more)
        assert our_name == name_of_failure(theirs(provider.base_url), **more) == (name, None)


@pytest.mark.parametrize(
    ("code", "name"),
    [("rate_limit_exceeded", "RateLimitError"), ("insufficient_quota", "RateLimitError"), ("x", "InternalServerError")],
)
def test_failures_inside_an_answer_have_a_name_too(code: str, name: str) -> None:
    body = b'{"error": {"message": "no", "code": "%b"}}' % code.encode()
    with ScriptedProvider(raw(body, content_type="application/json")) as provider:
        assert name_of_failure(OpenAIClient(base_url=provider.base_url)) == (name, None)


def test_the_openai_sdk_works_as_the_client() -> None:
    with ScriptedProvider(reasoning("hm", "Hello.")) as provider:

        async def turn() -> None:
            events, client = Events(), theirs(provider.base_url)
            await HermesA2AExecutor("hermes-4", _client=client).execute(request("hello"), events)
            await client.close()
            assert events.reply == "Hello."

        asyncio.run(turn())


def test_openai_and_the_a2a_sdk_are_imported_only_when_used() -> None:
    code = (
        "import sys, hermes.a2a; assert 'a2a' not in sys.modules; "
        "hermes.surfaces.a2a.HermesA2AExecutor('hermes-4'); print('openai' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_a_missing_sdk_is_reported_with_the_install_command() -> None:
    code = (
        "import sys; sys.modules['a2a'] = None\n"
        "try:\n    from hermes.surfaces.a2a import HermesA2AExecutor\nexcept ImportError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "hermes install a2a" in done.stdout
