"""``pre_approval_request`` and ``post_approval_response``: a pair for every question, nothing without one."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hermes.agent.approvals.responder import ApprovalAnswer, ApprovalRequest
from hermes.base.scope import Interrupt
from hermes.host import Host
from hermes.journal.questions import Questions
from hermes.testing import EventRecorder, ScriptedProvider, ScriptedResponder, text, tool_call
from support.approval_rig import NEVER, RISKY, RULE, approving_host, says

QUESTION = ("pre_approval_request", "post_approval_response")


def converse(host: Host, person: ScriptedResponder | None, interrupt: Interrupt | None = None) -> EventRecorder:
    """One turn with everything recorded; whatever happens, no start is left without its end."""
    recorder = EventRecorder().attach(host.hooks)
    session = host.new_session()
    if person is not None:
        host.responders.attach(session.id, person)
    session.run("go", interrupt=interrupt)
    session.close()
    assert recorder.breaches() == []
    return recorder


def asked(recorder: EventRecorder) -> list[str]:
    return [name for name in recorder.names() if name in QUESTION]


@pytest.mark.parametrize("choice", ["once", "session", "always", "deny", "timeout"])
def test_every_answer_closes_its_question(home: Path, workdir: Path, choice: str) -> None:
    script = [tool_call("terminal", {"command": RISKY}, call_id="call_x"), text("done")]
    with ScriptedProvider(script) as provider, approving_host(home, workdir, provider) as host:
        recorder = converse(host, ScriptedResponder(says(choice), surface="gateway"))
    assert asked(recorder) == list(QUESTION)
    [before], [after] = recorder.of("pre_approval_request"), recorder.of("post_approval_response")
    assert after == {**before, "choice": choice}
    assert (before["command"], before["surface"], before["tool_call_id"]) == (RISKY, "gateway", "call_x")
    assert (before["pattern_key"], before["pattern_keys"]) == (RULE, [RULE])
    assert before["session_key"] == before["session_id"] != ""
    assert before["turn_id"] and before["task_id"] and before["description"]


@pytest.mark.parametrize(
    ("command", "settings"),
    [
        ("true", {}),
        (RISKY, {}),
        (NEVER, {}),
        (RISKY, {"yolo": True}),
        (RISKY, {"permission_mode": "yolo"}),
        (RISKY, {"headless": "allow"}),
        (RISKY, {"deny": ["touch*"]}),
        (RISKY, {"allowlist": [RULE]}),
    ],
)
def test_no_question_no_hooks_and_no_row(home: Path, workdir: Path, command: str, settings: dict[str, Any]) -> None:
    script = [tool_call("terminal", {"command": command}), text("done")]
    with ScriptedProvider(script) as provider, approving_host(home, workdir, provider, **settings) as host:
        recorder = converse(host, None)
        assert asked(recorder) == []
        assert Questions(host.store).revoke() == []


def test_the_question_is_on_record_before_it_is_asked_and_the_answer_before_it_is_told(
    home: Path, workdir: Path
) -> None:
    states: list[tuple[str, str | None]] = []
    script = [tool_call("terminal", {"command": RISKY}), text("done")]
    with ScriptedProvider(script) as provider, approving_host(home, workdir, provider) as host:

        def look(**_: Any) -> None:
            query = "SELECT state, answer FROM questions"
            states.append(host.store.read(lambda connection: connection.execute(query).fetchone()))

        def approve(_request: ApprovalRequest, _interrupt: Interrupt) -> ApprovalAnswer:
            look()
            return says("once")

        for hook in (*QUESTION, "post_tool_call"):
            host.hooks.subscribe(hook, "watch", look)
        converse(host, ScriptedResponder(approve))
    assert states == [("pending", None), ("pending", None), ("granted", "once"), ("consumed", "once")]


def cancelled(request: ApprovalRequest, interrupt: Interrupt) -> ApprovalAnswer:
    """A person whose surface is told to stop."""
    threading.Timer(0.05, interrupt.cancel, ["stop"]).start()
    interrupt.wait(60)
    interrupt.check()
    return says("once")


def test_an_interrupted_question_is_closed_and_the_turn_ends(home: Path, workdir: Path) -> None:
    script = [tool_call("terminal", {"command": RISKY})]
    with ScriptedProvider(script) as provider, approving_host(home, workdir, provider) as host:
        recorder = converse(host, ScriptedResponder(cancelled))
        assert asked(recorder) == list(QUESTION)
        assert recorder.of("post_approval_response")[0]["choice"] == "deny"
        assert [call["status"] for call in recorder.of("post_tool_call")] == ["cancelled"]
        assert recorder.of("on_session_end")[0]["interrupted"]
        assert Questions(host.store).pending() == []
    assert not (workdir / "ran").exists()


def test_whatever_ends_the_question_is_told(home: Path, workdir: Path) -> None:
    script = [tool_call("terminal", {"command": RISKY})]
    with ScriptedProvider(script) as provider, approving_host(home, workdir, provider) as host:
        recorder = EventRecorder().attach(host.hooks)
        session = host.new_session()
        host.responders.attach(session.id, ScriptedResponder(KeyboardInterrupt()))
        with pytest.raises(KeyboardInterrupt):
            session.run("go")
    assert asked(recorder) == list(QUESTION)
    assert recorder.of("post_approval_response")[0]["choice"] == "deny"


def test_what_an_observer_does_to_the_question_does_not_change_it(home: Path, workdir: Path) -> None:
    def tamper(pattern_keys: list[str], **_: Any) -> str:
        pattern_keys.clear()
        return "once"

    person = ScriptedResponder(says("deny"))
    script = [tool_call("terminal", {"command": RISKY}), text("done")]
    with ScriptedProvider(script) as provider, approving_host(home, workdir, provider) as host:
        host.hooks.subscribe("pre_approval_request", "tamperer", tamper)
        converse(host, person)
    assert person.requests[0].rules == (RULE,) and not (workdir / "ran").exists()


def test_two_questions_of_one_call_are_two_pairs(home: Path, workdir: Path) -> None:
    """The model asks for one thing, middleware makes another one of it."""
    changed = "git push --force; touch ran"

    def change(next_call: Callable[..., Any], **_: Any) -> Any:
        return next_call({"command": changed})

    script = [tool_call("terminal", {"command": RISKY}), text("done")]
    with ScriptedProvider(script) as provider, approving_host(home, workdir, provider) as host:
        host.hooks.add_middleware("tool_execution", "changer", change)
        recorder = converse(host, ScriptedResponder(says("once"), says("once")))
        rows = Questions(host.store).recent(9)
    assert asked(recorder) == list(QUESTION) * 2
    assert [row.state for row in rows] == ["consumed", "granted"]
    assert (workdir / "ran").exists()
