"""``ctx.llm`` on a real host: whose model answers, how long it may take, what is sent, and what comes back."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path
from typing import Any

import pytest

from hermes.base.errors import HermesError, ProviderError
from hermes.base.scope import Scope
from hermes.contract.llm import PluginLlmCompleteResult, PluginLlmStructuredResult, PluginLlmTrustError
from hermes.models.credentials.store import AuthFile, add_key
from hermes.testing import EventRecorder, ScriptedProvider, failure, hanging, text
from support.llm_rig import KEY, PING, granted, llm_host, recorded, working_in
from support.waiting import finish

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
IMAGE = {"type": "image", "data": b"\x89PNG", "mime_type": "image/png"}
OPEN = granted(
    allow_provider_override=True, allow_model_override=True, allow_agent_id_override=True, allow_profile_override=True
)
BUSY = failure(503, "busy", headers={"retry-after": "0"})


# -- the answer -----------------------------------------------------------------------------------------------------


def test_an_answer_says_who_gave_it_and_what_it_took(home: Path, workdir: Path) -> None:
    usage = {
        "prompt_tokens": 30,
        "completion_tokens": 5,
        "prompt_tokens_details": {"cached_tokens": 20},
        "cost": 0.25,
    }
    with (
        ScriptedProvider([text("pong", usage=usage, model="scripted-2026")]) as provider,
        llm_host(home, workdir, provider) as (host, llm),
    ):
        recorder = EventRecorder()
        recorder.attach(host.hooks)
        result = llm.complete(PING, temperature=0.5, max_tokens=7, purpose="test")
        assert recorder.names(middleware=True) == ["pre_auxiliary_call", "post_auxiliary_call"]
    assert type(result) is PluginLlmCompleteResult
    assert dataclasses.asdict(result) == {
        "text": "pong",
        "provider": "custom",
        "model": "scripted-2026",
        "agent_id": "default",
        "usage": {
            "input_tokens": 30,
            "output_tokens": 5,
            "total_tokens": 35,
            "cache_read_tokens": 20,
            "cache_write_tokens": 0,
            "cost_usd": 0.25,
        },
        "audit": {"plugin_id": "p", "purpose": "test", "profile": ""},
    }
    [request] = provider.requests
    body = request.body
    assert (body["model"], body["messages"], body["temperature"], body["max_tokens"]) == ("scripted", PING, 0.5, 7)
    assert "tools" not in body and "response_format" not in body


def test_data_is_asked_for_and_read(home: Path, workdir: Path) -> None:
    with (
        ScriptedProvider(['```json\n{"n": 7}\n```', "seven", '{"n": "x"}']) as provider,
        llm_host(home, workdir, provider) as (_, llm),
    ):
        options: Any = {"instructions": "Count.", "input": [{"type": "text", "text": "seven"}], "json_schema": SCHEMA}
        result = llm.complete_structured(**options, schema_name="count", purpose="t")
        assert type(result) is PluginLlmStructuredResult and isinstance(result, PluginLlmCompleteResult)
        assert (result.parsed, result.content_type, result.text) == ({"n": 7}, "json", '```json\n{"n": 7}\n```')
        assert result.audit == {"plugin_id": "p", "purpose": "t", "profile": "", "schema_name": "count"}
        assert provider.requests[-1].body["response_format"]["json_schema"]["name"] == "count"
        result = llm.complete_structured(**options)
        assert (result.parsed, result.content_type, result.text) == (None, "text", "seven")
        with pytest.raises(ValueError, match="does not fit json_schema"):
            llm.complete_structured(**options)
    assert provider.requests[0].body["response_format"]["json_schema"]["schema"] == SCHEMA


@pytest.mark.parametrize("api_mode", ["chat_completions", "codex_responses", "anthropic_messages"])
def test_json_is_shaped_for_each_wire(home: Path, workdir: Path, api_mode: str) -> None:
    with (
        ScriptedProvider('{"n": 7}') as provider,
        llm_host(home, workdir, provider, model={"api_mode": api_mode}) as (_, llm),
    ):
        result = llm.complete_structured(
            instructions="Count.", input=[{"type": "text", "text": "7"}, IMAGE], json_schema=SCHEMA
        )
    assert result.parsed == {"n": 7}
    body = provider.requests[0].body
    shapes: dict[str, Any] = {name: body.get(name) for name in ("response_format", "text", "output_config")}
    if api_mode == "chat_completions":
        assert shapes.pop("response_format")["json_schema"]["schema"] == SCHEMA
    elif api_mode == "codex_responses":
        shape = shapes.pop("text")["format"]
        assert (shape["type"], shape["schema"], shape["strict"]) == ("json_schema", SCHEMA, False)
    assert set(shapes.values()) == {None}
    assert "Answer with JSON" in str(body) and "iVBORw==" in str(body)


def test_a_closed_schema_holds_the_answer_on_the_anthropic_wire(home: Path, workdir: Path) -> None:
    closed = {"type": "object", "properties": {"n": {"type": "integer"}}, "additionalProperties": False}
    model = {"api_mode": "anthropic_messages", "default": "claude-sonnet-5-5"}
    with ScriptedProvider('{"n": 7}') as provider, llm_host(home, workdir, provider, model=model) as (_, llm):
        options: dict[str, Any] = {"instructions": "Count.", "input": [{"type": "text", "text": "7"}]}
        assert llm.complete_structured(**options, json_schema=closed).parsed == {"n": 7}
        is_open = {"type": "object", "properties": {"a": {"type": "object"}}, "additionalProperties": False}
        llm.complete_structured(**options, json_schema={"anyOf": [closed, is_open]})
    assert provider.requests[0].body["output_config"] == {"format": {"type": "json_schema", "schema": closed}}
    assert "output_config" not in provider.requests[1].body  # it would forbid what the schema leaves open


@pytest.mark.parametrize(
    ("messages", "options", "told"),
    [
        ([], {}, "messages are empty"),
        ("ping", {}, "messages must be a list"),
        ([{"content": "x"}], {}, r"messages\[0\] must be"),
        (PING, {"temperature": -1}, "temperature must be"),
        (PING, {"temperature": float("nan")}, "temperature must be"),
        (PING, {"max_tokens": 0}, "max_tokens must be"),
        (PING, {"max_tokens": True}, "max_tokens must be"),
        (PING, {"max_tokens": 10**40}, "max_tokens must be"),
        (PING, {"temperature": 10**400}, "temperature must be"),
        (PING, {"timeout": 10**400}, "timeout must be"),
        ([{"role": "user", "content": b"ping"}], {}, r"messages\[0\]\['content'\] must be a string .*, got bytes"),
        ([{"role": 5, "content": "ping"}], {}, r"messages\[0\] must be"),
        ([{"role": "assistant", "tool_calls": "none"}], {}, r"messages\[0\]\['tool_calls'\] must be a list"),
        ([{"role": "assistant", "tool_calls": [None]}], {}, r"messages\[0\]\['tool_calls'\] must be a list"),
        ([*PING, {"role": "user", "content": {"ping"}}], {}, r"messages\[1\]\['content'\] must be .*, got set"),
        (PING, {"timeout": "5"}, "timeout must be"),
        (PING, {"purpose": 5}, "purpose must be a string"),
    ],
)
def test_what_makes_no_sense_is_refused(home: Path, workdir: Path, messages: Any, options: Any, told: str) -> None:
    with ScriptedProvider([]) as provider, llm_host(home, workdir, provider) as (_, llm):
        with pytest.raises(ValueError, match=told):
            llm.complete(messages, **options)
        assert provider.requests == []


class _Pretender(str):
    """A name that claims to be another one when it is looked at closely."""

    def strip(self, _chars: str | None = None, /) -> str:
        return "allowed"

    def __str__(self) -> str:
        return "allowed"


def test_what_is_allowed_is_what_is_sent(home: Path, workdir: Path) -> None:
    grants = granted(allow_model_override=True, allowed_models=["allowed"])
    with ScriptedProvider("pong") as provider, llm_host(home, workdir, provider, plugins=grants) as (_, llm):
        with pytest.raises(PluginLlmTrustError, match="model='another'"):
            llm.complete(PING, model=_Pretender("another"))
        assert provider.requests == []


# -- whose model ----------------------------------------------------------------------------------------------------


def test_a_plugin_follows_the_model_of_the_session(home: Path, workdir: Path) -> None:
    with ScriptedProvider("pong") as provider, llm_host(home, workdir, provider) as (host, llm):
        session = host.new_session()
        session.models = host.models.conversation(model="switched")
        with working_in(Scope(session_id=session.id)):
            llm.complete(PING)
        llm.complete(PING)
    assert [request.body["model"] for request in provider.requests] == ["switched", "scripted"]


def test_choices_that_are_allowed_are_kept(home: Path, workdir: Path) -> None:
    with ScriptedProvider("one") as provider, ScriptedProvider("two") as other:
        providers = {"other": {"base_url": other.base_url, "api_key": "other-key", "model": "usual"}}
        agents = {"clerk": {"provider": "other", "model": "small"}, "twin": {}}
        with llm_host(home, workdir, provider, plugins=OPEN, providers=providers, agents=agents) as (_, llm):
            assert llm.complete(PING, model="m").provider == "custom"
            assert llm.complete(PING, provider="other").provider == "other"
            assert llm.complete(PING, provider="other", model="n").text == "two"
            clerk = llm.complete(PING, agent_id="clerk")
            assert (clerk.agent_id, clerk.provider) == ("clerk", "other")
            assert llm.complete(PING, agent_id="clerk", provider="custom").provider == "custom"
            assert llm.complete(PING, agent_id="twin").agent_id == "twin"
            with pytest.raises(ValueError, match=r"there is no agent 'boss'; there are: clerk, twin. agents.boss in"):
                llm.complete(PING, agent_id="boss")
            with pytest.raises(ValueError, match="unknown provider 'nobody'"):
                llm.complete(PING, provider="nobody")
    assert [request.body["model"] for request in provider.requests] == ["m", "scripted", "scripted"]
    assert [request.body["model"] for request in other.requests] == ["usual", "n", "small"]
    assert {request.headers["authorization"] for request in other.requests} == {"Bearer other-key"}


def test_a_profile_is_that_credential_or_nothing(home: Path, workdir: Path) -> None:
    with ScriptedProvider("pong") as provider:
        sections: Any = {
            "model": {"provider": "lab", "base_url": "", "api_key": ""},
            "providers": {"lab": {"base_url": provider.base_url, "api_key": KEY}},
            "agents": {"clerk": {"profile": "work"}},
            "plugins": OPEN,
        }
        add_key(AuthFile(home), "lab", "sk-of-work-0123456789", "work")
        with llm_host(home, workdir, provider, **sections) as (_, llm):
            assert llm.complete(PING, profile="work").audit["profile"] == "work"
            assert llm.complete(PING, agent_id="clerk").audit["profile"] == "work"
            assert llm.complete(PING).audit["profile"] == ""
            with pytest.raises(ValueError, match="no credential 'home' is stored for lab"):
                llm.complete(PING, profile="home")
    used = [request.headers["authorization"] for request in provider.requests]
    assert used == ["Bearer sk-of-work-0123456789"] * 2 + [f"Bearer {KEY}"]


def test_the_operator_can_give_plugins_a_model_of_their_own(home: Path, workdir: Path) -> None:
    tasks = {"plugin_llm": {"model": "cheap", "max_tokens": 9}}
    with ScriptedProvider("pong") as provider, llm_host(home, workdir, provider, auxiliary=tasks) as (_, llm):
        llm.complete(PING)
    assert [(request.body["model"], request.body["max_tokens"]) for request in provider.requests] == [("cheap", 9)]


def test_no_model_at_all_is_an_error_of_the_host(home: Path, workdir: Path) -> None:
    nothing = {"provider": "", "base_url": "", "api_key": "", "default": ""}
    with (
        ScriptedProvider([]) as provider,
        llm_host(home, workdir, provider, model=nothing) as (_, llm),
        pytest.raises(HermesError, match="no model is set up"),
    ):
        llm.complete(PING)


# -- fallbacks and time ---------------------------------------------------------------------------------------------


def test_the_usual_fallbacks_answer_for_a_provider_that_fails(home: Path, workdir: Path) -> None:
    with ScriptedProvider(BUSY) as provider, ScriptedProvider("from the spare") as spare:
        sections: Any = {
            "providers": {"spare": {"base_url": spare.base_url, "model": "second"}},
            "fallback_providers": [{"provider": "spare"}],
            "auxiliary": {"transient_retries": 1},
        }
        with llm_host(home, workdir, provider, **sections) as (host, llm):
            result = llm.complete(PING, purpose="t")
            rows = recorded(host)
    assert (result.text, result.provider) == ("from the spare", "spare")
    assert [(row["provider"], row["status"]) for row in rows] == [("custom", "error")] * 2 + [("spare", "ok")]
    assert len(provider.requests) == 2


def test_what_no_attempt_mends_is_raised_as_it_is(home: Path, workdir: Path) -> None:
    retries = {"transient_retries": 0}
    with (
        ScriptedProvider(failure(429, "slow down")) as provider,
        llm_host(home, workdir, provider, auxiliary=retries) as (_, llm),
        pytest.raises(ProviderError) as caught,
    ):
        llm.complete(PING)
    assert (caught.value.reason, caught.value.status_code) == ("rate_limit", 429)


@pytest.mark.parametrize(
    ("auxiliary", "options", "images"),
    [
        ({"plugin_llm": {"timeout": 600}}, {"timeout": 0.2}, False),
        ({"plugin_llm": {"timeout": 0.2}, "timeout": 600}, {}, False),
        ({"plugin_llm": {"timeout": 600}, "vision": {"timeout": 0.2}}, {}, True),
        ({"timeout": 0.2}, {}, False),
    ],
)
def test_the_time_is_the_calls_then_the_jobs_then_everyones(
    home: Path, workdir: Path, auxiliary: Any, options: Any, images: bool
) -> None:
    content = [{"type": "text", "text": "?"}, {"type": "image_url", "image_url": {"url": "https://e.test/i.png"}}]
    messages = [{"role": "user", "content": content}] if images else PING
    with (
        ScriptedProvider(hanging()) as provider,
        llm_host(home, workdir, provider, auxiliary=auxiliary) as (_, llm),
    ):
        with pytest.raises(ProviderError) as caught:
            finish(lambda: llm.complete(messages, **options))
        # The limit is for the whole call: nothing remains for another attempt.
        assert caught.value.reason == "timeout" and len(provider.requests) <= 1


def test_waiting_for_another_attempt_ends_with_the_time(home: Path, workdir: Path) -> None:
    with (
        ScriptedProvider(failure(503, "busy", headers={"retry-after": "120"})) as provider,
        llm_host(home, workdir, provider) as (_, llm),
    ):
        with pytest.raises(ProviderError, match="busy"):
            finish(lambda: llm.complete(PING, timeout=110))  # it does not even wait for the end of its own time
        assert len(provider.requests) == 1


# -- images ---------------------------------------------------------------------------------------------------------


def test_images_go_to_the_model_that_sees(home: Path, workdir: Path) -> None:
    blind = {"supports_vision": False}
    with (
        ScriptedProvider('{"n": 1}', model="") as provider,
        llm_host(home, workdir, provider, model=blind, auxiliary={"vision": {"model": "seeing"}}) as (_, llm),
    ):
        options: Any = {"instructions": "Look.", "json_schema": SCHEMA}
        assert llm.complete_structured(input=[IMAGE], **options).model == "seeing"
        assert llm.complete_structured(input=[{"type": "text", "text": "x"}], **options).model == "scripted"
    assert [request.body["model"] for request in provider.requests] == ["seeing", "scripted"]


@pytest.mark.parametrize("options", [{}, {"profile": "work"}])
def test_images_that_nobody_sees_are_refused_before_anything_is_sent(home: Path, workdir: Path, options: Any) -> None:
    add_key(AuthFile(home), "custom", "sk-of-work-0123456789", "work")
    vision = {"vision": {"model": "seeing"}} if options else {}
    with (
        ScriptedProvider([]) as provider,
        llm_host(home, workdir, provider, model={"supports_vision": False}, plugins=OPEN, auxiliary=vision) as (_, llm),
    ):
        with pytest.raises(HermesError, match=r"scripted cannot see images.*auxiliary\.vision\.model"):
            llm.complete_structured(instructions="Look.", input=[IMAGE], **options)
        assert provider.requests == []


# -- slots for what the host keeps to itself ------------------------------------------------------------------------


def test_a_host_that_ignores_the_users_file_ignores_its_grants(home: Path, workdir: Path) -> None:
    from hermes.base.config import Config
    from hermes.base.config.schema.sections import ModelConfig
    from hermes.host import Host, HostOptions
    from hermes.plugins.llm.access import PluginLlm
    from support.llm_rig import write_settings

    with ScriptedProvider("pong") as provider:
        config = Config(model=ModelConfig(provider="custom", default="m", base_url=provider.base_url))
        with Host(home, config, HostOptions(use_enabled_plugins=False), cwd=workdir, env={}) as host:
            write_settings(home, provider.base_url, plugins=OPEN)
            with pytest.raises(PluginLlmTrustError):
                PluginLlm("p", host.services.llm).complete(PING, model="other")


@pytest.mark.parametrize("is_async", [False, True])
def test_a_server_that_knows_no_format_is_asked_in_words(home: Path, workdir: Path, is_async: bool) -> None:
    refused = failure(400, "This response_format type is unavailable now")
    options: Any = {"instructions": "Count.", "input": [{"type": "text", "text": "7"}], "json_schema": SCHEMA}
    with (
        ScriptedProvider([refused, text('{"n": 7}'), refused, failure(400, "response_format, again")]) as provider,
        llm_host(home, workdir, provider) as (host, llm),
    ):

        def ask() -> PluginLlmStructuredResult:
            return asyncio.run(llm.acomplete_structured(**options)) if is_async else llm.complete_structured(**options)

        assert ask().parsed == {"n": 7}
        with pytest.raises(ProviderError, match="again"):
            ask()
        assert [row["status"] for row in recorded(host)] == ["error", "ok", "error", "error"]
    assert ["response_format" in request.body for request in provider.requests] == [True, False] * 2


def test_a_setting_that_does_nothing_is_told_once(home: Path, workdir: Path, caplog: pytest.LogCaptureFixture) -> None:
    with (
        ScriptedProvider("pong") as provider,
        llm_host(home, workdir, provider, plugins=granted(max_call_per_session=1)) as (_, llm),
    ):
        llm.complete(PING)
        llm.complete(PING)
    assert [record.message for record in caplog.records if record.name == "agent.plugin_llm"] == [
        "plugins.entries.p.llm.max_call_per_session does nothing: there is no such setting; "
        "did you mean 'max_calls_per_session'?"
    ]
