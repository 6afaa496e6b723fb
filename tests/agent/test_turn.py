"""A turn from the user's message to the answer, through real HTTP and a real journal."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from hermes.agent.context.setup import OUT_OF_TURNS
from hermes.base.scope import Interrupt
from hermes.contract.events import AttemptFailed, TextDelta, ToolEnded, ToolStarted, TurnEvent
from hermes.testing import ScriptedProvider, failure, hanging, text, tool_call, tool_calls
from support import HostFactory


def test_a_question_is_answered_with_text(make_host: HostFactory) -> None:
    with ScriptedProvider([text("Paris.", usage={"prompt_tokens": 12, "completion_tokens": 3})]) as provider:
        session = make_host(provider).new_session()
        result = session.run("What is the capital of France?")

    assert (result.status, result.answer, result.error) == ("completed", "Paris.", None)
    assert (result.usage.prompt_tokens, result.usage.output_tokens) == (12, 3)
    [request] = provider.requests
    assert [message["role"] for message in request.messages] == ["system", "user"]
    assert request.headers["authorization"] == "Bearer test-key"
    assert {tool["function"]["name"] for tool in request.body["tools"]} >= {"terminal", "read_file", "write_file"}


def test_tool_calls_run_and_their_results_go_back_in_order(make_host: HostFactory, workdir: Path) -> None:
    (workdir / "a.txt").write_text("alpha\n")
    (workdir / "b.txt").write_text("beta\n")
    script = [
        tool_calls([("read_file", {"path": "a.txt"}), ("read_file", {"path": "b.txt"})]),
        tool_call("terminal", {"command": "printf done"}),
        text("Both read."),
    ]
    seen: list[TurnEvent] = []
    with ScriptedProvider(script) as provider:
        result = make_host(provider).new_session().run("Read both files", listener=seen.append)

    assert result.answer == "Both read."
    assert [(call.tool_name, call.status) for call in result.tool_calls] == [
        ("read_file", "ok"),
        ("read_file", "ok"),
        ("terminal", "ok"),
    ]
    second = provider.requests[1].messages
    assert [message["role"] for message in second] == ["system", "user", "assistant", "tool", "tool"]
    assert "alpha" in second[3]["content"] and "beta" in second[4]["content"]
    assert second[3]["tool_call_id"] == second[2]["tool_calls"][0]["id"]
    assert '"output":"done"' in provider.requests[2].messages[-1]["content"]
    tools = [type(event) for event in seen if isinstance(event, ToolStarted | ToolEnded)]
    assert tools[:4] == [ToolStarted, ToolStarted, ToolEnded, ToolEnded]


def test_text_is_streamed_while_it_arrives(make_host: HostFactory) -> None:
    pieces: list[str] = []
    with ScriptedProvider([text("one two three", chunks=["one ", "two ", "three"])]) as provider:

        def listen(event: TurnEvent) -> None:
            if isinstance(event, TextDelta):
                pieces.append(event.text)

        make_host(provider).new_session().run("count", listener=listen)
    assert pieces == ["one ", "two ", "three"]


def test_out_of_turns_asks_once_more_without_tools(make_host: HostFactory, workdir: Path) -> None:
    (workdir / "f").write_text("x")
    script = [tool_call("read_file", {"path": "f"}), tool_call("read_file", {"path": "f"}), text("As far as I got.")]
    with ScriptedProvider(script) as provider:
        result = make_host(provider, max_turns=2).new_session().run("go")

    assert (result.status, result.answer, result.steps) == ("completed", "As far as I got.", 3)
    last = provider.requests[2]
    assert "tools" not in last.body
    assert last.messages[-1] == {"role": "user", "content": OUT_OF_TURNS}


def test_a_model_that_still_calls_tools_when_out_of_turns_is_taken_at_its_word(
    make_host: HostFactory, workdir: Path
) -> None:
    (workdir / "f").write_text("x")
    script = [tool_call("read_file", {"path": "f"}), tool_calls([("read_file", {"path": "f"})], content="Half done.")]
    with ScriptedProvider(script) as provider:
        result = make_host(provider, max_turns=1).new_session().run("go")
    assert result.answer == "Half done."


def test_a_second_message_sees_the_first(make_host: HostFactory) -> None:
    with ScriptedProvider([text("Hello Ada."), text("You are Ada.")]) as provider:
        session = make_host(provider).new_session()
        session.run("I am Ada")
        session.run("Who am I?")
    contents = [message["content"] for message in provider.requests[1].messages[1:]]
    assert contents == ["I am Ada", "Hello Ada.", "Who am I?"]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ('{"path": ', "JSON"),
        ("[1, 2]", "object"),
        ("{}", "path"),
        ('{"path": "f", "offset": "many"}', "offset"),
    ],
)
def test_bad_arguments_are_an_error_the_model_can_act_on(
    make_host: HostFactory, arguments: str, complaint: str
) -> None:
    with ScriptedProvider([tool_call("read_file", arguments), text("Sorry.")]) as provider:
        result = make_host(provider).new_session().run("read")
    assert result.status == "completed"
    assert result.tool_calls[0].status == "error"
    assert complaint in provider.requests[1].messages[-1]["content"]


def test_an_unknown_tool_is_an_error_the_model_can_act_on(make_host: HostFactory) -> None:
    with ScriptedProvider([tool_call("fly", {"to": "the moon"}), text("I cannot fly.")]) as provider:
        result = make_host(provider).new_session().run("fly")
    assert "Unknown tool: fly" in provider.requests[1].messages[-1]["content"]
    assert result.answer == "I cannot fly."


def test_a_tool_that_was_not_offered_does_not_run(make_host: HostFactory, workdir: Path) -> None:
    script = [tool_call("terminal", {"command": "touch made"}), text("No.")]
    with ScriptedProvider(script) as provider:
        make_host(provider, toolsets=["file"]).new_session().run("go")
    assert "Unknown tool: terminal" in provider.requests[1].messages[-1]["content"]
    assert not (workdir / "made").exists()


def test_a_passing_failure_is_retried_and_both_attempts_are_on_record(make_host: HostFactory) -> None:
    failures: list[AttemptFailed] = []
    with ScriptedProvider([failure(503, "busy", headers={"retry-after": "0"}), text("Now.")]) as provider:
        host = make_host(provider, retries=1)
        session = host.new_session()
        result = session.run("hi", listener=lambda e: failures.append(e) if isinstance(e, AttemptFailed) else None)
        rows = host.sessions.model_calls(session.id)
    assert result.answer == "Now." and len(failures) == 1
    assert [row["status"] for row in rows] == ["error", "ok"]
    assert rows[0]["api_request_id"] != rows[1]["api_request_id"]


def test_a_final_failure_is_a_result_and_the_session_goes_on(make_host: HostFactory) -> None:
    with ScriptedProvider([failure(401, "bad key"), text("Better.")]) as provider:
        session = make_host(provider).new_session()
        first = session.run("hi")
        second = session.run("again")
    assert first.status == "failed" and "key" in (first.error or "")
    assert second.answer == "Better."
    assert [m["role"] for m in provider.requests[1].messages] == ["system", "user", "assistant", "user"]


def test_an_interrupt_during_the_model_call_ends_the_turn_with_everything_on_record(make_host: HostFactory) -> None:
    interrupt = Interrupt()
    with ScriptedProvider([hanging()]) as provider:
        host = make_host(provider)
        session = host.new_session()
        canceller = threading.Thread(target=lambda: (provider.wait_for_request(), interrupt.cancel("stop")))
        canceller.start()
        result = session.run("hi", interrupt=interrupt)
        canceller.join()
        turn = host.sessions.last_turn(session.id)
        [call] = host.sessions.model_calls(session.id)
    assert result.status == "interrupted"
    assert turn is not None and turn.state == "interrupted"
    assert call["status"] == "interrupted"


def test_partial_text_of_an_interrupted_answer_is_kept(make_host: HostFactory) -> None:
    interrupt = Interrupt()

    def stop_at_text(event: TurnEvent) -> None:
        if isinstance(event, TextDelta):
            interrupt.cancel("enough")

    with ScriptedProvider([text("The beginning", chunks=["The beg", "inning"], chunk_delay=0.3)]) as provider:
        host = make_host(provider)
        session = host.new_session()
        result = session.run("tell", listener=stop_at_text, interrupt=interrupt)
        messages = host.sessions.messages(session.id)
    assert result.status == "interrupted" and result.answer == "The beg"
    assert messages[-1] == {"role": "assistant", "content": "The beg\n\n[interrupted]"}


def test_an_interrupt_during_a_tool_kills_it_and_closes_every_call(make_host: HostFactory, workdir: Path) -> None:
    interrupt = Interrupt()
    script = [tool_calls([("terminal", {"command": "sleep 30"}), ("terminal", {"command": "touch never"})])]

    def stop_at_tool(event: TurnEvent) -> None:
        if isinstance(event, ToolStarted):
            threading.Timer(0.1, interrupt.cancel, ["stop"]).start()

    with ScriptedProvider(script) as provider:
        host = make_host(provider)
        session = host.new_session()
        result = session.run("go", listener=stop_at_tool, interrupt=interrupt)
        messages: list[dict[str, Any]] = host.sessions.messages(session.id)
    assert result.status == "interrupted"
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "tool", "assistant"]
    assert '"outcome":"unknown"' in messages[2]["content"] and "cancelled" in messages[3]["content"]
    assert not (workdir / "never").exists()


def test_a_reply_without_any_text_is_a_failure_that_says_so(make_host: HostFactory) -> None:
    with ScriptedProvider([text("   ")]) as provider:
        result = make_host(provider).new_session().run("hi")
    assert result.status == "failed" and "without an answer" in (result.error or "")
