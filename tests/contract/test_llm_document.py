"""The document on ``ctx.llm``, from top to bottom: its calls, its two plugins as written, its table of grants."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hermes.base.errors import ProviderError
from hermes.contract.llm import PluginLlmCompleteResult, PluginLlmStructuredResult, PluginLlmTrustError
from hermes.plugins.llm.access import PluginLlm
from hermes.testing import ScriptedProvider, failure, text
from support import run_hermes
from support.configured import write_plugin
from support.llm_rig import granted, llm_host, recorded, write_settings

USER = [{"role": "user", "content": "Hi"}]


# -- the smallest possible call, and a more complete one ------------------------------------------------------------


def test_the_smallest_possible_call_follows_the_user(home: Path, workdir: Path) -> None:
    with ScriptedProvider("pong") as first, ScriptedProvider("pong, elsewhere") as second:
        with llm_host(home, workdir, first) as (_, llm):
            assert llm.complete(messages=[{"role": "user", "content": "ping"}]).text == "pong"
        with llm_host(home, workdir, second, model={"default": "another"}) as (_, llm):
            assert llm.complete(messages=[{"role": "user", "content": "ping"}]).text == "pong, elsewhere"
    assert second.requests[0].body["model"] == "another"


def test_a_more_complete_chat(home: Path, workdir: Path) -> None:
    rewrite = "Rewrite errors as one short sentence a non-engineer can act on."
    with ScriptedProvider("Try again later.") as provider, llm_host(home, workdir, provider) as (host, llm):
        result = llm.complete(
            messages=[{"role": "system", "content": rewrite}, {"role": "user", "content": "Traceback …"}],
            max_tokens=64,
            purpose="hooks.error-rewrite",
        )
        assert result.text == "Try again later." and result.audit["purpose"] == "hooks.error-rewrite"
        assert recorded(host)[0]["purpose"] == "hooks.error-rewrite"
    assert provider.requests[0].messages[0] == {"role": "system", "content": rewrite}
    assert provider.requests[0].body["max_tokens"] == 64


def test_structured_output(home: Path, workdir: Path) -> None:
    triage = {
        "type": "object",
        "properties": {"urgency": {"type": "number"}, "category": {"type": "string"}},
        "required": ["urgency", "category"],
    }
    with (
        ScriptedProvider(['{"urgency": 0.9, "category": "outage"}', "I cannot tell."]) as provider,
        llm_host(home, workdir, provider) as (_, llm),
    ):
        options: Any = {
            "instructions": "Score this support reply for urgency (0-1) and pick a category.",
            "input": [{"type": "text", "text": "All is down!"}],
            "json_schema": triage,
            "purpose": "support.triage",
            "temperature": 0.0,
            "max_tokens": 128,
        }
        result = llm.complete_structured(**options)
        assert result.parsed["urgency"] > 0.8 and result.content_type == "json"
        result = llm.complete_structured(**options)
        assert (result.parsed, result.text) == (None, "I cannot tell.")
    assert provider.requests[0].body["temperature"] == 0.0
    assert provider.requests[0].body["response_format"]["type"] == "json_schema"


# -- the two plugins ------------------------------------------------------------------------------------------------

TLDR = """
def register(ctx):
    ctx.register_command(
        name="tldr",
        handler=lambda raw: _tldr(ctx, raw),
        description="Summarise the supplied text in one paragraph.",
        args_hint="<text>",
    )


def _tldr(ctx, raw_args: str) -> str:
    text = raw_args.strip()
    if not text:
        return "Usage: /tldr <text to summarise>"
    result = ctx.llm.complete(
        messages=[
            {"role": "system",
             "content": "Summarise the user's text in one tight paragraph. No preamble."},
            {"role": "user", "content": text},
        ],
        max_tokens=256,
        temperature=0.3,
        purpose="tldr",
    )
    return result.text
"""

PASTE_TO_TASKS = """
def register(ctx):
    ctx.register_command(
        name="paste-to-tasks",
        handler=lambda raw: _paste_to_tasks(ctx, raw),
        description="Turn freeform meeting notes into structured tasks.",
        args_hint="<text>",
    )


_TASKS_SCHEMA = {
    "type": "object",
    "properties": {
        "tasks": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "owner": {"type": "string"},
                    "action": {"type": "string"},
                    "due": {"type": "string", "description": "ISO date or empty"},
                },
                "required": ["action"],
            },
        },
    },
    "required": ["tasks"],
}


