"""Who answers, with which tools, under which rules: changed for one session, from its next message on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hermes.agent.llm.side_call import SideModel
from hermes.base.config.schema.sections import FallbackConfig, ModelProviderConfig
from hermes.base.scope import Scope
from hermes.plugins.context import PluginContext
from hermes.surfaces.cli.repl.prompt.completion import commands_to_complete
from hermes.testing import ScriptedProvider, text
from support import HostFactory
from support.surfaces import Prompt


def requested(provider: ScriptedProvider, number: int) -> dict[str, Any]:
    return provider.requests[number].body


def test_the_model_changes_from_the_next_message_on(make_host: HostFactory) -> None:
    with ScriptedProvider([text("one"), text("two"), text("three"), text("four")]) as provider:
        host = make_host(provider)
        host.config.providers["other"] = ModelProviderConfig(
            base_url=provider.base_url, model="theirs", models=["a", "b:7"]
        )
        host.config.fallback_providers.append(FallbackConfig(provider="other", model="spare"))
        prompt = Prompt(host)
        prompt.session.run("hello")
        assert prompt.type("/model smarter") == "From the next message on: smarter (custom)"
        prompt.session.run("again")
        prompt.type("/model other:b:7")
        prompt.session.run("again")
        row = host.sessions.get(prompt.session.id)
        assert (row.provider, row.model) == ("other", "b:7")
        prompt.type("/model other")
        prompt.type("/new")  # a person's choice of model goes along
        prompt.session.run("again")
        shown = prompt.type("/model")
    assert [requested(provider, n)["model"] for n in range(4)] == ["scripted", "smarter", "b:7", "theirs"]
    assert shown.splitlines()[:2] == ["Model: theirs (other)", "When it fails: spare (other)"]
    assert [line.strip() for line in shown.splitlines()[4:9]] == [
        "custom:scripted",
        "other:theirs",
        "other:a",
        "other:b:7",
        "other:spare",
    ]


def test_a_model_may_have_a_colon_and_be_given_in_two_words(make_host: HostFactory) -> None:
    with ScriptedProvider([]) as provider:
        host = make_host(provider)
        prompt = Prompt(host)
        assert prompt.type("/model llama3:8b").endswith("llama3:8b (custom)")
        assert prompt.type("/model ollama llama3:8b").endswith("llama3:8b (ollama)")
        assert prompt.type("/model ollama:llama3:8b").endswith("llama3:8b (ollama)")
        assert "unknown provider 'olama'" in prompt.refused("/model olama llama3")
        assert "takes a model" in prompt.refused("/model a b c")
        assert prompt.session.models.model == "llama3:8b"
        assert not host.store.exists()  # a session that said nothing yet leaves no trace


def test_reasoning_is_shown_hidden_and_asked_for(make_host: HostFactory) -> None:
    with ScriptedProvider([text("one"), text("two"), text("three")]) as provider:
        prompt = Prompt(make_host(provider))
        assert prompt.type("/reasoning") == "Reasoning is hidden; effort: the model decides"
        prompt.type("/reasoning show")
        assert prompt.surface.show_reasoning
        prompt.session.run("hello")
        assert prompt.type("/reasoning high") == "Effort from the next message on: high"
        prompt.type("/model smarter")  # keeps it
        prompt.session.run("again")
        prompt.type("/reasoning default")
        prompt.session.run("again")
        assert "takes show, hide, none" in prompt.refused("/reasoning lots")
    efforts = [requested(provider, n).get("reasoning_effort") for n in range(3)]
    assert efforts == [None, "high", None]


def test_the_configured_effort_is_the_default_for_conversations_children_and_side_jobs(make_host: HostFactory) -> None:
    with ScriptedProvider([text("one"), text("two")]) as provider:
        host = make_host(provider)
        host.config.agent.reasoning_effort = "low"
        host.config.delegation.reasoning_effort = "medium"
        session = host.new_session()
        session.run("hello")
        assert host.models.children(session.models).reasoning_effort == "medium"
        SideModel(host.models, host.store).ask(
            "compression", [{"role": "user", "content": "x"}], scope=Scope(), main=session.models.endpoints
        )
    assert requested(provider, 0)["reasoning_effort"] == "low"
    assert "reasoning_effort" not in requested(provider, 1)


def test_tools_are_taken_away_and_given_back(make_host: HostFactory) -> None:
    def offered(number: int) -> set[str]:
        return {tool["function"]["name"] for tool in requested(provider, number).get("tools", [])}

    with ScriptedProvider([text("one"), text("two"), text("three")]) as provider:
        host = make_host(provider, toolsets=["terminal", "file"])
        prompt = Prompt(host)
        prompt.session.run("hello")
        assert "5 tools" in prompt.type("/tools disable terminal")
        prompt.session.run("hello")
        assert "\n  -  terminal " in f"\n{prompt.type('/tools')}"
        prompt.type("/toolsets disable file")
        prompt.type("/toolsets enable terminal")
        prompt.session.run("hello")
        shown = f"\n{prompt.type('/toolsets')}"
        assert "\n  +  terminal " in shown and "\n  -  file " in shown and "\n  ~  all " in shown
        assert "did you mean 'terminal'?" in prompt.refused("/tools enable termnal")
        assert "no toolset 'magic'" in prompt.refused("/toolsets enable magic")
        for wrong in ("/tools terminal", "/tools enable", "/toolsets off file"):
            assert "takes enable or disable and names" in prompt.refused(wrong)
        assert len(host.new_session().offered) == 6  # another session has its own
    assert offered(0) == {"terminal", "process", "read_file", "write_file", "patch", "search_files"}
    assert offered(1) == offered(0) - {"terminal"}
    assert offered(2) == {"terminal", "process"}


def test_every_tool_that_is_not_offered_says_why(make_host: HostFactory) -> None:
    class Weather:
        name = "weather"

        def register(self, ctx: PluginContext) -> None:
            parameters: dict[str, Any] = {"type": "object", "properties": {}}
            schema = {"name": "weather", "description": "", "parameters": parameters}
            ctx.register_tool("weather", "weather", schema, self.forecast, requires_env=["WEATHER_KEY_OF_TESTS"])

        def forecast(self, args: dict[str, Any], **_kwargs: Any) -> str:
            return ""

    with ScriptedProvider([]) as provider:
        host = make_host(provider, toolsets=["default"], plugin_objects=[Weather()])
        host.config.agent.disabled_toolsets.append("todo")
        prompt = Prompt(host)
        prompt.type("/tools disable read_file todo")
        rows = [line.split(maxsplit=3) for line in prompt.type("/tools").splitlines() if line.startswith("  -")]
        why = {row[1]: row[3] if len(row) > 3 else "" for row in rows}
        missing = prompt.type("/tools enable web_search")
    assert why["web_search"].startswith("needs a search provider")
    assert why["execute_code"].startswith("on request: hermes config set toolsets")
    assert why["skill_view"].startswith("needs a skill")
    assert why["todo"] == "agent.disabled_toolsets leaves it out"
    assert why["read_file"] == "not among the toolsets of this session"
    assert "needs WEATHER_KEY_OF_TESTS" in why["weather"]
    assert "web_fetch" not in why
    assert all(why.values()), why
    assert "Not these: web_search needs a search provider" in missing


def test_what_may_follow_a_command_is_known_for_completion(make_host: HostFactory) -> None:
    with ScriptedProvider([]) as provider:
        host = make_host(provider, toolsets=["file"])
        conversation = Prompt(host).conversation
        words = {command.name: command.words for command in commands_to_complete(conversation)}
    assert words["approve"] == ("once", "session", "always") and words["stop"] == ()
    assert "undo" in words["help"] and words["model"] == ("custom:scripted",)
    assert {"enable terminal", "disable patch"} <= set(words["tools"])
    assert {"enable terminal", "disable file", "enable all"} <= set(words["toolsets"])
    assert words["config"][0] == "model" and "agent.max_turns" in words["config"]
    assert words["resume"] == ()


def test_yolo_is_for_one_session(make_host: HostFactory) -> None:
    with ScriptedProvider([]) as provider:
        host = make_host(provider)
        prompt = Prompt(host)
        session_id = prompt.session.id
        prompt.type("/yolo")
        assert host.approvals.modes.of(session_id) == "yolo"
        assert "yolo" in prompt.type("/status")
        prompt.type("/yolo off")
        assert host.approvals.modes.of(session_id) != "yolo"
        prompt.type("/yolo on")
        assert "takes on or off" in prompt.refused("/yolo perhaps")
        prompt.type("/new")
        assert host.approvals.modes.of(prompt.session.id) != "yolo"


def test_the_mode_is_shown_and_changed(make_host: HostFactory) -> None:
    with ScriptedProvider([]) as provider:
        host = make_host(provider, sandbox="off")
        prompt = Prompt(host)
        assert "* ask-risky " in prompt.type("/mode") and "  plan " in prompt.type("/mode")
        assert prompt.type("/mode plan").startswith("Mode plan: ")
        assert host.approvals.modes.of(prompt.session.id) == "plan"
        assert "mode plan" in prompt.type("/status")
        assert "This session has no sandbox, so it behaves as ask-risky." in prompt.type("/mode auto")
        refused = prompt.refused("/mode careless")
        assert "takes plan, ask, ask-risky, accept-edits, auto, yolo, not 'careless'" in refused
        prompt.type("/new")
        assert host.approvals.modes.of(prompt.session.id) == "ask-risky"


def test_config_shows_what_differs_or_what_is_asked_for_without_secrets(make_host: HostFactory) -> None:
    with ScriptedProvider([]) as provider:
        prompt = Prompt(make_host(provider))
        changed = prompt.type("/config")
        assert 'model.default: "scripted"' in changed and "max_turns" not in changed
        assert "test-key" not in changed and "model.api_key" in changed
        assert prompt.type("/config agent.max_turns") == "agent.max_turns: 90  # default"
        assert "agent.max_verify_nudges" in prompt.type("/config agent")
        assert "is not a known setting" in prompt.refused("/config agent.max_turn")


def test_status_and_usage_tell_where_the_session_stands(make_host: HostFactory) -> None:
    spent = {"prompt_tokens": 1_200, "completion_tokens": 30, "cost": 0.5}
    with ScriptedProvider([text("one", usage=spent), text("a summary", usage=spent)]) as provider:
        host = make_host(provider)
        prompt = Prompt(host)
        assert prompt.type("/usage") == "Nothing was spent yet."
        session = prompt.session
        session.run("Count the words")
        scope = Scope(session_id=session.id)
        ask = [{"role": "user", "content": "x"}]
        SideModel(host.models, host.store).ask("compression", ask, scope=scope, main=session.models.endpoints)
        prompt.surface.is_working = True
        prompt.surface.waiting.append("more")
        status, usage = prompt.type("/status"), prompt.type("/usage")
    facts = dict(line.split(None, 1) for line in status.splitlines())
    assert facts["Session"] == session.id and facts["Title"] == "Count the words"
    assert facts["Model"] == "scripted (custom)" and facts["State"] == "working, 1 message waiting"
    assert facts["Context"] == "2 messages, 1,200 of 128,000 tokens (1%)"
    assert facts["Spent"] == "2,400 tokens read, 60 written, $1.0000"
    lines = [line.split() for line in usage.splitlines()]
    assert lines[1] == ["conversation", "scripted", "1", "1,200", "0", "30", "$0.5000"]
    assert lines[2] == ["side", "job", "compression", "scripted", "1", "1,200", "0", "30", "$0.5000"]
    assert usage.endswith("Together: 2,400 tokens read, 60 written, $1.0000")


def test_plugins_are_listed_with_their_commands(make_host: HostFactory, home: Any) -> None:
    folder = home / "plugins" / "greeter"
    folder.mkdir(parents=True)
    (folder / "plugin.yaml").write_text("name: greeter\nversion: 1.2.3\n")
    (folder / "__init__.py").write_text(
        "def register(ctx):\n"
        "    ctx.register_command('greet', lambda raw: 'hello ' + raw)\n"
        "    ctx.register_command('new', lambda raw: 'mine')\n"
    )
    with ScriptedProvider([]) as provider:
        assert "No plugins" in Prompt(make_host(provider)).type("/plugins")
        prompt = Prompt(make_host(provider, plugins=["greeter"]))
        assert prompt.type("/plugins").split() == ["greeter", "1.2.3", "loaded", "/greet"]
        assert prompt.type("/greet you") == "hello you"
        [plugin] = prompt.host.plugins.loaded
    assert plugin.problems == ["command /new is the runtime's own; it was not replaced"]


def test_a_plugin_may_take_the_name_of_a_command_that_upstream_lacks(
    make_host: HostFactory, home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = home / "plugins" / "money"
    folder.mkdir(parents=True)
    (folder / "plugin.yaml").write_text("name: money\n")
    (folder / "__init__.py").write_text(
        "def register(ctx):\n    ctx.register_command('budget', lambda raw: 'nothing left for ' + raw)\n"
    )
    with ScriptedProvider([]) as provider:
        own = Prompt(make_host(provider)).type("/budget")
        assert Prompt(make_host(provider)).type("/hermes:budget") == own
        prompt = Prompt(make_host(provider, plugins=["money"]))
        assert prompt.type("/budget you") == "nothing left for you"
        assert prompt.type("/hermes:budget") == own
        assert "/hermes:budget" in prompt.type("/help")
        [plugin] = prompt.host.plugins.loaded
    assert plugin.problems == []
    assert "plugin 'money': its command /budget comes before the runtime's, which is /hermes:budget now" in caplog.text
