"""The stand-ins for ``ctx.llm``: scripted answers under the real one's rules, and a record of what was asked."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hermes.base.errors import ProviderError
from hermes.contract.llm import PluginLlmTrustError
from hermes.testing import FakeLlm, PluginHarness, RecordingLlm, ScriptedProvider
from support import HostFactory

PING = [{"role": "user", "content": "ping"}]
SCHEMA = {"type": "object", "required": ["n"]}


def register(ctx: Any) -> None:
    def ask(raw: str) -> str:
        return ctx.llm.complete([{"role": "user", "content": raw}], purpose="ask").text

    async def count(raw: str) -> Any:
        blocks = [{"type": "text", "text": raw}]
        return (await ctx.llm.acomplete_structured(instructions="Count.", input=blocks, json_schema=SCHEMA)).parsed

    ctx.register_command("ask", ask)
    ctx.register_command("count", count)


def test_answers_come_in_order_and_calls_are_kept() -> None:
    llm = FakeLlm(["pong", {"n": 4}, ProviderError("down", reason="server_error")])
    with PluginHarness(register, llm=llm) as harness:
        assert harness.run_command("ask", "ping") == "pong"
        assert harness.run_command("count", "four words are here") == {"n": 4}
        with pytest.raises(ProviderError, match="down"):
            harness.run_command("ask", "again")
        with pytest.raises(AssertionError, match="the script has 3 answers"):
            harness.run_command("ask", "once more")
    first, second, third, _ = llm.calls
    assert (first.method, first.messages, first.options) == ("complete", PING, {"purpose": "ask"})
    assert first.result is not None and first.result.audit == {"plugin_id": "plugin", "purpose": "ask", "profile": ""}
    assert second.method == "acomplete_structured" and second.options["json_schema"] == SCHEMA
    assert isinstance(third.error, ProviderError)


def test_one_answer_may_do_for_all_and_may_depend_on_the_call() -> None:
    llm = FakeLlm(lambda call: f"you said {call.messages[-1]['content']}")
    assert llm.complete(PING).text == "you said ping"
    assert asyncio.run(llm.acomplete(PING)).text == "you said ping"
    assert FakeLlm("x", provider="lab", model="m").complete(PING).model == "m"


def test_the_rules_of_the_real_one_hold() -> None:
    with pytest.raises(ValueError, match="messages are empty"):
        FakeLlm().complete([])
    with pytest.raises(ValueError, match="does not fit json_schema"):
        FakeLlm({"m": 1}).complete_structured(
            instructions="x", input=[{"type": "text", "text": ""}], json_schema=SCHEMA
        )
    with pytest.raises(PluginLlmTrustError, match=r"plugins\.entries\.mine\.llm\.allow_model_override"):
        FakeLlm("x", plugin_id="mine").complete(PING, model="m")
    llm = FakeLlm("x", settings={"allow_model_override": True, "allowed_models": ["M"]})
    assert llm.complete(PING, model="m").model == "m"


def test_a_recorder_passes_on_what_a_host_answers(make_host: HostFactory) -> None:
    with ScriptedProvider("pong") as provider:
        llm = RecordingLlm(make_host(provider).services.llm("plugin"))
        with PluginHarness(register, llm=llm) as harness:
            assert harness.run_command("ask", "ping") == "pong"
            with pytest.raises(ValueError, match="empty"):
                llm.complete_structured(instructions="", input=[])
        assert asyncio.run(llm.acomplete(PING)).text == "pong"
    assert [call.method for call in llm.calls] == ["complete", "complete_structured", "acomplete"]
    assert [call.error is None for call in llm.calls] == [True, False, True]
