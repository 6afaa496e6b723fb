"""A model that goes round in circles is noticed, told, and stopped when the configuration says so."""

from __future__ import annotations

from pathlib import Path

from hermes.agent.approvals.guardrail import LoopGuardrail
from hermes.base.config import Config
from hermes.base.config.schema.sections import AgentConfig, ModelConfig, ToolLoopGuardrailsConfig
from hermes.host import Host
from hermes.testing import EventRecorder, ScriptedProvider, text, tool_call
from support import HostFactory


def test_the_same_call_with_the_same_result_is_told_from_the_third_time_on() -> None:
    guardrail = LoopGuardrail(ToolLoopGuardrailsConfig())
    told = [guardrail.note("search", {"b": 1, "a": 2}, "ok", "nothing") for _ in range(2)]
    third = guardrail.note("search", {"a": 2, "b": 1}, "ok", "nothing")
    assert told == [None, None]
    assert third is not None and "same result as the last 2 times" in third


def test_another_result_or_other_arguments_start_the_count_anew() -> None:
    guardrail = LoopGuardrail(ToolLoopGuardrailsConfig())
    results = ["running", "running", "done", "running", "running"]
    assert [guardrail.note("poll", {"id": 1}, "ok", result) for result in results] == [None] * 5
    assert guardrail.note("poll", {"id": 2}, "ok", "running") is None


def test_a_tool_that_keeps_failing_is_told_and_a_success_forgives_it() -> None:
    guardrail = LoopGuardrail(ToolLoopGuardrailsConfig())
    notes = [guardrail.note("terminal", {"command": str(n)}, "error", f"no {n}") for n in range(3)]
    assert notes[:2] == [None, None] and notes[2] is not None and "failed 3 times in a row" in notes[2]
    assert guardrail.note("terminal", {"command": "true"}, "ok", "fine") is None
    assert guardrail.note("terminal", {"command": "again"}, "error", "no") is None


def test_what_was_blocked_or_cancelled_is_not_the_tools_failure() -> None:
    guardrail = LoopGuardrail(ToolLoopGuardrailsConfig(warn_failures=1))
    assert guardrail.note("terminal", {}, "blocked", "no") is None
    assert guardrail.note("terminal", {}, "cancelled", "no") is None


def test_nothing_is_refused_unless_the_configuration_asks_for_it() -> None:
    patient, strict = LoopGuardrail(ToolLoopGuardrailsConfig()), LoopGuardrail(ToolLoopGuardrailsConfig(stop_after=2))
    off = LoopGuardrail(ToolLoopGuardrailsConfig(enabled=False, stop_after=1))
    for guardrail in (patient, strict, off):
        for _ in range(9):
            guardrail.note("read", {"path": "f"}, "ok", "x")
    assert patient.refusal("read", {"path": "f"}) is None
    assert off.refusal("read", {"path": "f"}) is None
    refusal = strict.refusal("read", {"path": "f"})
    assert refusal is not None and "9 times with these arguments" in refusal
    assert strict.refusal("read", {"path": "g"}) is None


def test_odd_characters_in_arguments_do_no_harm() -> None:
    guardrail = LoopGuardrail(ToolLoopGuardrailsConfig(stop_after=1))
    guardrail.note("read", {"path": "\udcff"}, "ok", "\udcff")
    assert guardrail.refusal("read", {"path": "\udcff"}) is not None


def test_the_model_is_told_in_the_tool_result(make_host: HostFactory, workdir: Path) -> None:
    call = tool_call("terminal", {"command": "echo same"})
    with ScriptedProvider([call, call, call, text("I see.")]) as provider:
        result = make_host(provider).new_session().run("go")
    assert result.status == "completed"
    results = [message["content"] for message in provider.requests[-1].messages if message["role"] == "tool"]
    assert ["Loop warning" in content for content in results] == [False, False, True]


def test_a_stop_is_a_blocked_call_with_its_own_reason(home: Path, workdir: Path) -> None:
    call = tool_call("terminal", {"command": "echo x >> ran"})
    with ScriptedProvider([call, call, call, text("I stop.")]) as provider:
        config = Config(
            model=ModelConfig(provider="custom", default="scripted", base_url=provider.base_url),
            agent=AgentConfig(api_max_retries=0),
            tool_loop_guardrails=ToolLoopGuardrailsConfig(stop_after=2),
        )
        with Host(home, config, cwd=workdir, env={}) as host:
            recorder = EventRecorder()
            recorder.attach(host.hooks)
            result = host.new_session().run("go")
    assert [call.status for call in result.tool_calls] == ["ok", "ok", "blocked"]
    assert (workdir / "ran").read_text() == "x\nx\n"
    last = recorder.of("post_tool_call")[-1]
    assert (last["status"], last["error_type"]) == ("blocked", "guardrail_block")