def _paste_to_tasks(ctx, raw_args: str) -> str:
    if not raw_args.strip():
        return "Usage: /paste-to-tasks <meeting notes>"
    result = ctx.llm.complete_structured(
        instructions=(
            "Extract concrete action items from these meeting notes. "
            "One task per actionable line. If no owner is named, leave 'owner' blank."
        ),
        input=[{"type": "text", "text": raw_args}],
        json_schema=_TASKS_SCHEMA,
        schema_name="meeting.tasks",
        purpose="paste-to-tasks",
        temperature=0.0,
        max_tokens=512,
    )
    if result.parsed is None:
        return f"Couldn't parse a response. Raw output:\\n{result.text}"
    lines = [f"- [{t.get('owner') or '?'}] {t['action']}" for t in result.parsed["tasks"]]
    return "\\n".join(lines) or "(no tasks found)"
"""


def _run(home: Path, workdir: Path, *queries: str) -> list[tuple[int, str]]:
    done = [run_hermes("chat", "--query", query, home=home, cwd=workdir) for query in queries]
    return [(one.returncode, one.stdout + one.stderr) for one in done]


def test_tldr_runs_as_written(home: Path, workdir: Path) -> None:
    write_plugin(home, "tldr", TLDR)
    with ScriptedProvider([text("It rained."), failure(400, "no such luck")]) as provider:
        write_settings(home, provider.base_url, plugins={"enabled": ["tldr"]})
        answered, usage, failed = _run(home, workdir, "/tldr It rained all\nday.", "/tldr", "/tldr again")
    assert answered == (0, "It rained.\n")
    assert usage == (0, "Usage: /tldr <text to summarise>\n")
    assert failed[0] == 1 and "no such luck" in failed[1]
    body = provider.requests[0].body
    assert body["messages"][1] == {"role": "user", "content": "It rained all\nday."}
    assert (body["max_tokens"], body["temperature"]) == (256, 0.3)
    log = (home / "logs" / "agent.log").read_text()
    assert "plugin_llm.complete plugin=tldr provider=custom model=scripted purpose=tldr tokens=15" in log


def test_paste_to_tasks_runs_as_written(home: Path, workdir: Path) -> None:
    write_plugin(home, "paste-to-tasks", PASTE_TO_TASKS)
    tasks = {"tasks": [{"owner": "Ann", "action": "call Bo"}, {"action": "write it down"}]}
    script = [
        text(f"```json\n{msgspec.json.encode(tasks).decode()}\n```"),
        text('{"tasks": []}'),
        text("none"),
        text('{"jobs": 1}'),
    ]
    with ScriptedProvider(script) as provider:
        write_settings(home, provider.base_url, plugins={"enabled": ["paste-to-tasks"]})
        done = _run(home, workdir, *["/paste-to-tasks Ann calls Bo. Write it down."] * 4, "/paste-to-tasks")
    assert done[0] == (0, "- [Ann] call Bo\n- [?] write it down\n")
    assert done[1] == (0, "(no tasks found)\n")
    assert done[2] == (0, "Couldn't parse a response. Raw output:\nnone\n")
    assert done[3][0] == 1 and "ValueError: the answer does not fit json_schema" in done[3][1]
    assert done[4] == (0, "Usage: /paste-to-tasks <meeting notes>\n")
    assert "Schema name: meeting.tasks" in provider.requests[0].last_user_text
    log = (home / "logs" / "agent.log").read_text()
    assert (
        "plugin=paste-to-tasks provider=custom model=scripted purpose=paste-to-tasks content_type=json tokens=15" in log
    )


ASYNC = """
import asyncio

def register(ctx):
    async def both(raw):
        asked = (ctx.llm.acomplete([{"role": "user", "content": word}]) for word in raw.split())
        return " and ".join(result.text for result in await asyncio.gather(*asked))
    ctx.register_command("both", both)
