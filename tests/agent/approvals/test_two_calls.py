"""What one call writes or starts and the next one runs is judged as if it were one command. Nothing here runs."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hermes.testing import RecordedRequest, ScriptedProvider, ScriptedResponder, text, tool_call
from hermes.tools.sandbox.confinement import Confinement
from support.approval_rig import NEVER, RISKY, RULE, approving_host, says
from support.hook_callbacks import note

SCRIPTS = [
    ("h.sh", f"#!/bin/sh\n{NEVER}\n", "bash h.sh"),
    ("h.sh", NEVER, "source ./h.sh"),
    ("h.py", f"import os\nos.system({NEVER!r})\n", "python3 h.py"),
    ("Makefile", f"all:\n\t{NEVER}\n", "make"),
]


@pytest.mark.parametrize(("name", "content", "command"), SCRIPTS)
def test_a_script_written_by_one_call_is_judged_by_the_next(
    home: Path, workdir: Path, name: str, content: str, command: str
) -> None:
    seen: list[Any] = []
    script = [
        tool_call("write_file", {"path": name, "content": content}),
        tool_call("terminal", {"command": command}),
        text("done"),
    ]
    with ScriptedProvider(script) as provider, approving_host(home, workdir, provider) as host:
        host.hooks.subscribe("post_tool_call", "watch", note(seen, "status", "error_type"))
        host.new_session().run("go")
    assert seen == [("ok", None), ("blocked", "hardline_block")]
    assert not (workdir / "ran").exists()


def test_a_script_that_a_command_wrote_is_judged_too(home: Path, workdir: Path) -> None:
    seen: list[Any] = []
    script = [
        tool_call("terminal", {"command": f"cat > h.sh <<'END'\n{RISKY}\nEND"}),
        tool_call("terminal", {"command": "sh h.sh"}),
        text("done"),
    ]
    with ScriptedProvider(script) as provider, approving_host(home, workdir, provider) as host:
        host.hooks.subscribe("post_tool_call", "watch", note(seen, "status", "error_type"))
        host.new_session().run("go")
    assert seen == [("ok", None), ("blocked", "headless_denied")]


def test_a_script_of_the_project_runs_unless_it_is_hardline(home: Path, workdir: Path) -> None:
    seen: list[Any] = []
    (workdir / "clean.sh").write_text(RISKY)
    (workdir / "wipe.sh").write_text(NEVER)
    script = [
        tool_call("terminal", {"command": "sh clean.sh"}),
        tool_call("terminal", {"command": "sh wipe.sh"}),
        text("done"),
    ]
    with ScriptedProvider(script) as provider, approving_host(home, workdir, provider) as host:
        later_than_any_file: Callable[[str], float] = lambda _session: 4_000_000_000.0  # noqa: E731
        host.approvals._started_at = later_than_any_file  # pyright: ignore[reportPrivateUsage]
        host.hooks.subscribe("post_tool_call", "watch", note(seen, "status", "error_type"))
        host.new_session().run("go")
    assert seen == [("ok", None), ("blocked", "hardline_block")]


@pytest.mark.parametrize(
    ("command", "data", "error"),
    [
        ('b""ash', NEVER, "hardline_block"),
        ('b""ash', RISKY, "approval_denied"),
        ("python3 -i", f"import os; os.system({NEVER!r})", "hardline_block"),
        ("python3 -i", "import os; os.mkdir('ran')", "approval_denied"),
        ("sqlite3", f".shell {NEVER}", "hardline_block"),
    ],
)
def test_input_for_a_shell_or_interpreter_in_disguise(
    home: Path, workdir: Path, command: str, data: str, error: str
) -> None:
    person, seen, started = ScriptedResponder(says("deny")), list[Any](), list[str]()

    def script(request: RecordedRequest) -> Any:
        if request.number > 1:
            return text("done")
        return tool_call("process", {"action": "submit", "session_id": started[0], "data": data})

    with ScriptedProvider(script) as provider, approving_host(home, workdir, provider) as host:
        # The process only waits: what counts is the command it was started with.
        process = host.runtime.processes.start("cat", str(workdir), Confinement(os.environ))
        process.command = command
        started.append(process.id)
        session = host.new_session()
        host.responders.attach(session.id, person)
        host.hooks.subscribe("post_tool_call", "watch", note(seen, "error_type"))
        session.run("go")
        process.kill()
    assert seen == [error]
    assert not (workdir / "ran").exists()


@pytest.mark.parametrize(("name", "rule"), [(".ssh/id_rsa", "read-credentials"), (".env", "read-env-file")])
def test_reading_a_file_of_secrets_asks(home: Path, workdir: Path, name: str, rule: str) -> None:
    person = ScriptedResponder(says("deny"))
    (workdir / name).parent.mkdir(exist_ok=True)
    (workdir / name).write_text("KEY=x")
    script = [tool_call("read_file", {"path": name}), text("done")]
    with ScriptedProvider(script) as provider, approving_host(home, workdir, provider) as host:
        session = host.new_session()
        host.responders.attach(session.id, person)
        session.run("go")
    assert [request.rules for request in person.requests] == [(rule,)]


def test_the_environment_file_of_a_project_is_asked_about_once_in_a_session(home: Path, workdir: Path) -> None:
    person = ScriptedResponder(says("once"))
    (workdir / ".env").write_text("KEY=x")
    read, show = tool_call("read_file", {"path": ".env"}), tool_call("terminal", {"command": "cat .env"})
    with ScriptedProvider([read, show, text("done")]) as provider, approving_host(home, workdir, provider) as host:
        session = host.new_session()
        host.responders.attach(session.id, person)
        session.run("go")
    assert len(person.requests) == 1


def test_an_example_of_an_environment_file_is_no_secret(home: Path, workdir: Path) -> None:
    (workdir / ".env.example").write_text("KEY=")
    script = [tool_call("read_file", {"path": ".env.example"}), text("done")]
    seen: list[Any] = []
    with ScriptedProvider(script) as provider, approving_host(home, workdir, provider) as host:
        host.hooks.subscribe("post_tool_call", "watch", note(seen, "status"))
        host.new_session().run("go")
    assert seen == ["ok"]


def test_the_rule_of_the_rig_is_what_it_says() -> None:
    from hermes.policy import judge_command

    assert [finding.rule for finding in judge_command(RISKY).findings] == [RULE]
