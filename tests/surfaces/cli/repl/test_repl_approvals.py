"""Questions at the prompt: approvals and the model's own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hermes.base.errors import TurnSuspended
from hermes.testing import ScriptedProvider, ScriptedResponder, text, tool_call
from hermes.testing.scripted.script import RecordedRequest
from support import write_config
from support.configured import configured_host
from support.repl_terminal import CTRL_C, ReplTerminal

#: Looks dangerous and does nothing.
DANGEROUS = "rm -rf ./nothing-here"


def _tool_result(request: RecordedRequest) -> dict[str, object]:
    return json.loads(request.messages[-1]["content"])


@pytest.mark.parametrize(
    ("typed", "runs"), [("o", True), ("/approve", True), ("not today, please", False), ("/deny not today", False)]
)
def test_a_dangerous_command_waits_for_the_persons_word(home: Path, workdir: Path, typed: str, runs: bool) -> None:
    script = [tool_call("terminal", {"command": f"{DANGEROUS}; echo done"}), text("I see.")]
    with ScriptedProvider(script) as provider:
        write_config(home, provider.base_url)
        with ReplTerminal(home, workdir) as terminal:
            terminal.send("tidy up")
            terminal.wait_for("allow?")
            assert f"The agent wants to run this command:\n    {DANGEROUS}; echo done\n" in terminal.text
            assert "s left)" not in terminal.text, "a person may take any time"
            terminal.send("/status")
            terminal.wait_for("Approvals  mode ask-risky")
            terminal.send("yes maybe")
            terminal.wait_for("answer o (once)")
            terminal.send(typed)
            terminal.wait_for("I see.")
            terminal.send("/quit")
            assert terminal.end() == 0
    result = _tool_result(provider.requests[1])
    assert ("done" in str(result.get("output"))) is runs
    assert ("not today" in str(result)) is not runs


def test_an_approval_for_the_session_is_not_asked_again_and_a_draft_waits_meanwhile(home: Path, workdir: Path) -> None:
    call = tool_call("terminal", {"command": f"until [ -e go ]; do sleep 0.02; done; {DANGEROUS}"})
    gate = tool_call("terminal", {"command": "touch started; until [ -e go ]; do sleep 0.02; done"})
    with ScriptedProvider([gate, call, call, text("Both done."), text("Heard.")]) as provider:
        write_config(home, provider.base_url)
        with ReplTerminal(home, workdir) as terminal:
            terminal.send("go")
            terminal.wait_until(lambda: (workdir / "started").exists())
            terminal.type("half a thought")
            terminal.wait_for("> half a thought")
            (workdir / "go").touch()
            terminal.wait_for("allow?")
            terminal.wait_until_gone("> half a thought")
            terminal.send("s")
            terminal.wait_for("Both done.")
            terminal.wait_for("> half a thought")
            terminal.send(" is whole now")
            terminal.wait_for("Heard.")
            terminal.send("/quit")
            assert terminal.end() == 0
    assert terminal.raw.count(b"The agent wants to run") == 1
    assert provider.requests[-1].last_user_text == "half a thought is whole now"


def test_ctrl_c_at_a_question_stops_the_turn_and_is_not_asked_about_later(home: Path, workdir: Path) -> None:
    call = tool_call("terminal", {"command": DANGEROUS})
    with ScriptedProvider([call, text("Fresh.")]) as provider:
        write_config(home, provider.base_url)
        with ReplTerminal(home, workdir) as terminal:
            terminal.send("tidy up")
            terminal.wait_for("allow?")
            terminal.type("o" + CTRL_C)
            terminal.wait_for("[interrupted]")
            terminal.send("/quit")
            assert terminal.end() == 0
        with ReplTerminal(home, workdir, "-c") as terminal:
            terminal.wait_until_idle()
            assert "Continue it?" not in terminal.text
            terminal.send("something new")
            terminal.wait_for("Fresh.")
            terminal.send("/quit")
            assert terminal.end() == 0
    assert [request.last_user_text for request in provider.requests] == ["tidy up", "something new"]


@pytest.mark.parametrize(
    ("typed", "heard"),
    [("2", "blue"), ("something else", "something else"), ("", None)],
    ids=["number", "words", "none"],
)
def test_the_model_can_ask_with_choices(home: Path, workdir: Path, typed: str, heard: str | None) -> None:
    ask = tool_call("clarify", {"question": "Which colour?", "choices": ["red", "blue"]})
    with ScriptedProvider([ask, text("Thank you.")]) as provider:
        write_config(home, provider.base_url)
        with ReplTerminal(home, workdir, columns=40) as terminal:
            terminal.send("paint it")
            terminal.wait_for("answer:")
            assert "The agent asks: Which colour?\n  1. red\n  2. blue\n" in terminal.text
            terminal.send(typed)
            terminal.wait_for("Thank you.")
            terminal.send("/quit")
            assert terminal.end() == 0
    assert _tool_result(provider.requests[1])["user_response"] == heard


def test_one_message_on_a_terminal_may_ask_too(home: Path, workdir: Path) -> None:
    script = [tool_call("terminal", {"command": f"{DANGEROUS}; echo done"}), text("I see.")]
    with ScriptedProvider(script) as provider:
        write_config(home, provider.base_url)
        with ReplTerminal(home, workdir, "chat", "-q", "tidy up", ready="allow?") as terminal:
            terminal.type("yes what\n")
            terminal.wait_for("answer o (once)")
            terminal.type("y\n")
            assert terminal.end() == 0
            assert "I see." in terminal.text
    assert "done" in str(_tool_result(provider.requests[1]))


def test_one_message_that_asks_can_be_interrupted_and_times_out(home: Path, workdir: Path) -> None:
    call = tool_call("terminal", {"command": DANGEROUS})
    with ScriptedProvider([call, call, text("Later then.")]) as provider:
        write_config(home, provider.base_url, "approvals:\n  timeout: 1\n")
        with ReplTerminal(home, workdir, "chat", "-q", "tidy up", ready="allow?") as terminal:
            terminal.type(CTRL_C)
            assert terminal.end() == 130
        with ReplTerminal(home, workdir, "chat", "-q", "tidy up", ready="allow?") as terminal:
            assert terminal.end() == 0
            assert "Later then." in terminal.text


def test_the_prompt_mentions_calls_of_callers_that_wait_for_the_owner(home: Path, workdir: Path) -> None:
    script = [tool_call("terminal", {"command": DANGEROUS}), text("Hello.")]
    with ScriptedProvider(script) as provider:
        write_config(home, provider.base_url)
        with configured_host(home, workdir, provider) as host:
            caller = host.new_session(principal="bob", cwd=workdir)
            host.responders.attach(caller.id, ScriptedResponder(TurnSuspended(), surface="owner"))
            with pytest.raises(TurnSuspended):
                caller.run("tidy up")
        with ReplTerminal(home, workdir) as terminal:
            terminal.wait_for("1 call of callers waits for your approval: hermes approvals pending")
            terminal.send("hi")
            terminal.wait_for("Hello.")
            terminal.send("/quit")
            assert terminal.end() == 0
    assert terminal.raw.count(b"waits for your approval") == 1
