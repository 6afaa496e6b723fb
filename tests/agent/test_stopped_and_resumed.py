"""``agent_loop_stopped`` says what stopped a turn, ``on_session_resume`` which sessions a process continues."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hermes.base.config.schema.sections import BudgetLimitsConfig, BudgetsConfig, Config, ModelConfig
from hermes.base.scope import Interrupt
from hermes.host import Host
from hermes.testing import EventRecorder, ScriptedProvider, failure, text, tool_call
from support import HostFactory


def stops(host: Host, **options: Any) -> list[tuple[str, str]]:
    recorder = EventRecorder().attach(host.hooks)
    host.new_session().run("go", **options)
    return [(one["reason"], one["invalidation_reason"]) for one in recorder.of("agent_loop_stopped")]


def test_a_turn_that_the_model_ends_is_not_stopped(make_host: HostFactory) -> None:
    with ScriptedProvider([tool_call("todo", {}), text("ok")]) as provider:
        assert stops(make_host(provider)) == []


def test_an_interrupt_is_told_with_its_reason(make_host: HostFactory) -> None:
    interrupt = Interrupt()
    interrupt.cancel("the user pressed stop")
    with ScriptedProvider([text("ok")]) as provider:
        assert stops(make_host(provider), interrupt=interrupt) == [("interrupted", "the user pressed stop")]


def test_an_error_is_told_without_secrets(make_host: HostFactory) -> None:
    with ScriptedProvider([failure(400, "odd: sk-abcdefghijklmnopqrstuvwxyz012345")]) as provider:
        [(reason, words)] = stops(make_host(provider))
    assert reason == "error" and "odd" in words and "sk-abc" not in words


def test_a_spent_budget_is_told(home: Path, workdir: Path) -> None:
    with ScriptedProvider([tool_call("todo", {}), text("so far")]) as provider:
        model = ModelConfig(provider="custom", default="scripted", base_url=provider.base_url, api_key="test-key")
        budgets = BudgetsConfig(on_limit="stop", turn=BudgetLimitsConfig(calls=1))
        with Host(home, Config(model=model, budgets=budgets), cwd=workdir, env={}) as host:
            [(reason, words)] = stops(host)
    assert reason == "budget" and "budgets.turn" in words


def test_only_what_another_process_began_is_resumed(make_host: HostFactory) -> None:
    with ScriptedProvider([text("ok")] * 5) as provider:
        first = make_host(provider)
        session = first.new_session()
        session.run("one")
        first.close()
        second = make_host(provider)
        seen = EventRecorder().attach(second.hooks)
        continued = second.resume_session(session.id)
        assert seen.of("on_session_resume") == []  # not before something is said in it
        continued.run("two")
        continued.run("three")
        assert continued.unload()
        second.resume_session(session.id).run("four")
        own = second.new_session()
        own.run("mine")
    assert [one["session_id"] for one in seen.of("on_session_resume")] == [session.id]
    assert [one["session_id"] for one in seen.of("on_session_start")] == [own.id]
    names = seen.names()
    assert names.index("on_session_resume") < names.index("pre_llm_call")


@pytest.mark.parametrize("hook", ["agent_loop_stopped", "on_session_resume"])
def test_without_a_subscriber_nothing_is_remembered(make_host: HostFactory, hook: str) -> None:
    with ScriptedProvider([text("ok")]) as provider:
        host = make_host(provider)
        assert not host.hooks.has(hook)
        host.new_session().run("go")
        assert host.runtime.begun == set()
