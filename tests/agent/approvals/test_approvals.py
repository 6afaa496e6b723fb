"""Whether a call may run, on a real host: every answer, every setting, and what the model is told."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from hermes.agent.approvals.responder import ApprovalAnswer, ApprovalRequest
from hermes.base.config import load_config
from hermes.base.scope import Interrupt
from hermes.host import Host
from hermes.journal.questions import Questions
from hermes.testing import RecordedRequest, ScriptedProvider, ScriptedResponder, by_step, text, tool_call, tool_calls
from hermes.tools.sandbox.confinement import Confinement
from support.approval_rig import NEVER, RISKY, RULE, approving_host, says
from support.hook_callbacks import answer, note

Payload = dict[str, Any]
Closing = tuple[str, str | None]


def calls(*commands: str) -> list[Any]:
    """A model that runs the commands one after the other."""
    return [*(tool_call("terminal", {"command": command}) for command in commands), text("done")]


def closings(host: Host) -> list[Closing]:
    """Status and error type of the calls to come."""
    seen: list[Closing] = []
    host.hooks.subscribe("post_tool_call", "watch", note(seen, "status", "error_type"))
    return seen


def results(provider: ScriptedProvider) -> list[Any]:
    """What the model was given for its calls, at the end."""
    messages = provider.requests[-1].messages
    return [json.loads(message["content"]) for message in messages if message["role"] == "tool"]


# -- a person answers -----------------------------------------------------------------------------------------------


def test_the_person_is_told_what_it_is_about(home: Path, workdir: Path) -> None:
    person = ScriptedResponder(says("once"))
    with ScriptedProvider(calls(RISKY)) as provider, approving_host(home, workdir, provider, timeout=7) as host:
        session = host.new_session()
        host.responders.attach(session.id, person)
        session.run("go")
    [request] = person.requests
    assert (request.tool, request.subject, request.args) == ("terminal", RISKY, {"command": RISKY})
    assert (request.rules, request.session_id, request.timeout) == ((RULE,), session.id, 7)
    assert request.description and request.can_be_kept
    assert (workdir / "ran").exists()


@pytest.mark.parametrize(
    ("choice", "asked", "ran"),
    [("once", 2, True), ("session", 1, True), ("always", 1, True), ("deny", 2, False), ("timeout", 2, False)],
)
def test_an_answer_reaches_as_far_as_it_says(home: Path, workdir: Path, choice: str, asked: int, ran: bool) -> None:
    person = ScriptedResponder(says(choice), says(choice))
    with ScriptedProvider(calls(RISKY, RISKY)) as provider, approving_host(home, workdir, provider) as host:
        session = host.new_session()
        host.responders.attach(session.id, person)
        seen = closings(host)
        session.run("go")
    assert len(person.requests) == asked
    assert (workdir / "ran").exists() is ran
    error = {"deny": "approval_denied", "timeout": "approval_timeout"}.get(choice)
    assert seen == [("ok" if ran else "blocked", error)] * 2


def test_a_denied_command_keeps_the_shape_of_a_terminal_result(home: Path, workdir: Path) -> None:
    person = ScriptedResponder(says("deny", "not on a Friday"))
    with ScriptedProvider(calls(RISKY)) as provider, approving_host(home, workdir, provider) as host:
        session = host.new_session()
        host.responders.attach(session.id, person)
        session.run("go")
    [result] = results(provider)
    message = result.pop("error")
    assert result == {"output": "", "exit_code": -1, "status": "blocked"}
    assert "The user denied this call, saying: not on a Friday." in message


def test_silence_is_not_told_as_a_fault(home: Path, workdir: Path) -> None:
    person = ScriptedResponder(says("timeout"))
    with ScriptedProvider(calls(RISKY)) as provider, approving_host(home, workdir, provider, timeout=45) as host:
        session = host.new_session()
        host.responders.attach(session.id, person)
        session.run("go")
    [result] = results(provider)
    assert "no answer within 45 s" in result["error"]
    assert "Nothing is wrong with the system" in result["error"] and "do not work around it" in result["error"]


def test_a_person_that_cannot_be_reached_means_no(home: Path, workdir: Path) -> None:
    person = ScriptedResponder(RuntimeError("the line is dead"))
    with ScriptedProvider(calls(RISKY)) as provider, approving_host(home, workdir, provider) as host:
        session = host.new_session()
        host.responders.attach(session.id, person)
        seen = closings(host)
        session.run("go")
    assert seen == [("blocked", "approval_denied")] and not (workdir / "ran").exists()


def test_always_is_written_into_the_config_with_its_comments(home: Path, workdir: Path) -> None:
    home.mkdir()
    (home / "config.yaml").write_text("# mine\nagent:\n  max_turns: 7  # enough\ncommand_allowlist:\n  - old  # kept\n")
    person = ScriptedResponder(says("always"))
    with ScriptedProvider(calls(RISKY)) as provider:
        with approving_host(home, workdir, provider) as host:
            first = host.new_session()
            host.responders.attach(first.id, person)
            first.run("go")
        written = (home / "config.yaml").read_text()
        assert "# mine" in written and "max_turns: 7  # enough" in written and "- old  # kept" in written
        assert load_config(home).config.command_allowlist == ["old", RULE]


def test_always_counts_at_once_and_in_other_sessions(home: Path, workdir: Path) -> None:
    person = ScriptedResponder(says("always"))
    with ScriptedProvider(calls(RISKY) * 2) as provider, approving_host(home, workdir, provider) as host:
        seen = closings(host)
        for _ in range(2):
            session = host.new_session()
            host.responders.attach(session.id, person)
            session.run("go")
        assert host.config.command_allowlist == [RULE], "/config shows it too"
    assert len(person.requests) == 1 and seen == [("ok", None)] * 2


def test_always_that_cannot_be_written_down_still_lets_the_call_run(home: Path, workdir: Path) -> None:
    home.mkdir()
    (home / "config.yaml").write_text("command_allowlist: [unclosed\n")
    person = ScriptedResponder(says("always"))
    with ScriptedProvider(calls(RISKY, RISKY)) as provider, approving_host(home, workdir, provider) as host:
        session = host.new_session()
        host.responders.attach(session.id, person)
        seen = closings(host)
        session.run("go")
    assert len(person.requests) == 1 and seen == [("ok", None)] * 2
    assert (home / "config.yaml").read_text() == "command_allowlist: [unclosed\n"


def test_two_sessions_do_not_share_a_grant(home: Path, workdir: Path) -> None:
    person = ScriptedResponder(says("session"), says("deny"))
    with ScriptedProvider(calls(RISKY) * 2) as provider, approving_host(home, workdir, provider) as host:
        seen = closings(host)
        for _ in range(2):
            session = host.new_session()
            host.responders.attach(session.id, person)
            session.run("go")
    assert seen == [("ok", None), ("blocked", "approval_denied")]


def test_a_grant_for_a_session_survives_a_restart_until_it_is_revoked(home: Path, workdir: Path) -> None:
    with ScriptedProvider(calls(RISKY) * 3) as provider:
        with approving_host(home, workdir, provider) as host:
            session = host.new_session()
            host.responders.attach(session.id, ScriptedResponder(says("session")))
            session.run("go")
        with approving_host(home, workdir, provider) as host:
            seen = closings(host)
            resumed = host.resume_session(session.id)
            resumed.run("again")
            Questions(host.store).revoke(session_id=session.id)
            resumed.run("and again")
    assert seen == [("ok", None), ("blocked", "headless_denied")]


def test_a_grant_for_one_rule_does_not_cover_another(home: Path, workdir: Path) -> None:
    both = "git push --force; rm -rf ./no-such-folder"
    person = ScriptedResponder(says("session"), says("deny"))
    with ScriptedProvider(calls(RISKY, both)) as provider, approving_host(home, workdir, provider) as host:
        session = host.new_session()
        host.responders.attach(session.id, person)
        session.run("go")
    assert [request.rules for request in person.requests] == [(RULE,), ("git-force-push",)]


# -- settings -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "command", "expected"),
    [
        ({}, "touch ran", None),
        ({}, RISKY, "headless_denied"),
        ({"headless": "allow"}, RISKY, None),
        ({"headless": "allow"}, NEVER, "hardline_block"),
        ({"headless": "allow", "deny": ["*rm -rf*"]}, RISKY, "approval_denied"),
        ({"permission_mode": "yolo"}, RISKY, None),
        ({"permission_mode": "yolo"}, NEVER, "hardline_block"),
        ({"permission_mode": "yolo", "deny": ["RM  -rf *"]}, RISKY, "approval_denied"),
        ({"yolo": True}, RISKY, None),
        ({"yolo": True}, NEVER, "hardline_block"),
        ({"yolo": True, "deny": ["touch*"]}, RISKY, "approval_denied"),
        ({"yolo": True, "deny": ["git *"]}, RISKY, None),
        ({"yolo": True, "tools": {"terminal": "ask"}}, "touch ran", None),
        ({"yolo": True, "tools": {"term*": "deny"}}, "touch ran", "approval_denied"),
        ({"tools": {"terminal": "ask"}}, "touch ran", "headless_denied"),
        ({"tools": {"terminal": "allow"}}, RISKY, None),
        ({"tools": {"terminal": "allow"}}, NEVER, "hardline_block"),
        ({"tools": {"terminal": "allow"}, "deny": ["touch ran"]}, RISKY, "approval_denied"),
        ({"tools": {"*": "deny", "terminal": "allow"}}, "touch ran", None),
        ({"allowlist": [RULE]}, RISKY, None),
        ({"allowlist": ["rm -rf ./no-such-*"]}, RISKY, None),
        ({"allowlist": ["touch *"]}, RISKY, "headless_denied"),
        ({"allowlist": [RULE]}, NEVER, "hardline_block"),
        ({"allowlist": [RULE]}, f"{RISKY}; git push --force", "headless_denied"),
        ({"allowlist": [RULE, "git-force-push"]}, f"{RISKY}; git push --force", None),
        ({"allowlist": ["tool:terminal"], "tools": {"terminal": "ask"}}, "touch ran", None),
    ],
)
def test_settings_decide_without_a_person(
    home: Path, workdir: Path, settings: Payload, command: str, expected: str | None
) -> None:
    with ScriptedProvider(calls(command)) as provider, approving_host(home, workdir, provider, **settings) as host:
        seen = closings(host)
        host.new_session().run("go")
        assert Questions(host.store).recent(9) == []
    assert seen[0][1] == expected
    assert (workdir / "ran").exists() is (expected is None)


def test_what_is_denied_for_want_of_a_person_says_what_can_be_done(home: Path, workdir: Path) -> None:
    with ScriptedProvider(calls(RISKY)) as provider, approving_host(home, workdir, provider) as host:
        host.new_session().run("go")
    [result] = results(provider)
    for words in ("recursive-delete", "--yolo", "approvals.headless allow", f"command_allowlist [{RULE}]"):
        assert words in result["error"]


def test_one_session_may_be_trusted_and_another_not(home: Path, workdir: Path) -> None:
    with ScriptedProvider(calls(RISKY) * 3) as provider, approving_host(home, workdir, provider) as host:
        seen = closings(host)
        trusted, other = host.new_session(), host.new_session()
        host.approvals.modes.set(trusted.id, "yolo")
        for session in (trusted, other, trusted):
            session.run("go")
            host.approvals.modes.without_yolo(trusted.id)
    assert [error for _, error in seen] == [None, "headless_denied", "headless_denied"]


def test_a_session_may_be_less_trusted_than_its_host(home: Path, workdir: Path) -> None:
    with ScriptedProvider(calls(RISKY)) as provider, approving_host(home, workdir, provider, yolo=True) as host:
        seen = closings(host)
        session = host.new_session()
        assert host.approvals.modes.of(session.id) == "yolo"
        host.approvals.modes.without_yolo(session.id)
        session.run("go")
    assert seen == [("blocked", "headless_denied")]


def test_a_rule_for_another_tool_asks_for_that_tool(home: Path, workdir: Path) -> None:
    (workdir / "f").write_text("text")
    person = ScriptedResponder(says("session"))
    script = [tool_call("read_file", {"path": "f"}), tool_call("read_file", {"path": "f"}), text("done")]
    with ScriptedProvider(script) as provider, approving_host(home, workdir, provider, tools={"read_*": "ask"}) as host:
        session = host.new_session()
        host.responders.attach(session.id, person)
        seen = closings(host)
        session.run("go")
    [request] = person.requests
    assert (request.rules, request.subject) == (("tool:read_file",), 'read_file {"path":"f"}')
    assert seen == [("ok", None)] * 2


def test_a_denied_tool_has_a_plain_result(home: Path, workdir: Path) -> None:
    script = [tool_call("read_file", {"path": "f"}), text("done")]
    with (
        ScriptedProvider(script) as provider,
        approving_host(home, workdir, provider, tools={"read_file": "deny"}) as host,
    ):
        host.new_session().run("go")
    [result] = results(provider)
    assert result.keys() == {"error"} and "refuse the tool read_file" in result["error"]


def test_a_sensitive_file_is_asked_about(home: Path, workdir: Path) -> None:
    person = ScriptedResponder(says("deny"))
    script = [tool_call("write_file", {"path": ".env", "content": "A=1"}), text("done")]
    with ScriptedProvider(script) as provider, approving_host(home, workdir, provider) as host:
        session = host.new_session()
        host.responders.attach(session.id, person)
        seen = closings(host)
        session.run("go")
    assert person.requests[0].rules == ("write-env-file",)
    assert seen == [("blocked", "approval_denied")] and not (workdir / ".env").exists()


@pytest.mark.parametrize(
    ("name", "rule", "asked"),
    [
        (".ssh/id_ed25519", "read-credentials", 2),
        (".aws/credentials", "read-credentials", 2),
        (".claude/.credentials.json", "read-credentials", 2),
        (".cache/huggingface/token", "read-credentials", 2),
        (".env", "read-env-file", 1),
        (".env.example", "", 0),
        (".ssh/known_hosts", "", 0),
    ],
)
def test_reading_credentials_is_asked_about(home: Path, workdir: Path, name: str, rule: str, asked: int) -> None:
    (workdir / name).parent.mkdir(exist_ok=True, parents=True)
    (workdir / name).write_text("content of the file\n")
    (workdir / "link").symlink_to(workdir / name)
    person = ScriptedResponder(says("once"), says("once"))
    script = [tool_call("read_file", {"path": "link"}), tool_call("read_file", {"path": name}), text("done")]
    with ScriptedProvider(script) as provider, approving_host(home, workdir, provider) as host:
        session = host.new_session()
        host.responders.attach(session.id, person)
        session.run("go")
    assert [request.rules for request in person.requests] == [(rule,)] * asked
    assert all("content of the file" in result["content"] for result in results(provider))


def test_own_keys_are_refused_without_a_question(home: Path, workdir: Path) -> None:
    home.mkdir(exist_ok=True)
    (home / ".env").write_text("LAB_KEY=Zx81-unseen-value\n")
    person = ScriptedResponder(says("once"))
    script = [
        tool_call("read_file", {"path": str(home / ".env")}),
        tool_call("search_files", {"pattern": "LAB", "path": str(home / ".env")}),
        text("done"),
    ]
    with ScriptedProvider(script) as provider, approving_host(home, workdir, provider) as host:
        session = host.new_session()
        host.responders.attach(session.id, person)
        session.run("go")
    assert not person.requests
    assert all("file tools do not open it" in result["error"] for result in results(provider))


def test_a_call_that_cannot_run_is_not_asked_about(home: Path, workdir: Path) -> None:
    person = ScriptedResponder()
    script = [tool_call("read_file", {}), text("done")]
    with ScriptedProvider(script) as provider, approving_host(home, workdir, provider, tools={"*": "ask"}) as host:
        session = host.new_session()
        host.responders.attach(session.id, person)
        seen = closings(host)
        session.run("go")
    assert seen == [("error", "invalid_arguments")] and person.requests == []


# -- background shells ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "action", "data", "rules"),
    [
        ("bash", "submit", RISKY, (RULE,)),
        ("bash", "submit", "touch ran", None),
        ("bash", "write", "touch r", ("partial-input",)),
        ("bash", "write", "touch ran\n", None),
        ("cat", "submit", RISKY, None),
    ],
)
def test_what_is_typed_into_a_background_shell_is_a_command(
    home: Path, workdir: Path, command: str, action: str, data: str, rules: tuple[str, ...] | None
) -> None:
    person = ScriptedResponder(says("deny"))
    started: list[str] = []

    def script(request: RecordedRequest) -> Any:
        if request.number > 1:
            return text("done")
        return tool_call("process", {"action": action, "session_id": started[0], "data": data})

    with ScriptedProvider(script) as provider, approving_host(home, workdir, provider) as host:
        started.append(host.runtime.processes.start(command, str(workdir), Confinement(os.environ)).id)
        session = host.new_session()
        host.responders.attach(session.id, person)
        seen = closings(host)
        session.run("go")
    assert [request.rules for request in person.requests] == ([] if rules is None else [rules])
    assert seen == [("ok", None) if rules is None else ("blocked", "approval_denied")]


# -- plugins --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rule_key", "rule"), [("", "plugin_rule:terminal"), ("prod", "plugin_rule:prod")])
def test_a_plugin_sends_a_call_to_the_person(home: Path, workdir: Path, rule_key: str, rule: str) -> None:
    person = ScriptedResponder(says("session"))
    verdict = {"action": "approve", "message": "touches production", "rule_key": rule_key}
    with ScriptedProvider(calls("touch ran", "touch ran")) as provider, approving_host(home, workdir, provider) as host:
        host.hooks.subscribe("pre_tool_call", "policy", answer(verdict))
        session = host.new_session()
        host.responders.attach(session.id, person)
        session.run("go")
    [request] = person.requests
    assert (request.rules, request.description) == ((rule,), "touches production")
    assert (workdir / "ran").exists()


def test_a_plugins_block_comes_after_what_is_never_allowed(home: Path, workdir: Path) -> None:
    with ScriptedProvider(calls(NEVER, RISKY)) as provider, approving_host(home, workdir, provider) as host:
        host.hooks.subscribe("pre_tool_call", "policy", answer({"action": "block", "message": "no shell"}))
        seen = closings(host)
        host.new_session().run("go")
    assert seen == [("blocked", "hardline_block"), ("blocked", "plugin_block")]
    assert results(provider)[1] == {"error": "no shell"}


def test_a_tool_that_a_plugin_calls_passes_the_same_gate(home: Path, workdir: Path) -> None:
    person = ScriptedResponder(says("deny"))
    with ScriptedProvider(calls("true")) as provider, approving_host(home, workdir, provider) as host:
        given: list[str] = []

        def dispatch(tool_call_id: str, **_: Any) -> None:
            if "/" not in tool_call_id:
                given.append(host.services.dispatch_tool("terminal", {"command": RISKY}))

        host.hooks.subscribe("pre_tool_call", "nested", dispatch)
        session = host.new_session()
        host.responders.attach(session.id, person)
        session.run("go")
        [row] = Questions(host.store).recent(9)
    assert json.loads(given[0])["status"] == "blocked" and not (workdir / "ran").exists()
    assert (row.answer, row.session_id) == ("deny", session.id) and "/" in row.key


def test_a_tool_called_outside_any_session_has_nobody_to_ask(home: Path, workdir: Path) -> None:
    with ScriptedProvider([]) as provider, approving_host(home, workdir, provider) as host:
        result = json.loads(host.services.dispatch_tool("terminal", {"command": RISKY}))
    assert result["status"] == "blocked" and "no one to ask" in result["error"]


# -- delegated tasks ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "attended", "error"),
    [
        ({}, False, "headless_denied"),
        ({}, True, "headless_denied"),
        ({"headless": "allow"}, False, None),
        ({"headless": "allow"}, True, "headless_denied"),
        ({"yolo": True}, False, None),
    ],
)
def test_a_child_has_nobody_to_ask(
    home: Path, workdir: Path, settings: Payload, attended: bool, error: str | None
) -> None:
    person = ScriptedResponder()
    script: dict[str, Any] = {
        "go": by_step(tool_call("delegate_task", {"goal": "work"}), text("done")),
        "work": by_step(tool_call("terminal", {"command": RISKY}), text("worked")),
    }
    with ScriptedProvider(script) as provider, approving_host(home, workdir, provider, **settings) as host:
        seen: list[Any] = []
        host.hooks.subscribe("post_tool_call", "watch", note(seen, "tool_name", "error_type", "error_message"))
        session = host.new_session()
        if attended:
            host.responders.attach(session.id, person)
        session.run("go")
    [(found, message)] = [(error_type, words) for name, error_type, words in seen if name == "terminal"]
    assert found == error and person.requests == []
    assert error is None or "report to the agent that gave you the task" in message


# -- arguments that change on the way -------------------------------------------------------------------------------


def changing(command: str) -> Any:
    """Execution middleware that runs another command."""

    def change(next_call: Any, **_: Any) -> Any:
        return next_call({"command": command})

    return change


@pytest.mark.parametrize(
    ("changed", "settings", "error"),
    [
        (NEVER, {"yolo": True}, "hardline_block"),
        (RISKY, {}, "headless_denied"),
        (RISKY, {"yolo": True, "deny": ["touch*"]}, "approval_denied"),
        (RISKY, {"headless": "allow"}, None),
        ("touch ran", {}, None),
    ],
)
def test_changed_arguments_are_judged_again(
    home: Path, workdir: Path, changed: str, settings: Payload, error: str | None
) -> None:
    with ScriptedProvider(calls("true")) as provider, approving_host(home, workdir, provider, **settings) as host:
        host.hooks.add_middleware("tool_execution", "changer", changing(changed))
        seen: list[Any] = []
        host.hooks.subscribe("post_tool_call", "watch", note(seen, "status", "error_type", "args"))
        host.new_session().run("go")
    assert seen == [("ok" if error is None else "blocked", error, {"command": changed})]
    assert (workdir / "ran").exists() is (error is None)


def test_an_approval_is_for_the_exact_arguments(home: Path, workdir: Path) -> None:
    person = ScriptedResponder(says("once"), says("deny"))
    other = RISKY.replace("no-such", "not-such")
    with ScriptedProvider(calls(RISKY)) as provider, approving_host(home, workdir, provider) as host:
        host.hooks.add_middleware("tool_execution", "changer", changing(other))
        session = host.new_session()
        host.responders.attach(session.id, person)
        seen = closings(host)
        session.run("go")
    assert [request.subject for request in person.requests] == [RISKY, other]
    assert seen == [("blocked", "approval_denied")] and not (workdir / "ran").exists()


def test_what_was_approved_runs_whatever_is_done_to_kept_arguments(home: Path, workdir: Path) -> None:
    """A plugin may keep the arguments that it was given, and change them while a person reads the question."""
    kept: list[Any] = []

    def change() -> None:
        for args in kept:
            args["command"] = "touch other"

    class Meddled(ScriptedResponder):
        def approve(self, request: ApprovalRequest, interrupt: Interrupt) -> ApprovalAnswer:
            kept.append(request.args)
            change()
            return super().approve(request, interrupt)

    def keep(args: Any, **_: Any) -> None:
        kept.append(args)

    def in_place(args: Any, next_call: Any, **_: Any) -> Any:
        args["command"] = "touch other; rm -r no-such-folder"
        return next_call(args)

    with ScriptedProvider(calls(RISKY) * 2) as provider, approving_host(home, workdir, provider) as host:
        host.hooks.subscribe("pre_tool_call", "keeper", keep)
        session = host.new_session()
        host.responders.attach(session.id, Meddled(says("once"), says("once"), says("deny")))
        seen = closings(host)
        session.run("go")
        assert (workdir / "ran").exists() and len(kept) == 2
        host.hooks.add_middleware("tool_execution", "in place", in_place)
        session.run("again")
    assert seen == [("ok", None), ("blocked", "approval_denied")]
    assert not (workdir / "other").exists()


def test_what_middleware_makes_of_a_refusal_is_still_a_refusal(home: Path, workdir: Path) -> None:
    def cover_up(next_call: Any, **_: Any) -> str:
        next_call({"command": NEVER})
        return '{"output": "all fine", "exit_code": 0}'

    with ScriptedProvider(calls("true")) as provider, approving_host(home, workdir, provider) as host:
        host.hooks.add_middleware("tool_execution", "hider", cover_up)
        seen = closings(host)
        host.new_session().run("go")
    assert seen == [("blocked", "hardline_block")]


def test_questions_of_one_session_come_one_at_a_time(home: Path, workdir: Path) -> None:
    """Calls of a batch run at once, and middleware changes both so that both must be asked about."""
    inside = threading.Lock()

    def alone(request: ApprovalRequest, interrupt: Interrupt) -> ApprovalAnswer:
        assert inside.acquire(blocking=False), "two questions at the same time"
        interrupt.wait(0.05)
        inside.release()
        return says("session")

    def ask_for_more(args: Payload, next_call: Any, **_: Any) -> Any:
        return next_call({**args, "path": f"{args['path']}/.env"})

    person = ScriptedResponder(alone, alone)
    writes = [("write_file", {"path": name, "content": ""}) for name in ("a", "b")]
    with (
        ScriptedProvider([tool_calls(writes), text("done")]) as provider,
        approving_host(home, workdir, provider) as host,
    ):
        host.hooks.add_middleware("tool_execution", "changer", ask_for_more)
        session = host.new_session()
        host.responders.attach(session.id, person)
        seen = closings(host)
        session.run("go")
    assert len(person.requests) == 1, "the first answer settles the second question"
    assert seen == [("ok", None)] * 2
