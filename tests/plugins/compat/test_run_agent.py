"""``run_agent.AIAgent``: agents that plugins start are sessions of the host."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hermes.base.errors import PluginError, SessionNotFound
from hermes.base.scope import Scope, current_scope
from hermes.host import Host
from hermes.testing import ScriptedProvider, text, tool_call
from support import HostFactory
from support.configured import write_plugin

PLUGIN = """
from hermes_cli.runtime_provider import has_named_custom_provider, resolve_runtime_provider
from run_agent import AIAgent

HEARD = []


def work(details):
    runtime = resolve_runtime_provider(target_model="any")
    agent = AIAgent(model=runtime["model"], api_key=runtime["api_key"], quiet_mode=True, **details.pop("agent", {}))
    return agent, agent.run_conversation(**details)


def register(ctx):
    ctx.register_command("work", work)
    ctx.register_command("chat", lambda message: AIAgent().chat(message, HEARD.append))
    ctx.register_command("runtime", lambda _: (resolve_runtime_provider(), has_named_custom_provider("mine")))
    ctx.register_tool("ask_self", "mine", {"name": "ask_self", "description": "x", "parameters": {"type": "object"}},
                      lambda args, **kw: AIAgent(session_id=kw["session_id"]).chat("hi"))
    ctx.register_hook("pre_llm_call", lambda **kw: HEARD.append((kw["session_id"], kw["platform"])))
"""


def command(host: Host, name: str, arguments: Any) -> Any:
    return host.plugins.commands[name].handler(arguments)


def test_it_runs_a_turn_in_a_session_of_its_own(make_host: HostFactory, home: Path) -> None:
    write_plugin(home, "starter", PLUGIN)
    with ScriptedProvider([text("first"), text("second")]) as provider:
        host = make_host(provider, plugins=["starter"])
        given = {"session_id": "chat:7", "platform": "pigeon", "ephemeral_system_prompt": "Be brief."}
        history = [{"role": "user", "content": "I am Ann."}, {"role": "assistant", "content": "Hello."}]
        asked = {"user_message": "Who?", "system_message": "Be kind.", "conversation_history": history, "agent": given}
        agent, result = command(host, "work", asked)
        _, again = command(host, "work", {"user_message": "And now?", "conversation_history": history, "agent": given})
        heard = host.plugins.commands["work"].handler.__globals__["HEARD"]
    assert (result["final_response"], result["completed"], result["error"]) == ("first", True, None)
    assert (agent.session_id, agent.model, result["api_calls"]) == ("chat:7", "scripted", 1)
    assert [one["content"] for one in again["messages"]][-4:] == ["Who?", "first", "And now?", "second"]
    assert heard == [("chat:7", "pigeon")] * 2
    first, second = (str(request.messages[-1]["content"]) for request in provider.requests)
    assert "Be kind." in first and "Be brief." in first and "user: I am Ann.\nassistant: Hello." in first
    assert "I am Ann." not in second  # the session knows what was said in it


def test_it_has_only_the_tools_that_it_is_given(make_host: HostFactory, home: Path) -> None:
    write_plugin(home, "starter", PLUGIN)
    with ScriptedProvider([text("a"), text("b")]) as provider:
        host = make_host(provider, plugins=["starter"])
        command(host, "work", {"user_message": "hi", "agent": {"enabled_toolsets": ["mine"]}})
        command(host, "work", {"user_message": "hi", "agent": {"disabled_toolsets": ["mine", "terminal"]}})
    offered = [{tool["function"]["name"] for tool in one.body.get("tools", ())} for one in provider.requests]
    assert offered[0] == {"ask_self"}
    assert "read_file" in offered[1] and not offered[1] & {"ask_self", "terminal"}


def test_its_answer_and_its_model(make_host: HostFactory, home: Path) -> None:
    write_plugin(home, "starter", PLUGIN)
    with ScriptedProvider([text("hello")]) as provider:
        host = make_host(provider, plugins=["starter"])
        assert command(host, "chat", "hi") == "hello"
        heard = host.plugins.commands["work"].handler.__globals__["HEARD"]
        runtime, has_provider = command(host, "runtime", "")
    assert heard[-1] == "hello"
    assert (runtime["provider"], runtime["model"], runtime["api_key"]) == ("custom", "scripted", None)
    assert runtime["base_url"] == provider.base_url and not has_provider


def test_a_session_does_not_ask_itself(make_host: HostFactory, home: Path) -> None:
    write_plugin(home, "starter", PLUGIN)
    with ScriptedProvider([tool_call("ask_self", {}), text("done")]) as provider:
        result = make_host(provider, plugins=["starter"]).new_session().run("go")
    assert "cannot be asked from within" in result.tool_calls[0].result


def test_a_caller_does_not_reach_the_session_of_another(make_host: HostFactory, home: Path) -> None:
    write_plugin(home, "starter", PLUGIN)
    with ScriptedProvider([text("mine")]) as provider:
        host = make_host(provider, plugins=["starter"])
        command(host, "work", {"user_message": "hi", "agent": {"session_id": "of-the-owner"}})
        token = current_scope.set(Scope(platform="api", principal="bob"))
        try:
            with pytest.raises(SessionNotFound):
                command(host, "work", {"user_message": "hi", "agent": {"session_id": "of-the-owner"}})
        finally:
            current_scope.reset(token)


def test_an_id_that_begins_another_one_is_a_new_session(make_host: HostFactory, home: Path) -> None:
    write_plugin(home, "starter", PLUGIN)
    with ScriptedProvider([text("ten"), text("one")]) as provider:
        host = make_host(provider, plugins=["starter"])
        command(host, "work", {"user_message": "I am ten.", "agent": {"session_id": "chat:10"}})
        _, result = command(host, "work", {"user_message": "I am one.", "agent": {"session_id": "chat:1"}})
    assert [one["content"] for one in result["messages"]] == ["I am one.", "one"]


def test_a_host_of_a_test_starts_none(make_host: HostFactory) -> None:
    with ScriptedProvider([]) as provider:
        services = make_host(provider).services
        services.new_session = None
        with pytest.raises(PluginError, match="starts no agents"):
            services.agent_session("x", "")
