"""What the executor makes of a message, and what it asks the model for."""

from __future__ import annotations

import asyncio
import logging
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.surfaces.a2a import HermesA2AExecutor
from hermes.surfaces.a2a.executor import executor
from hermes.testing import ScriptedCall, ScriptedProvider, ScriptedReply, raw, reasoning, text, tool_calls
from support.executor_rig import Answering, Events, ask, completion, data_part, request

TOOL: dict[str, Any] = {
    "type": "function",
    "function": {"name": "look", "description": "Looks.", "parameters": {"type": "object", "properties": {}}},
}
SCHEMA: dict[str, Any] = {"type": "json_schema", "json_schema": {"name": "point", "schema": {"type": "object"}}}


def reply_to(reply: ScriptedReply | str, *parts: Any, model: str = "hermes-4", **options: Any) -> str:
    with ScriptedProvider(reply) as provider:
        return ask(HermesA2AExecutor(model, base_url=provider.base_url, **options), *(parts or ("hello",)))


def document(**message: Any) -> ScriptedReply:
    """An answer whose message is exactly this."""
    body = {"choices": [{"index": 0, "message": {"role": "assistant", **message}, "finish_reason": "stop"}]}
    return raw(msgspec.json.encode(body), content_type="application/json")


# -- the model ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "model", ["nousresearch/hermes-4-0", "nous-hermes-4", "NOUSRESEARCH/HERMES-4", "hermes4-fine-tuned", "hermes-4-70b"]
)
def test_hermes_4_reasons(model: str) -> None:
    assert executor.ProviderConfig(model).reasoning_supported


@pytest.mark.parametrize("model", ["", "nousresearch/hermes-3-llama-3.1-70b", "gpt-4o", "mixtral", "hermes"])
def test_other_models_do_not_reason(model: str) -> None:
    assert not executor.ProviderConfig(model).reasoning_supported


def test_provider_config_is_immutable() -> None:
    known = executor.ProviderConfig("gpt-4o")
    assert executor.ProviderConfig.__slots__ == ("model", "reasoning_supported")
    with pytest.raises(AttributeError):
        known.reasoning_supported = True  # pyright: ignore[reportAttributeAccessIssue]


# -- the messages ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "system"),
    [
        ({}, []),
        ({"system_prompt": ""}, []),
        ({"system_prompt": "Be kind."}, ["Be kind."]),
        ({"system_blocks": ["persona", "tools", "policy"]}, ["persona", "tools", "policy"]),
        ({"system_blocks": ["persona", None, "", "policy"]}, ["persona", "policy"]),
        ({"system_blocks": ["persona"], "system_prompt": "Be kind."}, ["persona"]),
        ({"system_blocks": [], "system_prompt": "Be kind."}, []),
        ({"system_blocks": [None, ""], "system_prompt": "Be kind."}, []),
    ],
)
def test_system_messages_come_first_one_for_each_block(options: dict[str, Any], system: list[str]) -> None:
    with ScriptedProvider("fine") as provider:
        ask(HermesA2AExecutor("gpt-4o", base_url=provider.base_url, **options), "hello")
        expected = [{"role": "system", "content": block} for block in system]
        assert provider.requests[0].messages == [*expected, {"role": "user", "content": "hello"}]


def test_lists_are_copied_and_the_response_format_is_not() -> None:
    blocks: list[str | None] = ["persona"]
    tools = [TOOL]
    client = Answering(completion("fine"))
    made = HermesA2AExecutor("gpt-4o", system_blocks=blocks, tools=tools, response_format=SCHEMA, _client=client)
    blocks.append("more")
    tools.clear()
    ask(made, "hello")
    assert client.asked[0]["messages"][:-1] == [{"role": "system", "content": "persona"}]
    assert client.asked[0]["tools"] == [TOOL]
    assert client.asked[0]["response_format"] is SCHEMA
    assert (made.model, made.system_prompt) == ("gpt-4o", None)


def test_text_parts_are_joined_by_a_blank() -> None:
    with ScriptedProvider("fine") as provider:
        made = HermesA2AExecutor("gpt-4o", base_url=provider.base_url)
        ask(made, " read", data_part({"path": "a.txt"}), "the file ")
        assert provider.requests[0].last_user_text == "read the file"


