"""Answers that are not whole: continued where that is possible, reported as what they are everywhere else."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hermes.agent.context.setup import CONTINUE
from hermes.agent.events import TurnFailed
from hermes.agent.turn import MAX_CONTINUATIONS
from hermes.base.config.schema.sections import ModelProviderConfig
from hermes.surfaces.embedding.agent import Agent
from hermes.testing import EventRecorder, ScriptedProvider, text, tool_call, tool_calls
from hermes.trace.verify.session import verify
from support import HostFactory, run_hermes, write_config
from support.configured import configured_host, tool_answers


def cut(content: str, reason: str = "length") -> Any:
    return text(content, finish_reason=reason)


# -- in a turn -------------------------------------------------------------------------------------------------------


def test_an_answer_at_the_output_limit_is_continued(make_host: HostFactory) -> None:
    with ScriptedProvider([cut("one two "), cut("three "), text("four")]) as provider:
        host = make_host(provider)
        session = host.new_session()
        result = session.run("count")
    assert (result.status, result.finish_reason, result.answer) == ("completed", "stop", "one two three four")
    assert [request.last_user_text for request in provider.requests] == ["count", CONTINUE, CONTINUE]
    assert provider.requests[2].messages[-2:] == [
        {"role": "assistant", "content": "three "},
        {"role": "user", "content": CONTINUE},
    ]


def test_it_is_continued_three_times_at_most(make_host: HostFactory) -> None:
    with ScriptedProvider(lambda request: cut(f"{request.number} ")) as provider:
        session = make_host(provider).new_session()
        result = session.run("count")
        again = session.last_result()
    assert len(provider.requests) == MAX_CONTINUATIONS + 1
    assert (result.status, result.finish_reason, result.answer) == ("incomplete", "length", "1 2 3 4 ")
    assert "output limit, after 3 continuations" in (result.error or "")
    assert (again.status, again.finish_reason, again.error) == (result.status, result.finish_reason, result.error)


@pytest.mark.parametrize(
    "sections",
    [
        {"model": {"max_tokens": 50}},
        {"model": {"extra_body": {"max_tokens": 50}}},
        {"providers": {"custom": ModelProviderConfig(max_tokens=50)}},
        {"model": {"max_tokens": 50}, "providers": {"custom": ModelProviderConfig(max_tokens=70)}},
    ],
)
def test_it_is_not_continued_when_the_user_set_the_limit(home: Path, workdir: Path, sections: dict[str, Any]) -> None:
    with (
        ScriptedProvider([cut("half"), text("more")]) as provider,
        configured_host(home, workdir, provider, **sections) as host,
    ):
        result = host.new_session().run("go")
    assert provider.requests[0].body["max_tokens"] == 50
    assert (result.status, result.answer, len(provider.requests)) == ("incomplete", "half", 1)
    assert result.error == "the answer was cut off at the output limit; raise model.max_tokens"


def test_structured_output_is_not_continued(home: Path, workdir: Path) -> None:
    class Point(msgspec.Struct):
        x: int

    with ScriptedProvider([cut('{"x": '), text("1}")]) as provider:
        config = {"model": {"provider": "custom", "base_url": provider.base_url, "default": "scripted"}}
        with Agent(home=home, config=config, cwd=workdir) as agent:
            result = agent.run("go", output=Point)
    assert (result.status, result.finish_reason, result.output, len(provider.requests)) == (
        "incomplete",
        "length",
        None,
        1,
    )
    with pytest.raises(TurnFailed, match="output limit"):
        result.raise_for_status()


def test_the_last_step_of_a_turn_is_not_continued(home: Path, workdir: Path) -> None:
    with (
        ScriptedProvider(lambda _: cut("piece ")) as provider,
        configured_host(home, workdir, provider, options={"max_turns": 2}) as host,
    ):
        result = host.new_session().run("go")
    assert (result.status, result.answer, len(provider.requests)) == ("incomplete", "piece piece ", 2)


def test_a_pause_is_continued(home: Path, workdir: Path) -> None:
    with ScriptedProvider([cut("Searching. ", "pause_turn"), text("Found.")]) as provider:
        model = {"api_mode": "anthropic_messages"}
        with configured_host(home, workdir, provider, model=model) as host:
            result = host.new_session().run("go")
    assert (result.status, result.answer) == ("completed", "Searching. Found.")


@pytest.mark.parametrize(
    ("reply", "reason", "words"),
    [
        (cut("It is", "content_filter"), "content_filter", "content filter"),
        (cut("It is", "content_filter: SAFETY"), "content_filter", "content filter"),
        (cut("It is", "PROHIBITED_CONTENT"), "content_filter", "content filter"),
    ],
)
def test_a_filtered_answer_says_so(make_host: HostFactory, reply: Any, reason: str, words: str) -> None:
    with ScriptedProvider([reply]) as provider:
        host = make_host(provider)
        recorder = EventRecorder().attach(host.hooks)
        result = host.new_session().run("go")
    assert (result.status, result.finish_reason, result.answer) == ("incomplete", reason, "It is")
    assert words in (result.error or "")
    told = {event.name: event.payload.get("finish_reason") for event in recorder.events}
    assert told["post_llm_call"] == told["on_session_end"] == told["post_api_request"] == reason


def test_an_answer_that_failed_upstream_is_asked_for_again(home: Path, workdir: Path) -> None:
    with ScriptedProvider([cut("Half", "error"), text("Whole.")]) as provider:
        write_config(home, provider.base_url, "  api_max_retries: 1\n")
        config = (home / "config.yaml").read_text().replace("  api_max_retries: 0\n", "")
        (home / "config.yaml").write_text(config)
        done = run_hermes("chat", "-Q", "-q", "go", home=home, cwd=workdir)
    assert (done.returncode, done.stdout) == (0, "Whole.\n")


# -- tool calls ------------------------------------------------------------------------------------------------------


def test_a_call_that_is_cut_off_names_the_output_limit(make_host: HostFactory) -> None:
    script = [tool_call("read_file", '{"path": "no', finish_reason="length"), text("I see.")]
    with ScriptedProvider(script) as provider:
        host = make_host(provider)
        session = host.new_session()
        result = session.run("go")
        [answer] = tool_answers(host, session.id)
    assert "output limit" in answer["error"] and "Send less at once" in answer["error"]
    assert "JSON" not in answer["error"]
    assert (result.status, result.answer) == ("completed", "I see.")


def test_whole_calls_of_a_reply_at_the_limit_run(make_host: HostFactory, workdir: Path) -> None:
    (workdir / "a").write_text("text of a")
    calls = tool_calls([("read_file", {"path": "a"}), ("read_file", '{"path"')], finish_reason="length")
    with ScriptedProvider([calls, text("ok")]) as provider:
        host = make_host(provider)
        session = host.new_session()
        session.run("go")
        first, second = tool_answers(host, session.id)
    assert "text of a" in first["content"] and "output limit" in second["error"]


def test_advice_about_arguments_is_given_once(make_host: HostFactory) -> None:
    with ScriptedProvider([tool_call("read_file", "{nonsense"), tool_call("read_file", "[1]"), text("ok")]) as provider:
        host = make_host(provider)
        session = host.new_session()
        session.run("go")
        answers = tool_answers(host, session.id)
    assert [answer["error"].count("JSON object.") for answer in answers] == [1, 1]
    assert not any(".." in answer["error"] for answer in answers)


def test_a_call_after_the_last_step_leaves_nothing_open(home: Path, workdir: Path) -> None:
    with (
        ScriptedProvider(lambda _: tool_call("todo", {})) as provider,
        configured_host(home, workdir, provider, options={"max_turns": 2}) as host,
    ):
        session = host.new_session()
        result = session.run("go")
        problems = verify(host.sessions.export(session.id))
    assert result.status == "failed" and "within its 2 steps" in (result.error or "")
    assert "max_tokens" not in (result.error or "")
    assert not problems


# -- at the command line ---------------------------------------------------------------------------------------------


def test_quiet_prints_what_there_is_and_exits_with_4(home: Path, workdir: Path) -> None:
    with ScriptedProvider([cut("half", "content_filter")]) as provider:
        write_config(home, provider.base_url)
        done = run_hermes("chat", "-Q", "-q", "go", home=home, cwd=workdir)
        again = run_hermes("chat", "-Q", "-c", home=home, cwd=workdir)
    assert (done.returncode, done.stdout) == (4, "half\n")
    assert done.stderr.splitlines()[1:] == [
        "Incomplete: the provider's content filter cut the answer off; rephrase the request or use another model"
    ]
    assert (again.returncode, again.stdout, again.stderr.splitlines()[1:]) == (
        4,
        "half\n",
        done.stderr.splitlines()[1:],
    )


@pytest.mark.parametrize("style", ["--json", "--stream-json"])
def test_programs_are_told_the_finish_reason(home: Path, workdir: Path, style: str) -> None:
    with ScriptedProvider({"cut": cut("half", "content_filter"), "whole": text("all of it")}) as provider:
        write_config(home, provider.base_url)
        runs = [run_hermes("chat", style, "-q", query, home=home, cwd=workdir) for query in ("cut", "whole")]
    results = [json.loads(done.stdout.splitlines()[-1]) for done in runs]
    assert [done.returncode for done in runs] == [4, 0]
    assert [(one["status"], one["finish_reason"]) for one in results] == [
        ("incomplete", "content_filter"),
        ("completed", "stop"),
    ]
    assert "content filter" in results[0]["error"] and results[1]["error"] is None


def test_text_shown_in_pieces_is_not_shown_again(home: Path, workdir: Path) -> None:
    with ScriptedProvider([cut("one "), text("two")]) as provider:
        write_config(home, provider.base_url)
        done = run_hermes("chat", "-q", "go", home=home, cwd=workdir)
    assert (done.returncode, done.stdout) == (0, "one two\n")
