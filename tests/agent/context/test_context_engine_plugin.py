"""A plugin's context engine in the place of our own: used as it is meant to be, and survived when it fails."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hermes.agent.context.plan import is_summary
from hermes.base.config import Config, ContextConfig, PluginsConfig
from hermes.base.config.schema.sections import AgentConfig, ModelConfig
from hermes.host import Host, HostOptions
from hermes.journal.usage.plugins import WAITING_SITE
from hermes.testing import ScriptedProvider, text, tool_call
from hermes.testing.scripted.script import RecordedRequest

Build = Callable[..., Host]

ENGINE = """
from agent.context_engine import ContextEngine

CALLS = []


class Tiny(ContextEngine):
    name = "tiny"

    def update_from_response(self, usage):
        CALLS.append(("usage", usage["prompt_tokens"], usage["completion_tokens"]))

    def should_compress(self, prompt_tokens=None):
        return prompt_tokens >= 5_000

    def compress(self, messages, current_tokens=None, focus_topic=None):
        CALLS.append(("compress", len(messages), focus_topic))
        messages[0]["content"] = "scribbled over"
        {body}

    def on_session_start(self, session_id, **details):
        CALLS.append(("start", session_id, details["model"]))

    def on_session_end(self, session_id, messages):
        CALLS.append(("end", session_id, len(messages)))

    def on_session_reset(self):
        CALLS.append(("reset",))

    def update_model(self, model, context_length, **details):
        CALLS.append(("model", model, context_length, details["provider"]))

    def get_status(self):
        return {{"usage_percent": 42.0}}

    def get_tool_schemas(self):
        return [{{"name": "recall", "description": "Look back.", "parameters": {{
            "type": "object", "properties": {{"what": {{"type": "string"}}}}, "required": ["what"]}}}}]

    def handle_tool_call(self, name, args, **details):
        import json
        return json.dumps({{"found": name + " " + args["what"], "messages": len(details["messages"])}})


def register(ctx):
    ctx.register_context_engine(Tiny())