@pytest.mark.parametrize("parts", [[], [""], ["  ", "\n"], [data_part({"text": "not this"})]])
def test_a_message_without_text_is_refused(parts: list[Any], caplog: pytest.LogCaptureFixture) -> None:
    client = Answering(completion("fine"))
    bad: Any = "json"
    made = HermesA2AExecutor("gpt-4o", response_format=bad, _client=client)  # the lesser of its worries
    assert ask(made, *parts) == "Error: message contained no text content."
    assert client.asked == []
    assert "no text in message parts" in caplog.text


def test_a_request_without_a_message_is_refused() -> None:
    events = Events()
    made = HermesA2AExecutor("gpt-4o", _client=Answering(completion("fine")))
    asyncio.run(made.execute(request(message=False), events))
    assert events.reply == "Error: message contained no text content."


# -- the request ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("model", "reasons"), [("hermes-4", True), ("hermes-3", False)])
def test_the_request_has_nothing_that_was_not_asked_for(model: str, reasons: bool) -> None:
    with ScriptedProvider("fine") as provider:
        ask(HermesA2AExecutor(model, base_url=provider.base_url, tools=[]), "hello")
        (sent,) = provider.requests
    expected: dict[str, Any] = {"model": model, "messages": [{"role": "user", "content": "hello"}]}
    assert sent.body == expected | ({"reasoning": {"enabled": True}} if reasons else {})


@pytest.mark.parametrize(
    ("model", "extra"), [("hermes-4", {"reasoning": {"enabled": True}}), ("hermes-3", None), ("gpt-4o", None)]
)
def test_the_arguments_of_a_client_call(model: str, extra: Any) -> None:
    client = Answering(completion("fine"))
    ask(HermesA2AExecutor(model, _client=client), "hello")
    assert client.asked == [
        {"model": model, "messages": [{"role": "user", "content": "hello"}], "extra_body": extra},
    ]


def test_tools_and_response_format_go_out_as_they_are() -> None:
    other = {"type": "function", "function": {"name": "listen"}}
    with ScriptedProvider("fine") as provider:
        ask(
            HermesA2AExecutor("hermes-3", base_url=provider.base_url, tools=[TOOL, other], response_format=SCHEMA), "hi"
        )
        body = provider.requests[0].body
    assert body["tools"] == [TOOL, other]
    assert body["response_format"] == SCHEMA
    assert set(body) == {"model", "messages", "tools", "response_format"}


# -- response formats -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given",
    [
        {"type": "text"},
        {"type": "json_object"},
        SCHEMA,
        {"type": "json_schema", "json_schema": {"name": "point"}},
        {"type": "json_schema", "json_schema": {"name": "point", "schema": None}},
    ],
)
def test_good_response_formats(given: dict[str, Any]) -> None:
    client = Answering(completion("fine"))
    assert ask(HermesA2AExecutor("gpt-4o", response_format=given, _client=client), "hello") == "fine"
    assert client.asked[0]["response_format"] is given


TYPES = "type must be one of ['json_object', 'json_schema', 'text'], got "


@pytest.mark.parametrize(
    ("given", "detail"),
    [
        ({}, TYPES + "None"),
        ({"type": "xml"}, TYPES + "'xml'"),
        ({"type": ["text"]}, TYPES + "['text']"),
        ({"type": "json_schema"}, "json_schema must be a dict when type='json_schema'"),
        ({"type": "json_schema", "json_schema": []}, "json_schema must be a dict when type='json_schema'"),
        ({"type": "json_schema", "json_schema": {}}, "json_schema.name must be a string"),
        ({"type": "json_schema", "json_schema": {"name": 1, "schema": []}}, "json_schema.name must be a string"),
        (
            {"type": "json_schema", "json_schema": {"name": "point", "schema": []}},
            "json_schema.schema must be a dict if present",
        ),
        ("json_object", "must be a dict, got str"),
        ([], "must be a dict, got list"),
    ],
)
def test_bad_response_formats(given: Any, detail: str) -> None:
    client = Answering(completion("fine"))
    made = HermesA2AExecutor("gpt-4o", response_format=given, _client=client)
    assert ask(made, "hello") == f"Error: invalid response_format \u2014 {detail}"
    assert client.asked == []


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.sampled_from(["json_schema", "text"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["type", "json_schema", "name", "schema", "x"]), inner, max_size=4)
    ),
    max_leaves=8,
)


@given(JSON)
def test_any_response_format_is_sent_or_refused(given: Any) -> None:
    client = Answering(completion("fine"))
    reply = ask(HermesA2AExecutor("gpt-4o", response_format=given, _client=client), "hello")
    assert reply == "fine" or (reply.startswith("Error: invalid response_format") and not client.asked)


