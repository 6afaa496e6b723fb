"""Permission modes on a real host: every cell of the table, how a mode is chosen, and what no mode changes."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from hermes.agent.approvals.ownership import session_place
from hermes.base.config import load_config
from hermes.base.config.schema.modes import MODES, STEPPED, PermissionMode
from hermes.base.config.schema.sections import TerminalConfig
from hermes.host import Host, HostOptions
from hermes.testing import ScriptedProvider, ScriptedResponder, text, tool_call
from hermes.tools.registry import Tool
from policy.corpus import judge
from support import run_hermes, write_config
from support.approval_rig import NEVER, RISKY, approval_config, says
from support.hook_callbacks import note
from support.permission_table import CELLS, COLUMNS
from support.sandbox_rig import real_backend
from support.surfaces import Prompt


def shout(_args: Any, _context: Any) -> str:
    Path("shouted").touch()
    return "{}"


PLUGIN_TOOL = Tool("shout", "mine", "Shout.", {"type": "object", "properties": {}}, shout, "unsafe")


def probe(column: str, workdir: Path) -> tuple[str, dict[str, Any]]:
    """A call of that kind. The dangerous ones are harmless when they run."""
    outside = workdir.parent / "elsewhere.txt"
    calls: dict[str, tuple[str, dict[str, Any]]] = {
        "read": ("read_file", {"path": "f.txt"}),
        "edit inside": ("write_file", {"path": "f.txt", "content": "new"}),
        "edit outside": ("write_file", {"path": str(outside), "content": "new"}),
        "command judged read-only": ("terminal", {"command": "cat f.txt | wc -l"}),
        "other command": ("terminal", {"command": "touch ran"}),
        "command that writes outside": ("terminal", {"command": f"echo new > {outside}"}),
        "dangerous command": ("terminal", {"command": RISKY}),
        "plugin or MCP tool of unsafe effect": ("shout", {}),
        "what asks, and no one is there": ("terminal", {"command": "git push --force nowhere"}),
    }
    return calls[column]


def outcome(
    home: Path, workdir: Path, mode: str, call: tuple[str, dict[str, Any]], *, attended: bool = True, **settings: Any
) -> tuple[str, ScriptedResponder]:
    """What becomes of a call in that mode: it runs, it is asked about first, or it is refused or denied."""
    (workdir / "f.txt").write_text("old\n")
    person = ScriptedResponder(says("deny"))
    seen: list[Any] = []
    with ScriptedProvider([tool_call(*call), text("done")]) as provider:
        options = HostOptions(tools=[PLUGIN_TOOL], permission_mode=mode.partition(" ")[0])  # type: ignore[arg-type]
        with Host(home, approval_config(provider, **settings), options, cwd=workdir, env={}) as host:
            host.approvals.is_sandboxed = lambda: mode == "auto"
            host.hooks.subscribe("post_tool_call", "watch", note(seen, "status", "error_type"))
            session = host.new_session()
            if attended:
                host.responders.attach(session.id, person)
            session.run("go")
    [(status, error)] = seen
    if error == "plan_mode":
        return "refused", person
    if error == "hardline_block":
        return "never", person
    if person.requests:
        return "asks", person
    return "denied" if error == "headless_denied" else "runs" if status != "blocked" else f"{error}", person


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("mode", CELLS)
def test_every_cell_of_the_table(
    home: Path, workdir: Path, monkeypatch: pytest.MonkeyPatch, mode: str, column: str
) -> None:
    monkeypatch.chdir(workdir)
    attended = column != "what asks, and no one is there"
    found, _person = outcome(home, workdir, mode, probe(column, workdir), attended=attended)
    assert found == CELLS[mode][COLUMNS.index(column)]


@pytest.mark.parametrize("mode", MODES)
def test_what_never_runs_is_refused_in_every_mode(home: Path, workdir: Path, mode: str) -> None:
    assert outcome(home, workdir, mode, ("terminal", {"command": NEVER}))[0] == "never"
    assert not (workdir / "ran").exists()


def test_a_question_about_an_edit_shows_a_diff(home: Path, workdir: Path) -> None:
    target = workdir.parent / "other.txt"
    target.write_text("one\ntwo\n")
    found, person = outcome(home, workdir, "ask-risky", ("write_file", {"path": str(target), "content": "one\n2\n"}))
    [request] = person.requests
    assert found == "asks" and request.rules == ("write-outside",)
    assert "-two" in request.subject and "+2" in request.subject
    assert target.read_text() == "one\ntwo\n"
    change = {"mode": "replace", "path": str(target), "old_string": "one", "new_string": "ONE"}
    _, person = outcome(home, workdir, "ask-risky", ("patch", change))
    assert "-one" in person.requests[0].subject and "+ONE" in person.requests[0].subject


@pytest.mark.parametrize(
    "path",
    [".git/hooks/pre-commit", ".git/config", ".vscode/tasks.json", ".husky/pre-push", "a/AGENTS.md", ".mcp.json"],
)
@pytest.mark.parametrize("mode", ["ask-risky", "accept-edits"])
def test_files_that_run_code_are_asked_about(home: Path, workdir: Path, mode: str, path: str) -> None:
    found, person = outcome(home, workdir, mode, ("write_file", {"path": path, "content": "x"}))
    assert found == "asks" and person.requests[0].rules == ("write-autorun",)


@pytest.mark.parametrize(
    "owner",
    [
        "git config core.hooksPath tools",
        "rm -rf .git/hooks && ln -s ../tools .git/hooks",
        "touch tools/check && mkdir -p .git/hooks && ln -s ../../tools/check .git/hooks/pre-commit",
    ],
)
def test_hooks_are_asked_about_wherever_git_finds_them(home: Path, workdir: Path, owner: str) -> None:
    subprocess.run(["bash", "-c", f"git init -q && mkdir tools && {owner}"], cwd=workdir, check=True)
    found, person = outcome(home, workdir, "accept-edits", ("write_file", {"path": "tools/check", "content": "x"}))
    assert found == "asks" and person.requests[0].rules == ("write-autorun",)
    found, _ = outcome(home, workdir, "accept-edits", ("write_file", {"path": "other/check", "content": "x"}))
    assert found == "runs"


def test_accepting_edits_does_not_accept_credentials(home: Path, workdir: Path) -> None:
    key = workdir.parent / ".ssh" / "config"
    found, person = outcome(home, workdir, "accept-edits", ("write_file", {"path": str(key), "content": "x"}))
    assert found == "asks" and person.requests[0].rules == ("write-ssh",)


def test_a_link_out_of_the_folder_is_outside(home: Path, workdir: Path) -> None:
    (workdir / "link").symlink_to(workdir.parent)
    assert outcome(home, workdir, "ask-risky", ("write_file", {"path": "link/x", "content": ""}))[0] == "asks"


def test_plan_mode_is_told_to_the_model(home: Path, workdir: Path) -> None:
    with ScriptedProvider([tool_call("terminal", {"command": "touch ran"}), text("done")]) as provider:
        options = HostOptions(permission_mode="plan")
        with Host(home, approval_config(provider), options, cwd=workdir, env={}) as host:
            host.new_session().run("go")
        [message] = [message for message in provider.requests[-1].messages if message["role"] == "tool"]
    assert "plan mode" in json.loads(message["content"])["error"]


def test_the_configuration_sets_the_mode_and_the_command_line_counts_more(home: Path, workdir: Path) -> None:
    home.mkdir()
    (home / "config.yaml").write_text("approvals:\n  permission_mode: accept-edits\n")
    config = load_config(home).config
    with Host(home, config, cwd=workdir, env={}) as host:
        assert host.approvals.modes.default == "accept-edits"
    with Host(home, config, HostOptions(permission_mode="plan"), cwd=workdir, env={}) as host:
        assert host.approvals.modes.default == "plan"
    with Host(home, config, HostOptions(allow_everything=True), cwd=workdir, env={}) as host:
        assert host.approvals.modes.default == "yolo"


@pytest.mark.parametrize(
    ("written", "mode", "asks_model_first"),
    [
        ("off", "yolo", False),
        ("smart", "ask-risky", True),
        ("manual", "ask-risky", False),
        ("smart\n  permission_mode: plan", "plan", True),
        ("manual\n  permission_mode: yolo", "yolo", False),
        ("off\n  permission_mode: plan", "plan", False),
    ],
)
def test_the_older_setting_is_an_alias(
    home: Path, workdir: Path, written: str, mode: str, asks_model_first: bool
) -> None:
    home.mkdir()
    (home / "config.yaml").write_text(f"approvals:\n  mode: {written}\n")
    with Host(home, load_config(home).config, cwd=workdir, env={}) as host:
        assert host.approvals.modes.default == mode
        assert host.approvals.rules.asks_model_first is asks_model_first


def test_a_command_that_starts_a_less_careful_agent_is_asked_about() -> None:
    for name, traits in MODES.items():
        careless = traits.trusts_sandbox or traits.never_asks
        assert (judge(f"hermes chat --mode {name} -q hello").decision != "allow") is careless, name


def test_a_project_file_does_not_change_the_mode(home: Path, workdir: Path) -> None:
    home.mkdir()
    for name in ("config.yaml", ".hermes/config.yaml", ".env", ".hermes/.env"):
        (workdir / name).parent.mkdir(exist_ok=True)
        (workdir / name).write_text(
            "HERMES_YOLO_MODE=1\n" if name.endswith(".env") else "approvals: {permission_mode: yolo, mode: off}\n"
        )
    with Host(home, load_config(home).config, cwd=workdir, env={}) as host:
        assert host.approvals.modes.default == "ask-risky"


def test_the_key_steps_through_the_modes_but_never_into_yolo(home: Path, workdir: Path) -> None:
    with ScriptedProvider([]) as provider, Host(home, approval_config(provider), cwd=workdir, env={}) as host:
        modes = host.approvals.modes
        assert [modes.step("s") for _ in STEPPED] == ["accept-edits", "auto", "plan", "ask", "ask-risky"]
        modes.set("s", "yolo")
        assert modes.step("s") == "ask-risky"


def test_a_caller_never_gets_more_than_asking(home: Path, workdir: Path) -> None:
    from hermes.base.scope import Scope

    with ScriptedProvider([]) as provider:
        options = HostOptions(permission_mode="yolo")
        with Host(home, approval_config(provider), options, cwd=workdir, env={}) as host:
            assert host.approvals.mode_of(Scope(session_id="s", principal="bob")) == "ask-risky"
            assert host.approvals.mode_of(Scope(session_id="s")) == "yolo"


def test_plan_mode_holds_commands_to_reading_in_the_sandbox(home: Path, workdir: Path) -> None:
    """The settings of a hostile repository make ``git status``, which only reads, run a program."""
    real_backend("landlock")
    evil = workdir / "evil.sh"
    evil.write_text("#!/bin/sh\necho ran > written\n")
    evil.chmod(0o755)
    for arguments in (["init", "-q"], ["config", "core.fsmonitor", "./evil.sh"]):
        subprocess.run(["git", *arguments], cwd=workdir, check=True)
    call = tool_call("terminal", {"command": "git status --short"})
    for mode, sandbox, wrote in (("plan", "auto", False), ("plan", "off", True), ("ask-risky", "auto", True)):
        with ScriptedProvider([call, text("done")]) as provider:
            options = HostOptions(permission_mode=mode)  # type: ignore[arg-type]
            config = approval_config(provider)
            config.terminal = TerminalConfig(sandbox=sandbox)  # type: ignore[arg-type]
            with Host(home, config, options, cwd=workdir, env={}) as host:
                session = host.new_session()
                session.run("go")
                (found,) = (message for message in session.messages() if message["role"] == "tool")
        assert json.loads(str(found["content"]))["exit_code"] == 0, found
        assert (workdir / "written").exists() is wrote, (mode, sandbox)
        (workdir / "written").unlink(missing_ok=True)


def test_the_mode_of_a_session_is_kept_with_it(home: Path, workdir: Path) -> None:
    def resumed(session_id: str, **options: Any) -> str:
        with ScriptedProvider([]) as provider:
            config = approval_config(provider, permission_mode=options.pop("setting", "ask-risky"))
            with Host(home, config, HostOptions(**options), cwd=workdir, env={}) as host:
                host.resume_session(session_id)
                return host.approvals.modes.of(session_id)

    def made(chosen: str = "", **options: Any) -> str:
        with (
            ScriptedProvider(text("hi")) as provider,
            Host(home, approval_config(provider), HostOptions(**options), cwd=workdir, env={}) as host,
        ):
            session = host.new_session()
            if chosen == "before":
                host.approvals.modes.set(session.id, "plan")
            session.run("hello")
            if chosen == "after":
                host.approvals.modes.set(session.id, "plan")
            session.close()
            return session.id

    assert resumed(made(permission_mode="accept-edits")) == "accept-edits"
    assert resumed(made("before")) == "plan"
    session_id = made("after")
    assert resumed(session_id) == "plan"
    assert resumed(session_id, allow_everything=True) == "yolo", "for this run"
    assert resumed(session_id) == "plan"
    assert resumed(session_id, permission_mode="ask") == "ask", "the command line wins"
    assert resumed(session_id) == "ask", "and is kept"
    # One that was never chosen follows the settings, and --yolo is for one run.
    assert resumed(made(), setting="auto") == "auto"
    assert resumed(made(allow_everything=True)) == "ask-risky"


def test_the_mode_is_shown_when_a_session_is_resumed(home: Path, workdir: Path) -> None:
    with ScriptedProvider(text("hi")) as provider:
        write_config(home, provider.base_url)
        assert run_hermes("chat", "-q", "hello", "--mode", "plan", home=home, cwd=workdir).returncode == 0
        again = run_hermes("chat", "-c", "-q", "more", home=home, cwd=workdir)
        assert "Mode plan: reads only" in again.stderr
        assert again.stdout.strip() == "hi"
        assert "Mode" not in run_hermes("chat", "-c", "-Q", "-q", "more", home=home, cwd=workdir).stderr
        with Host(home, load_config(home).config, cwd=workdir, env={}) as host:
            assert "Mode plan: reads only" in Prompt(host).type("/resume 1")


def asking(
    home: Path, workdir: Path, calls: list[Any], answers: list[str], *, mode: PermissionMode = "ask", **settings: Any
) -> ScriptedResponder:
    """The questions about these calls of one session."""
    person = ScriptedResponder(*map(says, answers))
    with ScriptedProvider([*calls, text("done")]) as provider:
        options = HostOptions(permission_mode=mode)
        config = approval_config(provider, **settings)
        config.terminal.sandbox = "off"
        with Host(home, config, options, cwd=workdir, env={}) as host:
            session = host.new_session()
            host.responders.attach(session.id, person)
            session.run("go")
    return person


def test_asking_about_changes_goes_by_kinds_of_change(home: Path, workdir: Path) -> None:
    """An answer for the session covers edits, or one program with its verb, and nothing else."""
    commands = ["git init -q", "touch a", "git init -q b", "touch c > d", "git add a", "cat a", "ls > e"]
    calls = [tool_call("terminal", {"command": command}) for command in commands]
    calls += [tool_call("write_file", {"path": name, "content": "x"}) for name in "fg"]
    person = asking(home, workdir, calls, ["session"] * 4)
    assert [request.rules for request in person.requests] == [
        ("command:git init",),
        ("command:touch",),
        ("command:git add",),
        ("edit",),
    ]
    assert person.requests[0].description == "runs git init, which may change something"
    assert sorted(path.name for path in workdir.iterdir()) == [".git", "a", "b", "c", "d", "e", "f", "g"]


def test_asking_about_changes_shows_the_diff_of_an_edit(home: Path, workdir: Path) -> None:
    call = tool_call("write_file", {"path": "f.txt", "content": "new\n"})
    person = asking(home, workdir, [call], ["deny"])
    assert "+new" in person.requests[0].subject and not (workdir / "f.txt").exists()


def test_what_is_always_allowed_is_allowed_when_every_change_asks(home: Path, workdir: Path) -> None:
    calls = [tool_call("terminal", {"command": command}) for command in ("touch a", "touch b")]
    assert len(asking(home, workdir, calls, ["always"]).requests) == 1
    assert load_config(home).config.command_allowlist == ["command:touch"]
    assert asking(home, workdir, calls, [], tools={"terminal": "allow"}).requests == []


def test_a_run_without_a_person_says_that_the_mode_asks_about_every_change(home: Path, workdir: Path) -> None:
    with ScriptedProvider([tool_call("terminal", {"command": "touch ran"}), text("done")]) as provider:
        options = HostOptions(permission_mode="ask")
        with Host(home, approval_config(provider), options, cwd=workdir, env={}) as host:
            host.new_session().run("go")
        [message] = [message for message in provider.requests[-1].messages if message["role"] == "tool"]
    reason = json.loads(message["content"])["error"]
    assert "runs touch, which may change something" in reason and "--mode ask-risky" in reason
    assert not (workdir / "ran").exists()


def test_a_caller_of_an_owner_who_is_asked_about_changes_is_asked_about(home: Path, workdir: Path) -> None:
    from hermes.base.scope import Scope

    with (
        ScriptedProvider([]) as provider,
        Host(home, approval_config(provider, permission_mode="ask"), cwd=workdir, env={}) as host,
    ):
        assert host.approvals.mode_of(Scope(session_id="s", principal="bob")) == "ask"


@pytest.mark.parametrize(
    "command",
    [
        "echo x > {0}/f",
        "mv f.txt {0}",
        "cp f.txt {0}",
        "cat f.txt | tee {0}/f",
        "install f.txt {0}/f",
        "tar xf a.tar -C {0}",
        "dd if=f.txt of={0}/f",
        "rsync f.txt {0}/",
        "ln -s $PWD/f.txt {0}/link",
        "sed -i s/a/b/ {0}/f",
        "unzip a.zip -d {0}",
        "git clone ./a {0}/b",
        "cd {0} && touch x",
    ],
)
def test_commands_that_write_elsewhere_are_asked_about(home: Path, workdir: Path, command: str) -> None:
    elsewhere = workdir.parent / "elsewhere"
    elsewhere.mkdir()
    call = ("terminal", {"command": command.format(elsewhere)})
    found, person = outcome(home, workdir, "ask-risky", call)
    assert found == "asks" and person.requests[0].rules == ("write-outside",)
    assert list(elsewhere.iterdir()) == []


def test_a_link_or_a_working_directory_does_not_hide_that_a_command_writes_elsewhere(home: Path, workdir: Path) -> None:
    elsewhere = workdir.parent / "elsewhere"
    elsewhere.mkdir()
    (workdir / "link").symlink_to(elsewhere)
    call = {"command": "echo x > f", "workdir": str(elsewhere)}
    for args in ({"command": "echo x > link/f"}, call):
        found, person = outcome(home, workdir, "ask-risky", ("terminal", args))
        assert found == "asks" and person.requests[0].rules == ("write-outside",)
    assert outcome(home, workdir, "ask-risky", ("terminal", {"command": "echo x > $PWD/f"}))[0] == "runs"


def test_what_a_session_makes_in_a_temporary_folder_is_its_own(
    home: Path, workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = workdir.parent / "temporary"
    monkeypatch.setenv("TMPDIR", str(temporary))
    old = temporary / "old"
    old.mkdir(parents=True)
    (old / "f").touch()
    commands = [
        f"echo x > {temporary}/x/g && rm -rf {temporary}/x/g",
        "mkdir -p $TMPDIR/y && rm -rf $TMPDIR/y",
        f"rm -rf {temporary}/x",
        "d=$(mktemp -d) && touch f.txt && cp f.txt $d && rm -rf $d",
    ]
    calls = [tool_call("write_file", {"path": f"{temporary}/x/f", "content": "x"})]
    calls += [tool_call("terminal", {"command": command}) for command in commands]
    assert asking(home, workdir, calls, [], mode="ask-risky").requests == []
    assert [path.name for path in temporary.iterdir() if not path.name.startswith("hermes")] == ["old"]
    # What was there before the session is not: here, because the session begins later.
    place = session_place(str(workdir), time.time() + 60)
    assert place.is_outside(f"{old}/f") and not place.is_outside(f"{old}/new") and not place.is_own(str(old))
    place = session_place(str(workdir), time.time() - 60)
    assert not place.is_outside(f"{old}/f") and place.is_own(str(old)) and not place.is_own(str(temporary))


def test_in_a_sandbox_a_write_elsewhere_is_left_to_the_sandbox(home: Path, workdir: Path) -> None:
    """It cannot happen there; to let the command out is asked about."""
    outside = workdir.parent / "elsewhere.txt"
    call = tool_call("terminal", {"command": f"echo new > {outside}"})
    person = ScriptedResponder(says("deny"))
    with (
        ScriptedProvider([call, text("done")]) as provider,
        Host(home, approval_config(provider), cwd=workdir, env={}) as host,
    ):
        host.approvals.is_sandboxed = lambda: True
        session = host.new_session()
        host.responders.attach(session.id, person)
        session.run("go")
    assert person.requests == []
