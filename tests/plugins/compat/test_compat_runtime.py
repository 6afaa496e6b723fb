"""The running host under upstream's names: side calls, approvals, interrupts, sessions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hermes.base.config.schema.sections import AuxiliaryConfig, AuxiliaryTaskConfig
from hermes.journal.sessions import Sessions
from hermes.journal.turns.steps import PLUGIN_KEY
from hermes.testing import ScriptedProvider, text, tool_call
from support import HostFactory
from support.compat_rig import namespace
from support.configured import configured_host
from support.plugin_rig import Rig
from support.waiting import wait_until


def write(home: Path, source: str, key: str = "p") -> None:
    folder = home / "plugins" / key
    folder.mkdir(parents=True)
    (folder / "plugin.yaml").write_text("")
    (folder / "__init__.py").write_text(source)


CALLS = """
import asyncio, threading
from agent.auxiliary_client import call_llm, async_call_llm, extract_content_or_reasoning

def ask():
    return extract_content_or_reasoning(call_llm("compression", messages=[{"role": "user", "content": "hi"}]))

def register(ctx):
    ctx.register_command("ask", lambda raw: ask())
    ctx.register_command("later", lambda raw: async_ask())
    ctx.register_command("choose", lambda raw: call_llm(model="other", messages=[{"role": "user", "content": "hi"}]))
    ctx.register_command("key", lambda raw: call_llm(api_key="k", messages=[]))
    ctx.register_hook("pre_llm_call", lambda **kw: {"context": ask()})

async def async_ask():
    response = await async_call_llm(messages=[{"role": "user", "content": "hi"}], temperature=0.1, max_tokens=9)
    return f"{response.choices[0].message.content} {response.usage.total_tokens > 0}"
"""


def test_side_calls_are_the_hosts_with_the_permissions_of_the_plugin(make_host: HostFactory, home: Path) -> None:
    write(home, CALLS)
    script = [text("one"), text("two"), text("<think>hm</think>three"), text("the answer")]
    with ScriptedProvider(script) as provider:
        host = make_host(provider, plugins=["p"])
        commands = host.plugins.commands
        assert commands["ask"].handler("") == "one"
        assert host.hooks.loop.run(commands["later"].handler(""), "test") == "two True"
        with pytest.raises(PermissionError, match=r"plugins.entries.p.llm"):
            commands["choose"].handler("")
        with pytest.raises(Exception, match="api_key"):
            commands["key"].handler("")
        session = host.new_session()
        assert session.run("go").answer == "the answer"
        assert provider.requests[1].body["max_tokens"] == 9
        assert "three" in str(provider.requests[3].messages[-1]["content"])

        def recorded() -> list[str]:
            rows = Sessions(host.store).model_calls(session.id)
            return [row["key"] for row in rows if not row["key"].startswith("model")]

        wait_until(lambda: recorded() == [f"{PLUGIN_KEY}p"], "the side call is recorded")


def test_the_task_of_a_side_call_selects_its_model(home: Path, workdir: Path) -> None:
    write(home, CALLS)
    tasks: dict[str, Any] = {"compression": AuxiliaryTaskConfig(model="small", max_tokens=77)}
    settings: dict[str, Any] = {"auxiliary": AuxiliaryConfig(tasks=tasks), "options": {"plugins": ["p"]}}
    with (
        ScriptedProvider([text("one"), text("two")]) as provider,
        configured_host(home, workdir, provider, **settings) as host,
    ):
        commands = host.plugins.commands
        assert commands["ask"].handler("") == "one"
        assert host.hooks.loop.run(commands["later"].handler(""), "test") == "two True"
    asked, later = provider.requests
    assert (asked.body["model"], asked.body["max_tokens"]) == ("small", 77)
    assert later.body["model"] != "small", "no task: the model of the conversation"


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ({"content": "plain"}, "plain"),
        ({"content": "<thinking>x</thinking> after"}, "after"),
        ({"content": "", "reasoning": " why "}, "why"),
        ({"content": None, "reasoning_content": "because"}, "because"),
        ({"content": None}, ""),
    ],
)
def test_the_text_of_an_answer(rig: Rig, message: dict[str, Any], expected: str) -> None:
    from hermes.contract.response import chat_response

    extract = namespace(rig, "agent.auxiliary_client").extract_content_or_reasoning
    assert extract(chat_response({"choices": [{"message": message}]})) == expected


GUARD = """
from tools.approval import check_dangerous_command, request_tool_approval, _get_approval_mode
from tools.interrupt import is_interrupted