"""


def test_a_command_may_be_a_coroutine(home: Path, workdir: Path) -> None:
    write_plugin(home, "both", ASYNC)
    with ScriptedProvider({"one": "1", "two": "2"}) as provider:
        write_settings(home, provider.base_url, plugins={"enabled": ["both"]})
        assert _run(home, workdir, "/both one two") == [(0, "1 and 2\n")]


# -- the API surface ------------------------------------------------------------------------------------------------


def test_every_argument_may_be_given(home: Path, workdir: Path) -> None:
    shared: Any = dict.fromkeys(("provider", "model", "temperature", "max_tokens", "timeout", "agent_id"))
    shared |= {"profile": None, "purpose": "optional-audit-string"}
    structured: Any = {
        "instructions": "What you want extracted.",
        "input": [
            {"type": "text", "text": "..."},
            {"type": "image", "data": b"...", "mime_type": "image/png"},
            {"type": "image", "url": "https://example.test/i.png"},
        ],
        "json_schema": None,
        "json_mode": False,
        "schema_name": None,
        "system_prompt": None,
    }
    with ScriptedProvider("answer") as provider, llm_host(home, workdir, provider) as (_, llm):

        async def ask() -> list[PluginLlmCompleteResult]:
            return [
                await llm.acomplete(messages=USER, **shared),
                await llm.acomplete_structured(**structured, **shared),
            ]

        results = [llm.complete(messages=USER, **shared), llm.complete_structured(**structured, **shared)]
        assert results == asyncio.run(ask())
    assert [type(result) for result in results] == [PluginLlmCompleteResult, PluginLlmStructuredResult]
    fields = [field.name for field in dataclasses.fields(PluginLlmCompleteResult)]
    assert fields == ["text", "provider", "model", "agent_id", "usage", "audit"]
    assert {field.name for field in dataclasses.fields(PluginLlmStructuredResult)} == {
        *fields,
        "parsed",
        "content_type",
    }


def test_a_conversation_with_examples_goes_out_as_it_is(home: Path, workdir: Path) -> None:
    roles = ("system", "user", "assistant", "user", "assistant", "user")
    messages = [{"role": role, "content": f"{role} {number}"} for number, role in enumerate(roles)]
    with ScriptedProvider("ok") as provider, llm_host(home, workdir, provider) as (_, llm):
        llm.complete(messages=messages)
    assert provider.requests[0].body["messages"] == messages


# -- the trust gate -------------------------------------------------------------------------------------------------

GATE = [
    ("provider", "allow_provider_override", "allowed_providers"),
    ("model", "allow_model_override", "allowed_models"),
    ("agent_id", "allow_agent_id_override", ""),
    ("profile", "allow_profile_override", ""),
]


@pytest.mark.parametrize(("argument", "flag", "allowed"), GATE)
def test_each_row_of_the_table(home: Path, workdir: Path, argument: str, flag: str, allowed: str) -> None:
    chosen: Any = {argument: "custom"}
    agents: Any = {"custom": {}}
    with ScriptedProvider("ok") as provider, llm_host(home, workdir, provider, agents=agents) as (_, llm):

        def set_to(**settings: Any) -> None:
            write_settings(home, provider.base_url, agents=agents, plugins=granted(**settings))

        def is_refused(key: str) -> bool:
            with pytest.raises(PluginLlmTrustError, match=rf"plugins\.entries\.p\.llm\.{key}"):
                llm.complete(USER, **chosen)
            return True

        assert llm.complete(USER, temperature=0, max_tokens=5, timeout=9, purpose="shaping is always allowed")
        assert is_refused(flag), "the default is to deny"
        set_to(**{other: True for _, other, _ in GATE if other != flag})
        assert is_refused(flag), "the others do not grant it"
        if allowed:
            for names in ([], ["another"]):
                set_to(**{flag: True, allowed: names})
                assert is_refused(allowed)
        narrowed: list[Any] = [{}, {allowed: ["*"]}, {allowed: ["another", " CUSTOM"]}] if allowed else [{}]
        for extra in narrowed:
            set_to(**{flag: True, **extra})
            if argument == "profile":  # allowed, and not there: never another credential
                with pytest.raises(ValueError, match="no credential 'custom'"):
                    llm.complete(USER, **chosen)
            else:
                assert llm.complete(USER, **chosen).text == "ok"


def test_a_plugin_is_known_by_its_key(home: Path, workdir: Path) -> None:
    with ScriptedProvider("ok") as provider:
        entries = {"media/painter": {"llm": {"allow_model_override": True}}}
        with llm_host(home, workdir, provider, plugins={"entries": entries}) as (host, _):
            assert PluginLlm("media/painter", host.services.llm).complete(USER, model="m").text == "ok"
            with pytest.raises(PluginLlmTrustError, match=r"plugins\.entries\.painter\.llm"):
                PluginLlm("painter", host.services.llm).complete(USER, model="m")


# -- what the plugin owns -------------------------------------------------------------------------------------------


def test_errors_are_of_the_documented_kinds(home: Path, workdir: Path) -> None:
    with (
        ScriptedProvider(failure(500, "down")) as provider,
        llm_host(home, workdir, provider, auxiliary={"transient_retries": 0}) as (_, llm),
    ):
        for instructions, blocks in (("", [{"type": "text", "text": "x"}]), ("x", [])):
            with pytest.raises(ValueError, match="empty"):
                llm.complete_structured(instructions=instructions, input=blocks)
        assert issubclass(PluginLlmTrustError, PermissionError)
        with pytest.raises(PluginLlmTrustError):
            llm.complete(USER, profile="work")
        with pytest.raises(ProviderError, match="down"):
            llm.complete(USER)
