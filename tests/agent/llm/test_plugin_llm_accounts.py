"""What plugins spend: on record and in the log, held against their budgets, and never with a key in sight."""

from __future__ import annotations

import asyncio
import gc
import logging
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

import pytest

from hermes.base.errors import HermesError
from hermes.base.scope import Scope
from hermes.contract.llm import PluginLlmBudgetError, PluginLlmTrustError
from hermes.journal.usage.plugins import PluginSpending, spending_by_plugin
from hermes.journal.usage.spending import session_spending, usage_by
from hermes.models.endpoint import Endpoint
from hermes.plugins.llm.access import PluginLlm
from hermes.testing import EventRecorder, ScriptedProvider, ScriptedReply, dropped, failure, hanging, text
from support import run_hermes
from support.configured import write_plugin
from support.llm_rig import KEY, PING, granted, llm_host, recorded, working_in, write_settings

PAID = {"prompt_tokens": 60, "completion_tokens": 40, "cost": 0.5}
BLOCKS = [{"type": "text", "text": "7"}]


@pytest.fixture
def audit(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.DEBUG, "agent.plugin_llm")
    return caplog


# -- on record ------------------------------------------------------------------------------------------------------


def test_calls_are_on_record_in_their_session_and_outside_of_any(home: Path, workdir: Path) -> None:
    with ScriptedProvider(text("pong", usage=PAID)) as provider, llm_host(home, workdir, provider) as (host, llm):
        session = host.new_session()
        turn_id = session.run("hello").turn_id
        with working_in(Scope(session_id=session.id, turn_id=turn_id)):
            llm.complete(PING, purpose="inside")
        llm.complete(PING, purpose="outside")
        PluginLlm("q", host.services.llm).complete(PING)
        rows = recorded(host)
        assert [(row["session_id"] == session.id, row["key"], row["purpose"], row["cost_usd"]) for row in rows] == [
            (True, "plugin:p", "inside", 0.5),
            (False, "plugin:p", "outside", 0.5),
            (False, "plugin:q", "", 0.5),
        ]
        assert [row["key"] for row in host.sessions.model_calls(session.id)] == ["model:1", "plugin:p"]
        assert spending_by_plugin(host.store) == {
            "p": PluginSpending(2, 0, 200, 1.0),
            "q": PluginSpending(1, 0, 100, 0.5),
        }
        by_plugin = {used.name: used.calls for used in usage_by(host.store, "plugin")}
        assert by_plugin == {"conversation": 1, "p": 2, "q": 1}
        assert sum(used.calls for used in usage_by(host.store, "day")) == 4
        assert {used.name for used in usage_by(host.store, "session")} == {session.id, "outside a session"}
        assert [one.purpose for one in session_spending(host.store, session.id)] == ["", "plugin:p"]


def test_a_call_inside_a_turn_does_not_shift_the_numbers_of_the_turns_own_attempts(home: Path, workdir: Path) -> None:
    script = [failure(500, "no"), text("aside"), text("answer")]
    with ScriptedProvider(script) as provider, llm_host(home, workdir, provider) as (host, llm):
        session = host.new_session()
        turn_id = session.run("hello").turn_id
        with working_in(Scope(session_id=session.id, turn_id=turn_id)):
            llm.complete(PING)
        recorded(host)
        session.finish_open_turn()
        attempts = [row["api_request_id"] for row in host.sessions.model_calls(session.id)]
    assert [name.removeprefix(turn_id) for name in attempts if ":plugin:" not in name] == [":api:1", ":api:2"]


def test_the_command_line_shows_what_each_plugin_spends(home: Path, workdir: Path) -> None:
    write_plugin(home, "p", "def register(ctx): pass")
    with (
        ScriptedProvider([text("pong", usage=PAID), failure(400, "no")]) as provider,
        llm_host(home, workdir, provider, plugins={"enabled": ["p"]}) as (_, llm),
    ):
        llm.complete(PING)
        with pytest.raises(HermesError):
            llm.complete(PING)
    listed = run_hermes("plugins", "list", "--user", home=home, cwd=workdir).stdout
    assert "model calls: 2, 1 failed, 100 tokens, $0.5000" in listed
    info = run_hermes("plugins", "info", "p", "--json", home=home, cwd=workdir).stdout
    assert '"model_calls": 2' in info and '"model_cost_usd": 0.5' in info
    usage = run_hermes("usage", "--by", "plugin", home=home, cwd=workdir).stdout
    assert [line.split()[:2] for line in usage.splitlines()[1:2]] == [["p", "2"]]


ASKING = """
def register(ctx):
    ctx.register_command("ask", lambda raw: ctx.llm.complete([{"role": "user", "content": raw}]).text)
"""

# -- in the log -----------------------------------------------------------------------------------------------------