def register(ctx):
    schema = {"description": "d", "parameters": {"type": "object", "properties": {"command": {"type": "string"}}}}
    ctx.register_tool("checked", "mine", schema, check)

def check(args, **kw):
    import json
    answer = check_dangerous_command(args["command"], "local")
    return json.dumps({**answer, "mode": _get_approval_mode(), "interrupted": is_interrupted(),
                       "asked": request_tool_approval("checked", "because")["approved"]})
"""


def test_commands_are_judged_by_the_rules_of_the_host(make_host: HostFactory, home: Path) -> None:
    write(home, GUARD)
    script = [
        tool_call("checked", {"command": "ls"}),
        tool_call("checked", {"command": "rm -rf notes"}),
        text("Done."),
    ]
    with ScriptedProvider(script) as provider:
        host = make_host(provider, plugins=["p"], toolsets=["mine"])
        result = host.new_session().run("go")
    first, second = (str(call.result) for call in result.tool_calls)
    assert '"approved": true' in first and '"mode": "manual"' in first and '"interrupted": false' in first
    assert '"approved": false' in second, "nobody can be asked here"
    assert '"asked": false' in first


STATE = """
from hermes_state import SessionDB
from hermes_cli.profiles import get_active_profile_name
from agent.secret_scope import get_secret, current_secret_scope, is_multiplex_active
from agent.delegation_context import is_delegated_child_context
from hermes_constants import get_hermes_home, hermes_home_key
import importlib, importlib.util
from importlib import import_module

def register(ctx):
    ctx.register_command("state", lambda raw: state())

def state():
    db = SessionDB()
    rows = db.list_sessions_rich(limit=5, order_by_last_active=True)
    return {
        "titles": [row["title"] for row in rows],
        "messages": [message["role"] for message in db.get_messages(rows[0]["id"])],
        "profile": get_active_profile_name(),
        "secret": (get_secret("NO_SUCH_SECRET", "default"), current_secret_scope(), is_multiplex_active()),
        "child": is_delegated_child_context(),
        "key": (hermes_home_key(), hermes_home_key(get_hermes_home()), hermes_home_key("/elsewhere")),
        "imported": importlib.import_module("tools.interrupt").is_interrupted(),
        "same": import_module("hermes_state").SessionDB is SessionDB and importlib.util.find_spec("json") is not None,
        "real": importlib.import_module("json").dumps(1),
    }
"""


def test_sessions_profiles_and_secrets_under_upstreams_names(make_host: HostFactory, home: Path) -> None:
    write(home, STATE)
    with ScriptedProvider([text("Hello.")]) as provider:
        host = make_host(provider, plugins=["p"])
        host.new_session().run("Say hello")
        found = host.plugins.commands["state"].handler("")
    own, named, other = found.pop("key")
    assert own == named != other and len(own) == 16
    assert found == {
        "titles": ["Say hello"],
        "messages": ["user", "assistant"],
        "profile": "custom",
        "secret": ("default", None, False),
        "child": False,
        "imported": False,
        "same": True,
        "real": "1",
    }


def test_sessions_of_other_callers_are_not_shown(make_host: HostFactory, home: Path) -> None:
    write(home, STATE)
    with ScriptedProvider([text("Secret."), text("Hello.")]) as provider:
        host = make_host(provider, plugins=["p"])
        other = host.new_session(principal="bob")
        other.run("bob's")
        host.new_session().run("mine")
        assert host.plugins.commands["state"].handler("")["titles"] == ["mine"]
        with pytest.raises(Exception, match="no session"):
            host.services.session_messages(other.id)