# -- the reply ------------------------------------------------------------------------------------------------------


def test_the_answer_is_the_reply() -> None:
    assert reply_to(text("  Hello there.\n")) == "Hello there."


@pytest.mark.parametrize("content", [None, "", " \n "])
def test_an_answer_without_text(content: str | None) -> None:
    assert reply_to(document(content=content)) == "(no response generated)"


def test_a_lone_surrogate_does_not_fail_the_reply() -> None:
    assert ask(HermesA2AExecutor("gpt-4o", _client=Answering(completion("a\ud800b"))), "hello") == "a?b"


def test_reasoning_is_logged_and_never_in_the_reply(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "hermes.a2a")
    assert reply_to(reasoning("because " * 50, "Hello.")) == "Hello."
    (record,) = [record for record in caplog.records if "reasoning trace" in record.getMessage()]
    shown = ("because " * 50)[:200]
    assert record.getMessage() == f"hermes_executor: reasoning trace [model=hermes-4 len=400]: {shown}..."


def test_reasoning_details_alone_count_as_reasoning(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "hermes.a2a")
    assert reply_to(document(content="Hello.", reasoning_details=[{"type": "reasoning.encrypted"}])) == "Hello."
    assert "reasoning trace [model=hermes-4 len=0]: ..." in caplog.text


def test_no_reasoning_no_trace(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "hermes.a2a")
    assert reply_to("Hello.") == "Hello."
    assert "reasoning" not in caplog.text


@pytest.mark.parametrize(
    ("content", "reply"),
    [
        ("<think>SECRET</think>Hello.", "Hello."),
        ("\n<think>\nSECRET\n</think>\n\nHello.", "Hello."),
        ("<think>SECRET", "(no response generated)"),
        ("<think>SECRET</think>", "(no response generated)"),
        ("SECRET</think>Hello.", "Hello."),
        ("One.<think>SECRET</think> Two.<think>SECRET</think>", "One. Two."),
        ("<think>SECRET</think>One.<think>SECRET<think>SECRET</think> Two.", "One. Two."),
        ("The tag <think> opens a block.", "The tag <think> opens a block."),
    ],
)
@pytest.mark.parametrize("own_client", [True, False])
def test_inline_reasoning_is_taken_out(content: str, reply: str, own_client: bool) -> None:
    if own_client:
        assert reply_to(text(content)) == reply
    else:
        client = Answering(completion(content))
        assert ask(HermesA2AExecutor("hermes-4", _client=client), "hello") == reply


def test_a_model_that_does_not_reason_may_write_about_the_tag() -> None:
    assert reply_to(text("Close it with </think>."), model="gpt-4o") == "Close it with </think>."


def test_inline_reasoning_is_logged_as_reasoning(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "hermes.a2a")
    reply_to(text("<think>\nhmm\n</think>Hello."))
    assert "hmm" in caplog.text


# -- tool calls -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", [None, "", " \n", "<think>which one?</think>"])
def test_tool_calls_are_the_reply(content: str | None, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "hermes.a2a")
    calls = [ScriptedCall("look", '{"at": 1}', "call_b"), ScriptedCall("listen", {}, "call_a")]
    reply = reply_to(tool_calls(calls, content=content), tools=[TOOL])
    assert msgspec.json.decode(reply) == [
        {"id": "call_b", "type": "function", "function": {"name": "look", "arguments": '{"at": 1}'}},
        {"id": "call_a", "type": "function", "function": {"name": "listen", "arguments": "{}"}},
    ]
    assert "hermes_executor: tool_calls response [model=hermes-4 n=2]" in caplog.text


def test_text_wins_over_tool_calls() -> None:
    assert reply_to(tool_calls([("look", {})], content="I would look."), tools=[TOOL]) == "I would look."


def test_defaults_of_an_incomplete_tool_call() -> None:
    client = Answering(completion(None, [SimpleNamespace(), SimpleNamespace(id=None, function=SimpleNamespace())]))
    bare = {"id": "", "type": "function", "function": {"name": "", "arguments": "{}"}}
    assert msgspec.json.decode(ask(HermesA2AExecutor("gpt-4o", _client=client), "hello")) == [bare, bare]


def test_arguments_that_came_as_an_object_are_text_again() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "look", "arguments": {"at": 1}}}
    (written,) = msgspec.json.decode(reply_to(document(content=None, tool_calls=[call])))
    assert written["function"]["arguments"] == '{"at":1}'