def test_each_call_is_one_line_of_the_log(home: Path, workdir: Path, audit: pytest.LogCaptureFixture) -> None:
    options: Any = {"instructions": "Count.", "input": BLOCKS, "json_mode": True}
    with (
        ScriptedProvider(["pong", "pong", "7", "x", failure(400, "no")]) as provider,
        llm_host(home, workdir, provider) as (_, llm),
    ):
        llm.complete(PING, purpose="a.b")
        asyncio.run(llm.acomplete(PING, purpose="two words"))
        llm.complete_structured(**options)
        asyncio.run(llm.acomplete_structured(**options))
        refused: list[Any] = [{}, {"model": "m"}, {"max_tokens": 0}]
        for wrong in refused:
            with pytest.raises((HermesError, PluginLlmTrustError, ValueError)):
                llm.complete(PING, purpose="p", **wrong)
    assert {(record.levelname, record.name) for record in audit.records} == {("INFO", "agent.plugin_llm")}
    lines = audit.messages
    who = "plugin=p provider=custom model=scripted"
    assert lines[:4] == [
        f"plugin_llm.complete {who} purpose=a.b tokens=15",
        f"plugin_llm.complete {who} purpose='two words' tokens=15",
        f"plugin_llm.complete_structured {who} purpose=- content_type=json tokens=15",
        f"plugin_llm.complete_structured {who} purpose=- content_type=text tokens=15",
    ]
    assert lines[4].startswith(f"plugin_llm.complete {who} purpose=p error=ProviderError: custom")
    assert lines[5].startswith("plugin_llm.complete plugin=p provider=- model=m purpose=p error=PluginLlmTrustError: ")
    assert lines[6].startswith("plugin_llm.complete plugin=p provider=- model=- purpose=- error=ValueError: max_tokens")
    assert len(lines) == 7


def test_the_line_is_in_the_log_file(home: Path, workdir: Path) -> None:
    write_plugin(home, "p", ASKING)
    with ScriptedProvider("pong") as provider:
        write_settings(home, provider.base_url, plugins={"enabled": ["p"]})
        done = run_hermes("chat", "-q", "/ask me", home=home, cwd=workdir)
    assert (done.returncode, done.stdout) == (0, "pong\n"), done.stderr
    log = (home / "logs" / "agent.log").read_text()
    line = (
        "INFO [-] agent.plugin_llm: plugin_llm.complete plugin=p provider=custom model=scripted purpose=- tokens=15\n"
    )
    assert log.count(line) == 1 and KEY not in log


# -- budgets --------------------------------------------------------------------------------------------------------


def test_calls_of_a_session_are_limited_and_each_session_has_its_own(home: Path, workdir: Path) -> None:
    limit = granted(max_calls_per_session=2)
    busy = failure(503, "busy", headers={"retry-after": "0"})
    with (
        ScriptedProvider([busy, *["pong"] * 9]) as provider,
        llm_host(home, workdir, provider, plugins=limit) as (_, llm),
    ):
        for session in ("", "s1", "s2"):
            with working_in(Scope(session_id=session)):
                llm.complete(PING)  # one that was tried twice is one call
                llm.complete(PING)
                told = r"2 of 2 calls of this session are made \(plugins\.entries\.p\.llm\.max_calls_per_session\)"
                with pytest.raises(PluginLlmBudgetError, match=told):
                    llm.complete(PING)
        sent = len(provider.requests)
        assert sent == 7
        write_settings(home, provider.base_url, plugins=granted(max_calls_per_session=3))
        llm.complete(PING)
    with (
        llm_host(home, workdir, provider, plugins=limit) as (_, llm),
        working_in(Scope(session_id="s1")),
        pytest.raises(PluginLlmTrustError),
    ):
        llm.complete(PING)  # another process, the same session


def test_calls_at_once_cannot_overrun_their_number(home: Path, workdir: Path) -> None:
    limit = granted(max_calls_per_session=3)
    with (
        ScriptedProvider(text("pong", delay=0.1)) as provider,
        llm_host(home, workdir, provider, plugins=limit) as (_, llm),
    ):

        async def ask() -> list[Any]:
            return await asyncio.gather(*(llm.acomplete(PING) for _ in range(10)), return_exceptions=True)

        outcomes = asyncio.run(ask())
    assert sum(isinstance(outcome, PluginLlmBudgetError) for outcome in outcomes) == 7
    assert len(provider.requests) == 3


@pytest.mark.parametrize(
    ("limit", "told"),
    [
        ({"max_tokens_per_day": 150}, r"200 of 150 tokens are used today \(plugins.entries.p.llm.max_tokens_per_day\)"),
        ({"max_cost_usd_per_day": 0.75}, r"\$1.0000 of \$0.7500 are spent today \(.*max_cost_usd_per_day\)"),
    ],
)
def test_a_day_is_limited_for_all_sessions_together(home: Path, workdir: Path, limit: Any, told: str) -> None:
    with (
        ScriptedProvider(text("pong", usage=PAID)) as provider,
        llm_host(home, workdir, provider, plugins=granted(**limit)) as (host, llm),
    ):
        llm.complete(PING)
        with working_in(Scope(session_id="s")):
            llm.complete(PING)
        with pytest.raises(PluginLlmBudgetError, match=told):
            llm.complete(PING)
        assert PluginLlm("q", host.services.llm).complete(PING).text == "pong"
        yesterday = time.time() - 86_400
        host.store.write(lambda connection: connection.execute("UPDATE outside_calls SET started_at = ?", (yesterday,)))
        assert llm.complete(PING).text == "pong"