"""
KEEP_THREE = "return messages[-3:]"


@pytest.fixture
def build(home: Path, workdir: Path) -> Generator[Build]:
    """Builds hosts with the engine ``tiny`` whose ``compress`` has that body."""
    with ExitStack() as stack:

        def make(provider: ScriptedProvider, body: str = KEEP_THREE, engine: str = "tiny", **options: Any) -> Host:
            folder = home / "plugins" / "small_windows"
            folder.mkdir(parents=True)
            (folder / "plugin.yaml").write_text("name: small_windows\n")
            (folder / "__init__.py").write_text(ENGINE.format(body=body))
            model = ModelConfig(
                provider="custom", default="scripted", base_url=provider.base_url, context_length=16_000
            )
            config = Config(
                model=model,
                agent=AgentConfig(api_max_retries=0),
                plugins=PluginsConfig(enabled=["small_windows"]),
                context=ContextConfig(engine=engine),
            )
            return stack.enter_context(Host(home, config, HostOptions(**options), cwd=workdir, env={}))

        yield make


def calls(host: Host) -> list[tuple[Any, ...]]:
    """What the engine was told and asked, as it noted itself."""
    plugin = host.plugins.get("small_windows")
    assert plugin is not None
    return sys.modules[type(plugin.in_use[0].value).__module__].CALLS


def answer(_request: RecordedRequest) -> Any:
    return text("Good.", usage={"prompt_tokens": 4_990, "completion_tokens": 5})


def test_the_engine_decides_and_hears_what_it_needs(build: Build) -> None:
    with ScriptedProvider(answer) as provider:
        host = build(provider, toolsets=["file"])
        session = host.new_session()
        session.run("one")
        session.run("x" * 4_000)
        assert [message["content"] for message in provider.requests[1].messages[1:]] == ["one", "Good.", "x" * 4_000][
            -3:
        ]
        session.run("three")
        last = [message["content"] for message in provider.requests[-1].messages[1:]]
        assert session.window.status()["usage_percent"] == 42.0
        session.close(new_session_id="another")
        resumed = host.resume_session(session.id)
    assert last == ["x" * 4_000, "Good.", "three"]
    assert resumed.messages() == session.messages() == host.sessions.context(session.id)
    heard = calls(host)
    assert heard[:2] == [("start", session.id, "scripted"), ("model", "scripted", 16_000, "custom")]
    assert ("usage", 4_990, 5) in heard
    assert [call for call in heard if call[0] == "compress"][-1] == ("compress", 5, None)
    assert heard[-2:] == [("end", session.id, len(session.messages())), ("reset",)]


def test_it_compresses_on_demand_with_the_users_focus(build: Build) -> None:
    with ScriptedProvider(text("Good.")) as provider:
        host = build(provider, toolsets=["file"])
        session = host.new_session()
        for number in range(3):
            session.run(f"number {number}")
        session.compress("the numbers")
        assert len(provider.requests) == 3  # it needs no model of ours
    assert ("compress", 6, "the numbers") in calls(host)
    assert [message["content"] for message in session.messages()] == ["Good.", "number 2", "Good."]


def test_its_tools_are_the_models_tools(build: Build) -> None:
    replies = [tool_call("recall", {"what": "the plan"}), text("Found.")]
    seen: list[str] = []

    def watch(tool_name: str, **_payload: Any) -> None:
        seen.append(tool_name)

    with ScriptedProvider(replies) as provider:
        host = build(provider, toolsets=["file"])
        host.hooks.subscribe("pre_tool_call", "watcher", watch)
        result = host.new_session().run("What was the plan?")
    assert result.answer == "Found."
    assert "recall" in {tool["function"]["name"] for tool in provider.requests[0].body["tools"]}
    found = msgspec.json.decode(provider.requests[1].messages[-1]["content"])
    assert found == {"found": "recall the plan", "messages": 2}
    assert seen == ["recall"]


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ('raise RuntimeError("no idea")', "no idea"),
        ("return None", ""),
        ('messages[0]["content"] = "0 " + "words " * 1_200; return messages', ""),
        ('return "shorter"', "a list of messages is expected"),
        ("return [1, 2]", "something else than messages"),
        ("return messages + messages", "not shorter"),
        (
            'return [{"role": "tool", "tool_call_id": "x", "content": "r"}, {"role": "user", "content": "u"}]',
            "the call",
        ),
        ('return [{"role": "wizard", "content": "abracadabra"}]', "wizard"),
        ('return [{"role": "assistant", "content": "hm"}]', "without any message of the user"),
        ('return [{"role": "user", "content": object()}]', "cannot be sent"),
    ],
)
def test_an_engine_that_fails_is_told_of_once_and_ours_steps_in(
    build: Build, caplog: pytest.LogCaptureFixture, body: str, complaint: str
) -> None:
    def reply(request: RecordedRequest) -> Any:
        if request.messages[0]["content"].startswith("You condense"):
            return text("They counted.")
        return text("Good.", usage=None)

    with ScriptedProvider(reply) as provider:
        host = build(provider, body, toolsets=["file"])
        session = host.new_session()
        for number in range(3):
            session.run(f"{number} " + "words " * 1_200)
        session.compress()
    assert any(map(is_summary, session.messages()))
    assert "scribbled over" not in str(session.messages())
    complaints = [record for record in caplog.records if "context engine 'tiny'" in record.message]
    warnings = [record.message for record in complaints if record.levelname == "WARNING"]
    assert len(warnings) == (1 if complaint else 0)
    assert all(complaint in warning and "small_windows" in warning for warning in warnings)


def test_an_engine_that_nobody_offers_is_told_of_and_ours_is_used(build: Build) -> None:
    with ScriptedProvider(answer) as provider:
        host = build(provider, engine="huge")
        assert host.new_session().run("hello").answer == "Good."
    [notice] = [notice for notice in host.notices if "huge" in notice]
    assert "compressor, tiny" in notice


def test_an_engine_in_use_waits_no_more(build: Build) -> None:
    with ScriptedProvider(answer) as provider:
        host = build(provider)
        host.new_session().run("hello")
        plugin = host.plugins.get("small_windows")
        assert plugin is not None
        assert ([entry.name for entry in plugin.in_use], plugin.waiting) == (["tiny"], [])
        host.close()
    with_sites = host.store.read(lambda c: [site for (site,) in c.execute("SELECT site FROM plugin_calls")])
    host.store.close()
    assert with_sites and not any(site.startswith(WAITING_SITE) for site in with_sites)
