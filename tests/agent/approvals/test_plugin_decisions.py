"""What several plugins answer to ``pre_tool_call`` about one call: a block wins, changes add up and are judged."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from hermes.agent.approvals.gate import plugin_decision
from hermes.hooks.observers import Answer
from hermes.host import Host
from hermes.testing import EventRecorder, ScriptedProvider, ScriptedResponder, text, tool_call
from support.approval_rig import NEVER, RISKY, RULE, approving_host, says

Policy = Callable[..., Any]

BLOCK = {"action": "block", "message": "not today"}
APPROVE = {"action": "approve", "message": "look at it"}
MODIFY: dict[str, Any] = {"action": "modify", "args": {"command": "touch changed"}}


def always(value: Any) -> Policy:
    """A policy that answers the same about every call."""

    def answer(**_: Any) -> Any:
        return value

    return answer


def run_call(
    host: Host, policies: dict[str, Policy], *answers: str, command: str = "touch ran", **options: Any
) -> tuple[dict[str, Any], ScriptedResponder, EventRecorder]:
    """One turn with one command: how the call ended, the person who was asked, and everything that fired."""
    for name, policy in policies.items():
        host.hooks.subscribe("pre_tool_call", name, policy, **options)
    recorder = EventRecorder().attach(host.hooks)
    person = ScriptedResponder(*map(says, answers))
    session = host.new_session()
    host.responders.attach(session.id, person)
    session.run(command)
    session.close()
    assert recorder.pairs_unbalanced() == [] and recorder.contract_violations() == []
    [ended] = recorder.of("post_tool_call")
    return ended, person, recorder


def script(command: str = "touch ran") -> list[Any]:
    return [tool_call("terminal", {"command": command}), text("done")]


@pytest.mark.parametrize("order", list(permutations(["blocks", "approves", "modifies"])))
def test_a_block_beats_every_other_answer_in_every_order(home: Path, workdir: Path, order: tuple[str, ...]) -> None:
    policies = {"blocks": always(BLOCK), "approves": always(APPROVE), "modifies": always(MODIFY)}
    with ScriptedProvider(script()) as provider, approving_host(home, workdir, provider) as host:
        ended, person, _ = run_call(host, {name: policies[name] for name in order}, "once")
    assert (ended["status"], ended["error_type"]) == ("blocked", "plugin_block")
    assert json.loads(ended["result"]) == {"error": "not today"}
    assert person.requests == []
    assert not (workdir / "ran").exists() and not (workdir / "changed").exists()


@pytest.mark.parametrize("order", [("first", "second"), ("second", "first")])
def test_each_plugin_that_wants_approval_is_a_reason_of_its_own(
    home: Path, workdir: Path, order: tuple[str, ...]
) -> None:
    policies = {name: always({**APPROVE, "message": f"{name} asks", "rule_key": name}) for name in order}
    allowed = "plugin_rule:first"
    with (
        ScriptedProvider(script()) as provider,
        approving_host(home, workdir, provider, allowlist=[allowed]) as host,
    ):
        ended, person, recorder = run_call(host, policies, "deny")
    [request] = person.requests
    assert (request.rules, request.description) == (("plugin_rule:second",), "second asks")
    assert ended["error_type"] == "approval_denied" and not (workdir / "ran").exists()
    assert [event["pattern_keys"] for event in recorder.of("post_approval_response")] == [["plugin_rule:second"]]


def test_who_decided_is_recorded() -> None:
    answers = [Answer("a", APPROVE), Answer("b", MODIFY), Answer("c", APPROVE), Answer("a", APPROVE)]
    findings, plugins = plugin_decision("terminal", answers)
    assert isinstance(findings, tuple) and len(findings) == 2 and plugins == ["a", "c"]
    decision, plugins = plugin_decision("terminal", [*answers, Answer("d", BLOCK), Answer("e", BLOCK)])
    assert not isinstance(decision, tuple) and not decision.allowed and plugins == ["d"]
    for nothing in (None, "block", {}, {"action": "block"}, {"action": "block", "message": 7}, {"action": "allow"}):
        assert plugin_decision("terminal", [Answer("a", nothing)]) == ((), [])


# -- modify ---------------------------------------------------------------------------------------------------------


def test_changed_arguments_run_and_are_shown_as_changed(home: Path, workdir: Path) -> None:
    with ScriptedProvider(script()) as provider, approving_host(home, workdir, provider) as host:
        ended, _, recorder = run_call(host, {"rewriter": always(MODIFY)})
        recorded = [event["body"].get("decisions") for event in host.sessions.events(ended["session_id"])]
    assert [{"plugin": "rewriter", "site": "pre_tool_call", "did": "changed"}] in recorded
    assert (workdir / "changed").exists() and not (workdir / "ran").exists()
    assert ended["args"] == {"command": "touch changed"}
    assert ended["middleware_trace"] == [{"source": "rewriter", "reason": "changed args in a hook"}]
    [started] = recorder.of("pre_tool_call")
    assert started["args"] == {"command": "touch changed"}


@pytest.mark.parametrize("order", [("one", "two"), ("two", "one")])
def test_several_changes_add_up_and_the_later_one_has_the_last_word(
    home: Path, workdir: Path, order: tuple[str, ...]
) -> None:
    policies = {
        "one": always({"action": "modify", "args": {"command": "touch one", "timeout": 7}}),
        "two": always({"action": "modify", "args": {"command": "touch two"}}),
    }
    with ScriptedProvider(script()) as provider, approving_host(home, workdir, provider) as host:
        ended, _, _ = run_call(host, {name: policies[name] for name in order})
    assert ended["args"] == {"command": f"touch {order[-1]}", "timeout": 7}
    assert [entry["source"] for entry in ended["middleware_trace"]] == list(order)
    assert (workdir / order[-1]).exists() and not (workdir / order[0]).exists()


@pytest.mark.parametrize("in_place", [False, True], ids=["modify", "in place"])
@pytest.mark.parametrize("order", [("guard", "rewriter"), ("rewriter", "guard")])
def test_a_guard_sees_what_runs_wherever_it_is_registered(
    home: Path, workdir: Path, order: tuple[str, ...], in_place: bool
) -> None:
    seen: list[tuple[str, int]] = []

    def guard(args: dict[str, Any], middleware_trace: list[Any], **_: Any) -> Any:
        seen.append((args["command"], len(middleware_trace)))
        return BLOCK if "changed" in args["command"] else None

    def rewriter(args: dict[str, Any], **_: Any) -> Any:
        if not in_place:
            return MODIFY
        args.update(MODIFY["args"])
        return None

    policies = {"guard": guard, "rewriter": rewriter}
    with ScriptedProvider(script()) as provider, approving_host(home, workdir, provider) as host:
        ended, _, _ = run_call(host, {name: policies[name] for name in order})
    assert ended["error_type"] == "plugin_block" and not (workdir / "changed").exists()
    assert seen[-1] == ("touch changed", 1)
    assert len(seen) == (2 if order[0] == "guard" else 1)


def test_one_that_is_asked_again_changes_nothing_and_may_want_approval(home: Path, workdir: Path) -> None:
    def prefix(args: dict[str, Any], **_: Any) -> Any:
        command = f"true && {args['command']}"
        # The second time it would put its prefix before its own.
        return {"action": "modify", "args": {"command": command}} if "changed" not in command else APPROVE

    def rename(args: dict[str, Any], **_: Any) -> Any:
        return {"action": "modify", "args": {"command": args["command"].replace("ran", "changed")}}

    def double(args: dict[str, Any], **_: Any) -> Any:
        return {"action": "modify", "args": {"timeout": args.get("timeout", 5) * 2}}

    with ScriptedProvider(script()) as provider, approving_host(home, workdir, provider) as host:
        policies = {"double": double, "prefix": prefix, "rename": rename}
        ended, person, _ = run_call(host, policies, "once")
    assert ended["args"] == {"command": "true && touch changed", "timeout": 10}
    [request] = person.requests
    assert request.subject == "true && touch changed"
    assert request.description == "look at it (changed by double, prefix, rename)"
    assert (workdir / "changed").exists()


def test_a_guard_that_fails_about_the_changed_arguments_blocks(home: Path, workdir: Path) -> None:
    def guard(args: dict[str, Any], **_: Any) -> None:
        assert "changed" not in args["command"]

    with ScriptedProvider(script()) as provider, approving_host(home, workdir, provider) as host:
        host.hooks.subscribe("pre_tool_call", "guard", guard, on_error="deny")
        ended, _, _ = run_call(host, {"rewriter": always(MODIFY)})
    assert ended["error_type"] == "plugin_block" and "'guard' could not be evaluated" in ended["error_message"]
    assert not (workdir / "changed").exists()


def test_what_only_observes_is_not_told_twice(home: Path, workdir: Path) -> None:
    seen: list[Any] = []
    queued: list[Any] = []

    def note(**fields: Any) -> None:
        queued.append(fields)

    with ScriptedProvider(script()) as provider, approving_host(home, workdir, provider) as host:
        host.hooks.subscribe_events("sink", seen.append)
        host.hooks.subscribe("pre_tool_call", "queue", note, background=True)
        first = EventRecorder().attach(host.hooks)
        run_call(host, {"rewriter": always(MODIFY)})
        host.hooks.flush()
        assert first.pairs_unbalanced() == [] and len(first.of("pre_tool_call")) == 2
    assert [type(event).__name__ for event in seen].count("ToolStarted") == 1
    assert len(queued) == 1


@pytest.mark.parametrize(
    ("changes", "status", "error_type"),
    [
        ({"command": NEVER}, "blocked", "hardline_block"),
        ({"command": RISKY}, "blocked", "approval_denied"),
        ({"command": ["touch", "ran"]}, "error", "invalid_arguments"),
        ({"command": None}, "error", "invalid_arguments"),
    ],
)
def test_changed_arguments_are_validated_and_judged(
    home: Path, workdir: Path, changes: dict[str, Any], status: str, error_type: str
) -> None:
    with ScriptedProvider(script()) as provider, approving_host(home, workdir, provider) as host:
        policies = {"rewriter": always({"action": "modify", "args": changes})}
        ended, person, _ = run_call(host, policies, "deny")
    assert (ended["status"], ended["error_type"]) == (status, error_type)
    assert not (workdir / "ran").exists()
    if error_type == "approval_denied":
        [request] = person.requests
        assert (request.subject, request.rules) == (RISKY, (RULE,))
        assert request.description.endswith(" (changed by rewriter)")


@pytest.mark.parametrize("args", [None, [], "touch changed", {}])
def test_a_modify_without_changes_changes_nothing(home: Path, workdir: Path, args: Any) -> None:
    with ScriptedProvider(script()) as provider, approving_host(home, workdir, provider) as host:
        ended, _, _ = run_call(host, {"rewriter": always({"action": "modify", "args": args})})
    assert ended["args"] == {"command": "touch ran"} and ended["middleware_trace"] == []
    assert (workdir / "ran").exists()


def test_one_that_does_not_take_the_arguments_may_change_them(home: Path, workdir: Path) -> None:
    def narrow(tool_name: str) -> Any:
        return {"action": "modify", "args": {"timeout": 9}} if tool_name == "terminal" else None

    with ScriptedProvider(script()) as provider, approving_host(home, workdir, provider) as host:
        ended, _, _ = run_call(host, {"narrow": narrow})
    assert ended["args"] == {"command": "touch ran", "timeout": 9}


# -- a policy that fails --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [("broken", "approves"), ("approves", "broken")])
@pytest.mark.parametrize("error", [ValueError("lost"), KeyboardInterrupt(), SystemExit(3)])
def test_a_policy_that_asked_for_it_fails_closed_and_is_named(
    home: Path, workdir: Path, order: tuple[str, ...], error: BaseException
) -> None:
    def broken(**_: Any) -> None:
        raise error

    policies = {"broken": broken, "approves": always(APPROVE)}
    with ScriptedProvider(script()) as provider, approving_host(home, workdir, provider) as host:
        ended, person, _ = run_call(host, {name: policies[name] for name in order}, "once", on_error="deny")
    assert ended["error_type"] == "plugin_block" and person.requests == []
    message = ended["error_message"]
    assert "'broken' could not be evaluated" in message and type(error).__name__ in message
    assert not (workdir / "ran").exists()


def test_one_that_did_not_ask_for_it_lets_the_call_run(home: Path, workdir: Path) -> None:
    def broken(**_: Any) -> None:
        raise ValueError("lost")

    with ScriptedProvider(script()) as provider, approving_host(home, workdir, provider) as host:
        ended, _, _ = run_call(host, {"broken": broken})
    assert ended["status"] == "ok" and (workdir / "ran").exists()