def test_a_budget_that_cannot_be_read_refuses(home: Path, workdir: Path) -> None:
    with (
        ScriptedProvider([]) as provider,
        llm_host(home, workdir, provider, plugins=granted(max_tokens_per_day="many")) as (_, llm),
    ):
        with pytest.raises(PluginLlmTrustError, match=r"plugins\.entries\.p\.llm\.max_tokens_per_day must be"):
            llm.complete(PING)
        assert provider.requests == []


def test_nothing_is_spent_that_nobody_keeps_account_of(home: Path, workdir: Path) -> None:
    with ScriptedProvider("pong") as provider:
        for has_asked in (True, False):
            with llm_host(home, workdir, provider) as (_, llm):
                if has_asked:
                    llm.complete(PING)
            for ask in (lambda llm=llm: llm.complete(PING), lambda llm=llm: asyncio.run(llm.acomplete(PING))):
                with pytest.raises(HermesError, match="plugin 'p' may ask no model any more: the host is closed"):
                    ask()
    assert len(provider.requests) == 1


# -- keys -----------------------------------------------------------------------------------------------------------


def reachable(value: object) -> Iterator[object]:
    """Everything that attributes, items and causes lead to, without what a traceback holds and what all code shares."""
    seen: dict[int, object] = {}
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if id(one) in seen or isinstance(one, type | TracebackType | FrameType) or callable(one):
            continue
        seen[id(one)] = one
        yield one
        waiting += gc.get_referents(one)
        if isinstance(one, BaseException):
            waiting += [one.__cause__, one.__context__]


def check_sealed(value: object) -> None:
    assert KEY not in repr(value) and KEY not in str(value)
    for one in reachable(value):
        assert not isinstance(one, Endpoint)
        assert not (isinstance(one, str) and KEY in one), one
        assert not (isinstance(one, bytes) and KEY.encode() in one)


@pytest.mark.parametrize(
    "reply",
    [
        text(f"your key is {KEY}"),
        text("your key is my name", model=KEY),
        failure(401, f"Incorrect API key provided: {KEY}"),
        failure(400, f"Bearer {KEY} is not what I wanted"),
        failure(500, KEY),
        dropped(),
        hanging(),
        text("not json at all", truncate_after=10),
    ],
)
@pytest.mark.parametrize("is_async", [False, True])
def test_no_key_is_in_sight(
    home: Path, workdir: Path, audit: pytest.LogCaptureFixture, reply: Any, is_async: bool
) -> None:
    audit.set_level(logging.DEBUG)
    events = EventRecorder()
    with (
        ScriptedProvider(reply) as provider,
        llm_host(home, workdir, provider, auxiliary={"transient_retries": 0}) as (host, llm),
    ):
        events.attach(host.hooks)
        hangs = isinstance(reply, ScriptedReply) and bool(reply.options.get("hang"))
        seconds = 2 if hangs else 60
        try:
            if is_async:
                outcome: object = asyncio.run(llm.acomplete(PING, timeout=seconds, purpose="p"))
            else:
                outcome = llm.complete(PING, timeout=seconds, purpose="p")
        except HermesError as error:
            outcome = error
            assert error.__cause__ is None and error.__context__ is None
        check_sealed(outcome)
        rows = recorded(host)
        assert len(rows) == 1
        if not hangs:  # on a busy machine the two seconds may be over before the request is out
            assert len(provider.requests) == 1
        assert all(KEY in request.headers["authorization"] for request in provider.requests)
        stored = host.store.read(lambda connection: connection.execute("SELECT * FROM outside_calls").fetchall())
    assert KEY not in str(stored) and KEY not in audit.text and KEY not in repr(llm) + repr(host.services.llm("p"))
    assert len([message for message in audit.messages if message.startswith("plugin_llm.")]) == 1
    assert set(events.names()) - {"transform_api_error_classification"} == {"pre_auxiliary_call", "post_auxiliary_call"}
    assert KEY not in repr(events.events)


def test_no_key_is_in_what_is_refused(home: Path, workdir: Path) -> None:
    providers = {"other": {"base_url": "http://127.0.0.1:9/v1", "api_key": KEY}}
    grants = granted(allow_provider_override=True, allow_profile_override=True, allow_agent_id_override=True)
    with (
        ScriptedProvider([]) as provider,
        llm_host(home, workdir, provider, providers=providers, plugins=grants) as (_, llm),
    ):
        refused: list[Any] = [
            {"provider": "othre"},
            {"profile": "x"},
            {"agent_id": "x"},
            {"model": "m"},
            {"timeout": -1},
        ]
        for wrong in refused:
            with pytest.raises((ValueError, PermissionError)) as caught:
                llm.complete(PING, **wrong)
            check_sealed(caught.value)
